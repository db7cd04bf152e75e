"""The harness itself: it understands files that are right, and finds what is wrong with others.

The files are packed by hand here, field by field, so that nothing of ours is taken for granted.
"""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.compat.kafka_tools.dump_log import Decoder, KafkaTools
from tests.compat.kafka_tools.dump_output import AbortedTransaction, OffsetIndexEntry, TimeIndexEntry

pytestmark = pytest.mark.kafka_tools

TIMESTAMP_MS = 1_700_000_000_000
TRANSACTIONAL, CONTROL = 0x10, 0x20
COMMIT_MARKER = (struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 3))

TRANSACTION_KEY = struct.pack(">hh", 0, 2) + b"id"
TRANSACTION_VALUE = struct.pack(">hqhibiqq", 0, 7, 1, 60_000, 0, 0, TIMESTAMP_MS, TIMESTAMP_MS)
OFFSET_COMMIT_KEY = struct.pack(">hh", 1, 1) + b"g" + struct.pack(">h", 1) + b"t" + struct.pack(">i", 5)
OFFSET_COMMIT_VALUE = struct.pack(">hqihq", 3, 42, -1, 0, TIMESTAMP_MS)

KeyAndValue = tuple[bytes | None, bytes | None]


def small_varint(number: int) -> bytes:
    assert -64 <= number < 64
    return bytes([((number << 1) ^ (number >> 7)) & 0xFF])


def nullable(field: bytes | None) -> bytes:
    return small_varint(-1) if field is None else small_varint(len(field)) + field


def record(offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = bytes([0, 0]) + small_varint(offset_delta) + nullable(key) + nullable(value) + small_varint(0)
    return small_varint(len(body)) + body


def batch(base_offset: int, records: list[KeyAndValue], *, attributes: int = 0, sequence: int = -1) -> bytes:
    producer_id, producer_epoch = (7, 1) if attributes else (-1, -1)
    payload = b"".join(record(delta, key, value) for delta, (key, value) in enumerate(records))
    header = (attributes, len(records) - 1, TIMESTAMP_MS, TIMESTAMP_MS, producer_id, producer_epoch)
    checked = struct.pack(">hiqqqhii", *header, sequence, len(records)) + payload
    body = struct.pack(">ibI", 4, 2, crc32c(checked)) + checked
    return struct.pack(">qi", base_offset, len(body)) + body


def snapshot(crc_error: int = 0) -> bytes:
    entries = struct.pack(">iqhiqiqiq", 1, 7, 1, 1, 1, 1, TIMESTAMP_MS, 3, -1)
    return struct.pack(">hI", 1, crc32c(entries) ^ crc_error) + entries


class Segment:
    """A transaction of two records, its commit marker, and the indexes of both batches."""

    def __init__(self, directory: Path) -> None:
        self.data = batch(0, [(b"k", b"v"), (None, b"w")], attributes=TRANSACTIONAL, sequence=0)
        self.marker = batch(2, [COMMIT_MARKER], attributes=TRANSACTIONAL | CONTROL)
        self.log, self.index, self.time_index, self.transaction_index, self.snapshot = (
            directory / f"{0:020}.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex", "snapshot")
        )
        self.log.write_bytes(self.data + self.marker)
        self.index.write_bytes(struct.pack(">iiii", 1, 0, 2, len(self.data)))
        self.time_index.write_bytes(struct.pack(">qi", TIMESTAMP_MS, 1))
        self.transaction_index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 2, 3))
        self.snapshot.write_bytes(snapshot())

    def files(self) -> tuple[Path, ...]:
        return self.log, self.index, self.time_index, self.transaction_index, self.snapshot


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return Segment(tmp_path)


def test_good_files_are_understood_without_problem(kafka_tools: KafkaTools, segment: Segment):
    before = [file.read_bytes() for file in segment.files()]
    dump = kafka_tools.dump(*segment.files(), decoder=Decoder.TEXT)

    assert dump.problems == ()
    assert [file.read_bytes() for file in segment.files()] == before
    data, marker = dump.files[segment.log].batches
    assert (data.base_offset, data.last_offset, data.count) == (0, 1, 2)
    assert (data.base_sequence, data.last_sequence) == (0, 1)
    assert (data.producer_id, data.producer_epoch, data.partition_leader_epoch) == (7, 1, 4)
    assert (data.is_transactional, data.is_control, data.is_valid) == (True, False, True)
    assert (data.magic, data.compression, data.delete_horizon_ms) == (2, "none", None)
    assert (data.max_timestamp_ms, data.size) == (TIMESTAMP_MS, len(segment.data))
    assert [(each.offset, each.key, each.payload) for each in data.records] == [(0, "k", "v"), (1, None, "w")]
    assert (marker.is_control, marker.position) == (True, len(segment.data))
    assert [(each.marker, each.coordinator_epoch) for each in marker.records] == [("COMMIT", 3)]
    assert dump.files[segment.index].offset_index == [
        OffsetIndexEntry(1, 0),
        OffsetIndexEntry(2, len(segment.data)),
    ]
    assert dump.files[segment.time_index].time_index == [TimeIndexEntry(TIMESTAMP_MS, 1)]
    assert dump.files[segment.transaction_index].aborted_transactions == [AbortedTransaction(0, 7, 0, 2, 3)]
    (producer,) = dump.files[segment.snapshot].producers
    assert (producer.producer_id, producer.producer_epoch, producer.coordinator_epoch) == (7, 1, 3)
    assert (producer.first_sequence, producer.last_sequence, producer.last_offset) == (0, 1, 1)
    assert producer.current_transaction_first_offset is None


