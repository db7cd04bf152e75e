"""The incarnations of a node: which one this is, and what may have been lost since the last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from eagleray.broker.checked_file import FileDamaged, decode_checked_or_older
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.generations import read_generations, summed, write_generation
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.losses import EVERYTHING, NO_LOSS, Loss

_VERSION: Final = 2


class IncarnationRecord(msgspec.Struct, frozen=True):
    """What a node has written down of its newest incarnation."""

    incarnation: int
    boot_id: str
    is_closed: bool = False
    loss: Loss = NO_LOSS
    """What was lost and has not been reported to the controller yet."""

    version: int = _VERSION
    sequence: int = 0
    """The number of the generation."""

    @classmethod
    def decode(cls, data: bytes) -> IncarnationRecord | None:
        """Read the file; None where it is damaged. Version 1 had no checksum."""
        try:
            return decode_checked_or_older(data, cls)
        except FileDamaged:
            return None


class Incarnation(NamedTuple):
    """One incarnation of a node, between two registrations."""

    number: int
    loss: Loss
    """What may be lost of the records that an earlier incarnation has acknowledged."""


class Incarnations:
    """Counts the incarnations of a node on its disk.

    Persists: the newest incarnation, flushed before any other node hears of it, in two generations with checksums,
    and in which boot of the machine it ran. The node starts an incarnation under its lock, so the last one is over.
    An incarnation is at least the time of day in microseconds, so that it ascends even with a new disk. Everything
    is lost where there is no trace of an earlier incarnation, or one that cannot be read. Where the machine has
    booted since, and the last incarnation was not closed in good order, what was not flushed is lost: everything
    but what `after_loss_of_power` names. A loss is carried over to later incarnations until one of them has
    reported it.
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

    def begin(self, *, after: int = -1, loss: Loss = NO_LOSS) -> Incarnation:
        """Start an incarnation that is newer than all earlier ones, and than the one that the controller knows."""
        last = self._last
        loss = loss | self._lost_since(last)
        newest = max(after, -1 if last is None else last.incarnation, self._now_us())
        self._write(IncarnationRecord(newest + 1, self._boot_id, loss=loss))
        return Incarnation(newest + 1, loss)

    def _lost_since(self, last: IncarnationRecord | None) -> Loss:
        if last is None:
            return EVERYTHING
        # Without a boot id it is unknown whether the machine has booted.
        if last.is_closed or (self._boot_id and last.boot_id == self._boot_id):
            return last.loss
        return last.loss | Loss((), self._after_loss_of_power(), is_everything=True)

    def reported(self) -> None:
        """Note that the controller knows the losses of this incarnation, and no longer counts on what is lost."""
        if self._last is not None and self._last.loss:
            self._write(msgspec.structs.replace(self._last, loss=NO_LOSS))

    def close(self) -> None:
        """Note that everything is on the disk: the next incarnation has lost nothing, even after a loss of power."""
        if self._last is not None:
            self._write(msgspec.structs.replace(self._last, is_closed=True))

    def _read(self) -> IncarnationRecord | None:
        found = read_generations(self._file_system, self._path, IncarnationRecord.decode)
        if found.newest is None or not found.damaged:
            return found.newest
        # The one that cannot be read may have been newer, and have named more.
        return msgspec.structs.replace(found.newest, loss=EVERYTHING, is_closed=False)

    def _write(self, record: IncarnationRecord) -> None:
        sequence = 1 if self._last is None else self._last.sequence + 1
        record = msgspec.structs.replace(record, version=_VERSION, sequence=sequence)
        write_generation(self._file_system, self._path, sequence, summed(msgspec.json.encode(record)))
        self._last = record


def time_of_day_us() -> int:
    """The time of day in microseconds."""
    return time.time_ns() // 1000
