"""Records that are encoded and only wait for their producer to say who it is."""

from __future__ import annotations

from eagleray.protocol.records import HEADER_BYTES, CompressionType, build_from_block


class PreparedRecords:
    """The encoded records of one batch; to a sender it is what a filled `BatchBuilder` is.

    It keeps the memory of all the batches alive that were encoded together with it.
    """

    __slots__ = ("_base_timestamp", "_block", "_count", "_max_timestamp")

    def __init__(self, block: memoryview, count: int, base_timestamp: int, max_timestamp: int) -> None:
        self._block = block
        self._count = count
        self._base_timestamp = base_timestamp
        self._max_timestamp = max_timestamp

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"PreparedRecords({self._count} records, {self.size_bytes} bytes)"

    @property
    def size_bytes(self) -> int:
        """The size of the batch without compression, exactly."""
        return HEADER_BYTES + len(self._block)

    def build(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        transactional: bool,
        compression: CompressionType,
    ) -> bytes:
        """Return the batch. This can be done again, as when a producer has got another epoch."""
        return build_from_block(
            self._block,
            self._count,
            self._base_timestamp,
            self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
            compression=compression,
        )
