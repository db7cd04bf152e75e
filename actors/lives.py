"""The lives of a node: which one this is, and what may have been lost since the last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from eagleray.broker.controller.losses import EVERYTHING, NO_LOSS, Loss
from eagleray.broker.filesystem import FileSystem, write_atomically
from eagleray.broker.identities import TopicPartition


class _Record(msgspec.Struct, frozen=True):
    incarnation: int
    boot_id: str
    is_closed: bool = False
    loss: Loss = NO_LOSS
    """What was lost, and nobody has been told yet."""


class Life(NamedTuple):
    """One life of a node, between two registrations."""

    incarnation: int
    loss: Loss
    """What may be gone of that which an earlier life has acknowledged."""


class Lives:
    """Counts the lives of a node on its disk.

    Persists: the newest incarnation, flushed before anybody hears of it, and in which boot of the machine it lived.
    Whoever begins a life has the node's lock, so that the last one is over. An incarnation is at least the time of day
    in microseconds, so that it ascends even where the disk is a new one. Everything is lost where there is no trace of
    an earlier life. Where the machine has booted since, and the last life was not closed in good order, what was not
    flushed is gone: everything but what `after_loss_of_power` names. What a life has lost, those after it have lost
    too, until others were told of it: a life may end before it comes to that.
    """

    def __init__(
        self,
        file_system: FileSystem,
        path: str,
        boot_id: str,
        *,
        after_loss_of_power: Callable[[], tuple[TopicPartition, ...]] = tuple,
        now_us: Callable[[], int] | None = None,
    ) -> None:
        self._file_system = file_system
        self._path = path
        self._boot_id = boot_id
        self._after_loss_of_power = after_loss_of_power
        self._now_us = now_us or time_of_day_us
        self._last = self._read()

    def begin(self, *, after: int = -1, loss: Loss = NO_LOSS) -> Life:
        """Begin a life that comes after all earlier ones, and after the incarnation that others know of."""
        last = self._last
        loss = loss | self._lost_since(last)
        newest = max(after, -1 if last is None else last.incarnation, self._now_us())
        self._write(_Record(newest + 1, self._boot_id, loss=loss))
        return Life(newest + 1, loss)

    def _lost_since(self, last: _Record | None) -> Loss:
        if last is None:
            return EVERYTHING
        # Without a boot id nobody can tell whether the machine has booted.
        if last.is_closed or (self._boot_id and last.boot_id == self._boot_id):
            return last.loss
        return last.loss | Loss((), self._after_loss_of_power(), is_everything=True)

    def told(self) -> None:
        """Note that others know what this life has lost, and do not count on it any more."""
        if self._last is not None and self._last.loss:
            self._write(msgspec.structs.replace(self._last, loss=NO_LOSS))

    def close(self) -> None:
        """Note that everything is on the disk: the next life has lost nothing, whatever happens to the machine."""
        if self._last is not None:
            self._write(msgspec.structs.replace(self._last, is_closed=True))

    def _read(self) -> _Record | None:
        if not self._file_system.exists(self._path):
            return None
        try:
            return msgspec.json.decode(self._file_system.read_bytes(self._path), type=_Record)
        except msgspec.DecodeError:
            return None

    def _write(self, record: _Record) -> None:
        write_atomically(self._file_system, self._path, msgspec.json.encode(record))
        self._last = record


def time_of_day_us() -> int:
    """The time of day in microseconds."""
    return time.time_ns() // 1000