def test_sane_indexes_pass_the_check_of_a_starting_broker(kafka_tools: KafkaTools, segment: Segment):
    assert kafka_tools.dump(segment.index, segment.time_index, check_index_sanity=True).problems == ()


def test_everything_wrong_is_a_problem(kafka_tools: KafkaTools, segment: Segment):
    """One run over one segment with every fault that lets the tool go on to the next file."""
    wrong_crc = bytearray(segment.marker)
    wrong_crc[17] ^= 1
    segment.log.write_bytes(segment.data + bytes(wrong_crc) + batch(5, [(None, b"x")]) + b"torn")
    segment.index.write_bytes(struct.pack(">iiii", 0, 0, 2, len(segment.data)))
    segment.time_index.write_bytes(struct.pack(">qiqi", TIMESTAMP_MS + 1, 1, TIMESTAMP_MS, 2))
    segment.snapshot.write_bytes(snapshot(crc_error=1))
    unknown = segment.log.with_suffix(".unknown")
    unknown.touch()

    problems = kafka_tools.dump(segment.log, segment.index, segment.time_index, segment.snapshot, unknown).problems

    for expected in (
        "the batch at offset 2 has a wrong CRC",
        "Found 4 invalid bytes at the end of",
        "Non-consecutive offsets in",
        "2 is followed by 5",
        "Mismatches in",
        "Index offset: 0, log offset: 1",
        "Found timestamp mismatch in",
        "Found out of order timestamp in",
        "Snapshot is corrupt (CRC is no longer valid)",
        "Ignoring unknown file",
    ):
        assert any(expected in problem for problem in problems), f"{expected!r} not in {problems}"


def test_gaps_of_compaction_may_be_allowed(kafka_tools: KafkaTools, segment: Segment):
    segment.log.write_bytes(segment.data + batch(5, [(None, b"x")]))
    dump = kafka_tools.dump(segment.log, allow_gaps=True)
    assert dump.problems == ()
    assert [each.offset for each in dump.files[segment.log].records] == [0, 1, 5]


def test_an_exception_of_the_tool_is_a_problem(kafka_tools: KafkaTools, segment: Segment):
    segment.index.write_bytes(struct.pack(">ii", 1, 10_000))
    problems = kafka_tools.dump(segment.index).problems
    assert any("Exception" in problem for problem in problems)
    assert "the tool ended with exit code 1" in problems


@pytest.mark.parametrize(
    ("decoder", "key", "value", "decoded_key", "decoded_value"),
    [
        (
            Decoder.TRANSACTION_LOG,
            TRANSACTION_KEY,
            TRANSACTION_VALUE,
            {"transactionalId": "id"},
            {"producerId": 7, "producerEpoch": 1, "transactionTimeoutMs": 60_000, "transactionStatus": 0},
        ),
        (
            Decoder.CONSUMER_OFFSETS,
            OFFSET_COMMIT_KEY,
            OFFSET_COMMIT_VALUE,
            {"group": "g", "topic": "t", "partition": 5},
            {"offset": 42, "leaderEpoch": -1, "metadata": "", "commitTimestamp": TIMESTAMP_MS},
        ),
    ],
    ids=["transaction-log", "consumer-offsets"],
)
def test_decoders(kafka_tools: KafkaTools, segment: Segment, decoder, key, value, decoded_key, decoded_value):
    segment.log.write_bytes(batch(0, [(key, value), (key, None)]))
    dump = kafka_tools.dump(segment.log, decoder=decoder)
    assert dump.problems == ()
    written, deleted = (each.decoded() for each in dump.files[segment.log].records)
    assert written[0]["data"] == decoded_key
    assert written[1]["data"].items() >= decoded_value.items()
    assert deleted == (written[0], None)


def test_a_record_that_a_decoder_cannot_read_is_a_problem(kafka_tools: KafkaTools, segment: Segment):
    unknown_type = (struct.pack(">h", 999), b"")
    segment.log.write_bytes(batch(0, [(b"", b""), unknown_type]))
    problems = kafka_tools.dump(segment.log, decoder=Decoder.TRANSACTION_LOG).problems
    assert any("Error at offset 0" in problem for problem in problems)
    assert any("Unknown record type 999 at offset 1" in problem for problem in problems)
