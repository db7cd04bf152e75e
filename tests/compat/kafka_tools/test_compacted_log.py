"""Apache Kafka's own tool reads what our compaction writes, and finds nothing wrong but the gaps."""

from pathlib import Path

import pytest

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.log import names
from eagleray.protocol.records import CompressionType
from tests.compat.kafka_tools.dump_log import KafkaTools
from tests.support.keyed_log import DELETE_RETENTION_MS, FIRST_TRANSACTIONAL, IDEMPOTENT, KeyedLog, compacting

pytestmark = pytest.mark.kafka_tools

ALICE, BOB = FIRST_TRANSACTIONAL, FIRST_TRANSACTIONAL + 1


def write_round(keyed: KeyedLog, number: int) -> None:
    for compression in CompressionType:
        keyed.put((b"a", b"%d" % number), (b"%d" % number, bytes(50)), compression=compression)
    keyed.put((b"only once %d" % number, b"1"), (b"b", None), producer_id=IDEMPOTENT)
    keyed.put((b"b", b"committed"), (b"a", b"committed"), producer_id=ALICE)
    keyed.put((b"b", b"aborted"), (b"a", b"aborted"), producer_id=BOB)
    keyed.end(ALICE, commit=True)
    keyed.end(BOB, commit=False)
    keyed.put((b"b", None), (None, b"without a key"))


def compact(keyed: KeyedLog) -> None:
    keyed.roll()
    keyed.replicate()
    assert keyed.compact()
    keyed.check()


def test_a_compacted_log_is_read_without_problem(kafka_tools: KafkaTools, tmp_path: Path):
    config = compacting(index_interval_bytes=200)
    keyed = KeyedLog(LocalFileSystem(), config, directory=str(tmp_path / "topic-0"))
    for number in range(6):
        write_round(keyed, number)
        compact(keyed)
        keyed.now_ms += DELETE_RETENTION_MS // 2
    expected = [
        (header.base_offset, header.last_offset, header.record_count, header.delete_horizon_ms, header.last_sequence)
        for header in keyed.headers()
    ]
    records = [(record.offset, record.timestamp) for batch in keyed.batches() for record in batch.records()]
    aborted = [
        (entry.producer_id, entry.first_offset) for segment in keyed.log.segments for entry in segment.transaction_index
    ]
    keyed.log.close()

    suffixes = (names.LOG_SUFFIX, *names.INDEX_SUFFIXES, names.SNAPSHOT_SUFFIX)
    files = sorted(file for file in (tmp_path / "topic-0").iterdir() if file.suffix in suffixes)
    dump = kafka_tools.dump(*files, allow_gaps=True)

    assert dump.problems == ()
    batches = [batch for file in files for batch in dump.files[file].batches]
    assert [
        (each.base_offset, each.last_offset, each.count, each.delete_horizon_ms, each.last_sequence) for each in batches
    ] == expected
    assert [(each.offset, each.timestamp_ms) for batch in batches for each in batch.records] == records
    found = [entry for file in files for entry in dump.files[file].aborted_transactions]
    assert [(entry.producer_id, entry.first_offset) for entry in found] == aborted
    # All that compaction can leave behind is there.
    assert any(each.count == 0 for each in batches)
    assert any(each.is_control and each.delete_horizon_ms for each in batches)
    assert any(not each.is_control and each.delete_horizon_ms for each in batches)
    assert any(dump.files[file].time_index for file in files)
    assert found
