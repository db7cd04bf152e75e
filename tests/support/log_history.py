"""What was appended to a log, as a plain list, and what a reader of that list would conclude.

This is the model that a log is compared with. It knows nothing of files, indexes or snapshots.
"""

from collections.abc import Iterable, Sequence

import msgspec

from eagleray.protocol.records import BatchHeader, RecordBatch, split_batches

CACHED_BATCHES = 5
LAST_SEQUENCE = 2**31 - 1


class Entry(msgspec.Struct, frozen=True):
    """A batch in its place: the bytes that a log should hold, from `base_offset` to before `next_offset`."""

    data: bytes
    header: BatchHeader

    @classmethod
    def of(cls, data: bytes) -> "Entry":
        return cls(data, split_batches(data)[0].header)

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        return self.header.next_offset

    def batch(self) -> RecordBatch:
        return RecordBatch(memoryview(self.data), self.header)

    def values(self) -> list[tuple[int, bytes | None]]:
        return [(record.offset, record.value) for record in self.batch().records()]


class ModelProducer(msgspec.Struct):
    """A producer as the batches in the list show it."""

    epoch: int
    coordinator_epoch: int = -1
    next_sequence: int = 0
    last_batches: list[Entry] = []
    open_since_offset: int | None = None


class Conclusion(msgspec.Struct):
    """What follows from a list of batches."""

    producers: dict[int, ModelProducer]
    is_committed: dict[int, bool]
    """For each base offset of a data batch that is decided: whether a committed reader sees it."""
    first_offsets_by_marker: dict[int, int]
    """For each marker that ended a transaction: where the transaction began."""


def conclude(entries: Iterable[Entry]) -> Conclusion:
    """Read the list from its beginning."""
    conclusion = Conclusion({}, {}, {})
    undecided: dict[int, list[int]] = {}
    for entry in entries:
        header = entry.header
        if header.producer_id < 0:
            conclusion.is_committed[header.base_offset] = True
            continue
        producer = conclusion.producers.setdefault(header.producer_id, ModelProducer(header.producer_epoch))
        if header.producer_epoch != producer.epoch:
            producer.epoch, producer.next_sequence, producer.last_batches = header.producer_epoch, 0, []
        if header.is_control:
            _end_transaction(conclusion, producer, entry, undecided.pop(header.producer_id, []))
        else:
            _note_batch(conclusion, producer, entry)
            if header.is_transactional:
                undecided.setdefault(header.producer_id, []).append(header.base_offset)
    return conclusion


def _note_batch(conclusion: Conclusion, producer: ModelProducer, entry: Entry) -> None:
    header = entry.header
    producer.next_sequence = 0 if header.last_sequence == LAST_SEQUENCE else header.last_sequence + 1
    producer.last_batches = [*producer.last_batches, entry][-CACHED_BATCHES:]
    if not header.is_transactional:
        conclusion.is_committed[header.base_offset] = True
    elif producer.open_since_offset is None:
        producer.open_since_offset = header.base_offset


def _end_transaction(
    conclusion: Conclusion, producer: ModelProducer, entry: Entry, batch_offsets: Sequence[int]
) -> None:
    marker = entry.batch().end_transaction_marker()
    assert marker is not None
    producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
    if producer.open_since_offset is not None:
        conclusion.first_offsets_by_marker[entry.base_offset] = producer.open_since_offset
    producer.open_since_offset = None
    conclusion.is_committed |= dict.fromkeys(batch_offsets, marker.commit)


class History:
    """What a log was told, and what of it has to survive what.

    `entries` were acknowledged. `in_flight` were on their way when the process died: a prefix of them may be there.
    Everything below `flushed_end` survives even a loss of power.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.in_flight: list[Entry] = []
        self.flushed_end = 0
        self.start_offset = 0
        self.start_in_flight = 0
        self.truncating_to: int | None = None
        self.high_watermark = 0

    @property
    def end_offset(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.start_offset

    def promise(self, entries: Sequence[Entry]) -> None:
        self.in_flight = list(entries)

    def acknowledge(self) -> None:
        self.entries += self.in_flight
        self.in_flight = []

    def required_end(self, *, lost_power: bool) -> int:
        """Return the offset up to which nothing may be missing."""
        ends = [self.end_offset]
        if lost_power:
            ends.append(self.flushed_end)
        if self.truncating_to is not None:
            ends.append(self.truncating_to)
        return min(ends)

    def truncated(self, to_offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry.next_offset <= to_offset]
        self.truncating_to = None
        self.flushed_end = min(self.flushed_end, to_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)

    def survived(self, end_offset: int, *, lost_power: bool) -> None:
        """Take what recovery found, which was compared with what was promised, for what there is now."""
        self.acknowledge()
        self.entries = [entry for entry in self.entries if entry.next_offset <= end_offset]
        self.truncating_to = None
        # What came back from the disk itself will come back again.
        self.flushed_end = end_offset if lost_power else min(self.flushed_end, end_offset)
