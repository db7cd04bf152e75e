"""The records of many batches in one buffer, and the positions of the fields of each.

The start of a record follows only from the lengths of all records before it. The chain of lengths of one block cannot
be vectorised, but those of many blocks can be followed side by side. A single block is followed by itself, in one go as
long as its records have the same length.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from eagleray.pipelines.columnar.arrays import Extents
from eagleray.pipelines.columnar.headers import HeaderFields, locate_headers
from eagleray.pipelines.columnar.varints import PADDING_BYTES, Bytes, Integers, decode_varints
from eagleray.protocol.errors import InvalidRecord, RecordTooLarge
from eagleray.protocol.records import DEFAULT_MAX_DECOMPRESSED_BYTES, HEADER_BYTES, RecordBatch
from eagleray.protocol.records.header import COMPRESSION_MASK
from eagleray.protocol.records.varint import decode_varint

MIN_RECORD_BYTES = 7
MAX_JOINED_BYTES = 2**31 - 1 - PADDING_BYTES
"""Arrow's offsets into binary columns have 32 bits."""


ENOUGH_BLOCKS = 12
"""From so many on, one step of numpy for all of them takes less time than one of Python for each."""

_PADDING = bytes(PADDING_BYTES)

_LONG_RUN = 32
_MANY_RECORDS = 512
_FIRST_WINDOW = 256
_LAST_WINDOW = 8192


class JoinedBlocks(msgspec.Struct, frozen=True):
    """Blocks of records, one behind the other in one buffer, and where each begins and how many it has."""

    buffer: bytes
    data: Bytes
    """The same buffer, for numpy."""
    starts: Integers
    """Where each block begins, and behind the last of them where it ends."""
    counts: Integers
    first_rows: Integers
    """The row of each block's first record, and behind the last of them the number of rows."""

    @property
    def rows(self) -> int:
        """How many records there are, by what the headers of the batches say."""
        return int(self.first_rows[-1])


class RecordFields(msgspec.Struct, frozen=True):
    """The fields of records, one element a record."""

    timestamp_deltas: Integers
    offset_deltas: Integers
    keys: Extents
    values: Extents
    headers: HeaderFields | None
    """None when no record has any."""


