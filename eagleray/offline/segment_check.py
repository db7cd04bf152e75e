"""Reading the segments of a log whole: their batches one by one, and their indexes against the batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log import LogDamaged, names
from eagleray.broker.log.index_files import IndexFiles
from eagleray.broker.log.leader_epochs import LeaderEpochs
from eagleray.broker.log.offset_index import OffsetIndex
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.recovery import Expected, Recovery, scan_segment
from eagleray.broker.log.segment import Segment
from eagleray.broker.log.sweeping import log_offsets
from eagleray.broker.log.time_index import TimeIndex
from eagleray.broker.log.transaction_index import TransactionIndex
from eagleray.broker.log.valid_behind import has_valid_batch
from eagleray.offline.findings import Finding, Severity
from eagleray.offline.small_files_check import repair_command


def check_batches(files: FileSystem, directory: str, *, may_have_gaps: bool) -> Iterator[Finding]:
    """Yield, for each segment by itself, the first batch that is not right; a log that was opened needs none of it."""
    with _segments(files, directory) as segments:
        for segment in segments:
            expected = Expected(segment.base_offset, may_have_gaps)
            valid_bytes = scan_segment(segment, ProducerState(), LeaderEpochs(), expected, Recovery(), now_ms=0)
            if valid_bytes < segment.size_bytes:
                yield _damaged_batch(directory, segment, valid_bytes, expected.next_offset)


def _damaged_batch(directory: str, segment: Segment, position: int, next_offset: int) -> Finding:
    is_followed = has_valid_batch(segment, position + 1, next_offset)
    behind = "whole batches lie behind it" if is_followed else "nothing behind it can be read"
    return Finding(
        severity=Severity.DAMAGE,
        path=names.segment_file(directory, segment.base_offset, names.LOG_SUFFIX),
        what=f"the batch at byte {position}, at offset {next_offset} or behind it, is not what was written; {behind}",
        position=position,
        offset=next_offset,
    )


def check_indexes(files: FileSystem, directory: str, *, is_last_closed: bool) -> Iterator[Finding]:
    """Yield what is wrong with the index files of segments, which is made anew from the batches."""
    with _segments(files, directory) as segments:
        for segment in segments if is_last_closed else segments[:-1]:
            yield from _check_indexes_of(files, directory, segment)


def _check_indexes_of(files: FileSystem, directory: str, segment: Segment) -> Iterator[Finding]:
    start = names.segment_file(directory, segment.base_offset, "")
    index_files = IndexFiles(files, start, "")
    if not index_files.load():
        yield _wrong(start + names.CHECKSUMS_SUFFIX, directory, "the checksums of the indexes are missing or damaged")
        return
    if not index_files.has(names.OFFSET_INDEX_SUFFIX):
        yield _wrong(start + names.OFFSET_INDEX_SUFFIX, directory, "the offset index is missing")
    readable = {}
    for suffix in names.INDEX_SUFFIXES:
        data = index_files.read(suffix)
        if data is None:
            yield _wrong(start + suffix, directory, "it is not what was written")
        else:
            readable[suffix] = data
    for suffix, why in _why_unfit(readable, segment):
        yield _wrong(start + suffix, directory, why)


def _why_unfit(readable: dict[str, bytes], segment: Segment) -> Iterator[tuple[str, str]]:
    """Why indexes that are as they were written do not lead to the batches of their segment."""
    if TransactionIndex.decode(readable.get(names.TRANSACTION_INDEX_SUFFIX, b"")) is None:
        yield names.TRANSACTION_INDEX_SUFFIX, "it is no transaction index"
    times = TimeIndex.decode(segment.base_offset, readable.get(names.TIME_INDEX_SUFFIX, b""))
    if times is None:
        yield names.TIME_INDEX_SUFFIX, "it is no time index"
    offsets = OffsetIndex.decode(segment.base_offset, readable.get(names.OFFSET_INDEX_SUFFIX, b""))
    if offsets is None:
        yield names.OFFSET_INDEX_SUFFIX, "it is no offset index"
    timestamps = {offset: timestamp_ms for timestamp_ms, offset in times or ()}
    positions = {position: offset for offset, position in offsets or ()}
    with suppress(LogDamaged):  # The batches themselves are what is wrong, which is said of them.
        for position, header in segment.headers():
            if positions.get(position) == header.last_offset:
                del positions[position]
            if timestamps.get(header.last_offset) == header.max_timestamp:
                del timestamps[header.last_offset]
        for position, offset in [*positions.items()][:1]:
            yield names.OFFSET_INDEX_SUFFIX, f"for offset {offset} it leads to byte {position}, where no such batch is"
        for offset in [*timestamps][:1]:
            yield names.TIME_INDEX_SUFFIX, f"it names offset {offset}, where no batch of that timestamp ends"


@contextmanager
def _segments(files: FileSystem, directory: str) -> Iterator[Sequence[Segment]]:
    opened: list[Segment] = []
    try:
        for base_offset in log_offsets(files, directory):
            segment = Segment(files, directory, base_offset, index_interval_bytes=0, created_ms=0)
            opened.append(segment)
        yield opened
    finally:
        for segment in opened:
            segment.close()


def _wrong(path: str, directory: str, what: str) -> Finding:
    return Finding(severity=Severity.DERIVED, path=path, what=what, help=repair_command(directory))
