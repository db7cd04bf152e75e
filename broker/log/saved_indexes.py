"""The indexes of a segment as its files have them."""

from __future__ import annotations

from eagleray.broker.log import names
from eagleray.broker.log.index_files import IndexFiles
from eagleray.broker.log.offset_index import OffsetIndex
from eagleray.broker.log.time_index import TimeIndex
from eagleray.broker.log.transaction_index import TransactionIndex


def read_indexes(index_files: IndexFiles, base_offset: int) -> tuple[OffsetIndex, TimeIndex, TransactionIndex] | None:
    """Read all three indexes of a segment; None where one is missing or damaged."""
    offsets = index_files.read(names.OFFSET_INDEX_SUFFIX)
    times = index_files.read(names.TIME_INDEX_SUFFIX)
    transactions = index_files.read(names.TRANSACTION_INDEX_SUFFIX)
    if offsets is None or times is None or transactions is None:
        return None
    offset_index = OffsetIndex.decode(base_offset, offsets)
    time_index = TimeIndex.decode(base_offset, times)
    transaction_index = TransactionIndex.decode(transactions)
    if offset_index is None or time_index is None or transaction_index is None:
        return None
    return offset_index, time_index, transaction_index