def join_blocks(batches: Sequence[RecordBatch], max_batch_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> JoinedBlocks:
    """Put the records of the batches behind each other.

    Raises InvalidRecord when a batch cannot have as many as it says, and what unpacking raises.
    """
    blocks: list[bytes | memoryview] = []
    sizes, counts = [0], [0]
    for batch in batches:
        header = batch.header
        # Where batches are small this is most of the work, and asking the batch takes twice as long.
        is_compressed = header.attributes & COMPRESSION_MASK
        block = batch.records_block(max_bytes=max_batch_bytes) if is_compressed else batch.view[HEADER_BYTES:]
        count = header.record_count
        if not 0 <= count * MIN_RECORD_BYTES <= len(block) or (count == 0 and len(block) > 0):
            raise InvalidRecord(f"{count} records do not fit {len(block)} bytes")
        blocks.append(block)
        sizes.append(len(block))
        counts.append(count)
    starts, first_rows = np.cumsum(sizes), np.cumsum(counts)
    if starts[-1] > MAX_JOINED_BYTES:
        raise RecordTooLarge(f"{starts[-1]} bytes of records are too many for one Arrow batch; decode fewer at once")
    buffer = b"".join((*blocks, _PADDING))
    return JoinedBlocks(buffer, np.frombuffer(buffer, np.uint8), starts, np.array(counts[1:], np.int64), first_rows)


def locate_fields(blocks: JoinedBlocks) -> RecordFields:
    """Find the fields of every record, of which there has to be at least one.

    Raises InvalidRecord, or IndexError where a field leads out of the buffer, for blocks that hold anything but the
    records that they should.
    """
    data = blocks.data
    starts = find_record_starts(blocks)
    lengths, positions = decode_varints(data, starts, 32)
    ends = positions + lengths
    check_record_ends(blocks, starts, ends)
    # The byte between is the attributes, which have no meaning yet.
    timestamp_deltas, positions = decode_varints(data, positions + 1, 64)
    offset_deltas, positions = decode_varints(data, positions, 32)
    keys, positions = _locate(data, positions, ends)
    values, positions = _locate(data, positions, ends)
    headers = _locate_headers(data, positions, ends)
    return RecordFields(timestamp_deltas, offset_deltas, keys, values, headers)


def _locate(data: Bytes, positions: Integers, ends: Integers) -> tuple[Extents, Integers]:
    """Find a field with its length before it, and the positions after it."""
    lengths, starts = decode_varints(data, positions, 32)
    after = starts + np.maximum(lengths, 0)
    if (after > ends).any():
        raise InvalidRecord("a key or a value reaches out of its record")
    return Extents(starts, lengths), after


def _locate_headers(data: Bytes, positions: Integers, ends: Integers) -> HeaderFields | None:
    has_headers = data[positions] != 0
    rows = np.flatnonzero(has_headers)
    without_headers = np.flatnonzero(~has_headers) if rows.size else slice(None)
    if (positions[without_headers] + 1 != ends[without_headers]).any():
        raise InvalidRecord("a record does not end where its length says")
    return locate_headers(data, rows, positions[rows], ends[rows]) if rows.size else None


def check_record_ends(blocks: JoinedBlocks, starts: Integers, ends: Integers) -> None:
    """Raise InvalidRecord unless each block begins with its first record, and each record ends where the next begins.

    With the ends computed from the lengths at `starts`, this proves them all right, however they were found.
    """
    next_starts = np.append(starts[1:], blocks.starts[-1])
    has_records = blocks.counts > 0
    first_rows = blocks.first_rows[:-1][has_records]
    if (starts[first_rows] != blocks.starts[:-1][has_records]).any() or (ends != next_starts).any():
        raise InvalidRecord("the lengths of the records do not fill their batch")


def _strides() -> Integers:
    """What the first two bytes of a record say about how far it is to the next, 0 where a third byte is needed."""
    both = np.arange(1 << 16, dtype=np.int64)
    first, second = both & 0xFF, both >> 8
    one_byte, two_bytes = 1 + (first >> 1), 2 + ((first & 0x7F | second << 7) >> 1)
    return np.where(first < 0x80, one_byte, np.where(second < 0x80, two_bytes, 0))


_STRIDES = _strides()


def find_record_starts(blocks: JoinedBlocks) -> Integers:
    """Return where the records begin, if all the lengths are right; the caller has to check that they are.

    For lengths that are not right it gives positions in the buffer all the same, or raises IndexError or
    InvalidRecord.
    """
    starts = np.empty(blocks.rows, np.int64)
    order = np.argsort(-blocks.counts, kind="stable")
    positions, first_rows = blocks.starts[:-1][order], blocks.first_rows[:-1][order]
    done = 0
    if not _has_long_runs(blocks, int(positions[0])):
        done, positions = _follow_together(blocks, order, positions, first_rows, starts)
    for block, position, first_row in zip(order.tolist(), positions.tolist(), first_rows.tolist(), strict=False):
        end_row = first_row + int(blocks.counts[block])
        _follow_one(blocks, position, starts[first_row + done : end_row])
    return starts


def _has_long_runs(blocks: JoinedBlocks, position: int) -> bool:
    """Guess from the largest block whether each is followed faster by itself, for its records have the same length."""
    if blocks.rows < _MANY_RECORDS * len(blocks.counts):
        return False
    return _follow_run(blocks.data, position, np.empty(_LONG_RUN, np.int64)) == _LONG_RUN


def _follow_together(
    blocks: JoinedBlocks, order: Integers, positions: Integers, first_rows: Integers, starts: Integers
) -> tuple[int, Integers]:
    """Follow the blocks side by side, from the one with most records to the one with fewest, while they are many.

    Return how many records of each were found, and where those go on that have more.
    """
    pairs = np.ndarray((len(blocks.buffer) - 1,), "<u2", blocks.buffer, 0, (1,))
    counts = blocks.counts[order].tolist()
    step = 0
    while len(counts) >= ENOUGH_BLOCKS:
        # All that are left have another record until the one with fewest of them ends.
        steps = np.arange(step, counts[-1])
        found, positions = _follow_steps(blocks.data, pairs, positions[: len(counts)], len(steps))
        starts[np.add.outer(steps, first_rows[: len(counts)])] = found
        step = counts[-1]
        while counts and counts[-1] == step:
            counts.pop()
    return step, positions[: len(counts)]


def _follow_steps(
    data: Bytes, pairs: npt.NDArray[np.uint16], positions: Integers, steps: int
) -> tuple[Integers, Integers]:
    """Follow some blocks for so many records; return the starts of those, and where the next ones begin."""
    found = np.empty((steps, len(positions)), np.int64)
    for step in range(steps):
        found[step] = positions
        strides = _STRIDES[pairs[positions]]
        is_near = np.count_nonzero(strides) == len(strides)
        positions = positions + strides if is_near else _step_far(data, positions)
    return found, positions


def _step_far(data: Bytes, positions: Integers) -> Integers:
    """Step over records of which some have a length of more than two bytes."""
    lengths, after = decode_varints(data, positions, 32)
    # A negative length is found to be wrong later on; until then it must not lead out of the buffer.
    return after + np.maximum(lengths, 0)


def _follow_one(blocks: JoinedBlocks, position: int, starts: Integers) -> None:
    """Fill `starts` with those of one block's records from `position` on."""
    row, window = 0, _FIRST_WINDOW
    while row < len(starts):
        found = _follow_run(blocks.data, position, starts[row : row + window])
        if found >= _LONG_RUN:
            position += found * int(starts[row + 1] - starts[row])
        else:
            found = min(window, len(starts) - row)
            position = _follow_each(blocks.buffer, position, starts[row : row + found])
        row += found
        # Looking for a run in vain costs some steps, and so does the end of a run, so both are done less and less.
        window = min(window * 2, _LAST_WINDOW)


def _follow_run(data: Bytes, position: int, starts: Integers) -> int:
    """Fill `starts` as long as the records have the length of the first of them; return how many have."""
    stride = int(_STRIDES[int(data[position]) | int(data[position + 1]) << 8])
    if stride == 0:
        return 0
    end = position + stride * len(starts)
    same = data[position:end:stride] == data[position]
    following = data[position + 1 : end : stride] == data[position + 1]
    shorter = min(len(same), len(following))
    is_same = same[:shorter] & following[:shorter]
    found = shorter if is_same.all() else int(is_same.argmin())
    starts[:found] = np.arange(position, position + found * stride, stride)
    return found


def _follow_each(buffer: bytes, position: int, starts: Integers) -> int:
    """Fill `starts` record by record; return where the next one begins."""
    found: list[int] = []
    append = found.append
    for _ in range(len(starts)):
        append(position)
        first = buffer[position]
        if first < 0x80:
            position += 1 + (first >> 1)
            continue
        second = buffer[position + 1]
        if second < 0x80:
            position += 2 + ((first & 0x7F | second << 7) >> 1)
        else:
            length, position = decode_varint(buffer, position)
            position += max(length, 0)
    starts[:] = found
    return position
