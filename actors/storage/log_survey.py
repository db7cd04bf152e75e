"""What the files of a partition say, read without changing any of them, whatever state they are in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import msgspec

from eagleray.broker.filesystem import File, FileSystem
from eagleray.broker.log import names
from eagleray.broker.log.checkpoint import Checkpoint, read_checkpoint
from eagleray.broker.log.epoch_file import read_epochs
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.producer_snapshot import decode_snapshot
from eagleray.broker.log.recovery import snapshot_offsets, valid_batches
from eagleray.broker.log.sweeping import log_offsets
from eagleray.protocol.records import RecordBatch


class LogSurvey(msgspec.Struct, kw_only=True):
    """What was found in a partition's directory."""

    end_offset: int = 0
    last_epoch: int = -1
    """The leader epoch of the last whole batch."""

    newest_epoch: int = -1
    """The newest leader epoch that any of the files names."""

    highest_producer_id: int = -1
    log_start_offset: int = 0
    problems: list[str] = msgspec.field(default_factory=list)
    """What could not be read; the rest was."""


class _SegmentFile:
    def __init__(self, file: File) -> None:
        self._file = file
        self.size_bytes = file.size()

    def read(self, position: int, length: int) -> bytes:
        return self._file.read(position, length)


def survey_log(
    file_system: FileSystem, directory: str, look_at: Callable[[RecordBatch], None] = lambda _: None
) -> LogSurvey:
    """Read a partition's directory; `look_at` is called for each whole batch, in order."""
    found = LogSurvey()
    _look_at_small_files(file_system, directory, found)
    for batch in _batches(file_system, directory, found):
        header = batch.header
        found.end_offset = max(found.end_offset, header.next_offset)
        found.last_epoch = max(found.last_epoch, header.partition_leader_epoch)
        found.highest_producer_id = max(found.highest_producer_id, header.producer_id)
        look_at(batch)
    found.newest_epoch = max(found.newest_epoch, found.last_epoch)
    return found


def _look_at_small_files(file_system: FileSystem, directory: str, found: LogSurvey) -> None:
    checkpoint = Checkpoint()
    try:
        checkpoint = read_checkpoint(file_system, directory).checkpoint
    except LogDamaged as error:
        found.problems.append(str(error))
    found.log_start_offset = found.end_offset = checkpoint.log_start_offset
    epochs = read_epochs(file_system, directory)
    known = [epoch for epoch, _ in checkpoint.epochs]
    found.newest_epoch = max([-1 if epochs is None else epochs.latest_epoch, *known])
    for offset in snapshot_offsets(file_system, directory):
        path = names.segment_file(directory, offset, names.SNAPSHOT_SUFFIX)
        entries = decode_snapshot(file_system.read_bytes(path))
        if entries is None:
            found.problems.append(f"{path} cannot be read")
            continue
        found.highest_producer_id = max([found.highest_producer_id, *(each.producer_id for each in entries)])


def _batches(file_system: FileSystem, directory: str, found: LogSurvey) -> Iterator[RecordBatch]:
    """Yield the whole batches of all segments; what lies behind a damaged one in its segment cannot be found."""
    for base_offset in log_offsets(file_system, directory):
        path = names.segment_file(directory, base_offset, names.LOG_SUFFIX)
        found.end_offset = max(found.end_offset, base_offset)
        with closing(file_system.open(path)) as file:
            segment, valid_bytes = _SegmentFile(file), 0
            for position, batch in valid_batches(segment):
                yield batch
                valid_bytes = position + len(batch.view)
            if valid_bytes < segment.size_bytes:
                lost = segment.size_bytes - valid_bytes
                found.problems.append(
                    f"{path}: the batch at byte {valid_bytes} is not valid, nor the {lost} from there"
                )
