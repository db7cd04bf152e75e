"""Nodes that go on wrongly after their disk has refused a write."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from eagleray.actors.storage.coordinator_log import CoordinatorLog
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.segment import Segment, SegmentState
from eagleray.broker.runtime.disk_watch import DiskWatch
from eagleray.protocol.errors import ErrorCode


def _keeping_producers() -> AbstractContextManager[Any]:
    """An append that is undone, and whose producers stay as it has left them."""

    def undo(self: ProducerState, end_offset: int) -> None:
        self.unstable.truncate_from(end_offset)

    return mock.patch.object(ProducerState, "undo_append", undo)


def _keeping_batches() -> AbstractContextManager[Any]:
    """An append that is undone, and of which the file keeps what the disk has taken."""

    original = Segment.undo_append

    def undo(self: Segment, state: SegmentState, end_offset: int) -> None:
        with mock.patch.object(self._file, "size", return_value=0):
            original(self, state, end_offset)

    return mock.patch.object(Segment, "undo_append", undo)


def _writing_on() -> AbstractContextManager[Any]:
    """Leaders that write what producers send, whether there is room or not."""
    refusal = property(lambda self: "", lambda self, value: None)
    return mock.patch.object(DiskWatch, "refusal", refusal, create=True)


def _coordinating_on() -> AbstractContextManager[Any]:
    """Coordinators that write whether there is room or not."""
    original = CoordinatorLog.check_append

    def check_append(self: CoordinatorLog, number: int, epoch: int) -> ErrorCode:
        watch = self._context.disk_guard.watch
        with mock.patch.object(watch, "refusal", ""):
            return original(self, number, epoch)

    return mock.patch.object(CoordinatorLog, "check_append", check_append)


DISK_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "refused append that leaves its producers": _keeping_producers,
    "refused append that leaves its batches": _keeping_batches,
    "producers that write to a full disk": _writing_on,
    "coordinators that write to a full disk": _coordinating_on,
}
