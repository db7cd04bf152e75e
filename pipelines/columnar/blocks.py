"""The records of many batches as one buffer, so that what follows is vectorised over all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from eagleray.pipelines.columnar.varints import PADDING_BYTES, Bytes, Integers
from eagleray.protocol.errors import InvalidRecord, RecordTooLarge
from eagleray.protocol.records import DEFAULT_MAX_DECOMPRESSED_BYTES, HEADER_BYTES
from eagleray.protocol.records.header import COMPRESSION_MASK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eagleray.protocol.records import RecordBatch

MIN_RECORD_BYTES = 7
MAX_JOINED_BYTES = 2**31 - 1 - PADDING_BYTES
"""Arrow's offsets into binary columns have 32 bits."""

_PADDING = bytes(PADDING_BYTES)


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
