"""What simulated worlds remember of a log for good."""

import msgspec

from eagleray.protocol.records import RecordBatch


class Committed(msgspec.Struct, frozen=True):
    """A batch that some replica's high watermark has passed: from then on it is there, everywhere, for good."""

    next_offset: int
    epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    sequence: int
    is_transactional: bool
    commits: bool | None = None
    """Of a marker: whether it commits."""

    @property
    def key(self) -> tuple[int, int, int]:
        """What is never there twice."""
        return self.producer_id, self.producer_epoch, self.sequence


def committed_of(batch: RecordBatch) -> Committed:
    header = batch.header
    marker = batch.end_transaction_marker() if header.is_control else None
    return Committed(
        header.next_offset,
        header.partition_leader_epoch,
        header.crc,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        None if marker is None else marker.commit,
    )
