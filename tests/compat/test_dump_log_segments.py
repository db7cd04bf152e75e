"""Apache Kafka's own DumpLogSegments reads the files of our log: an oracle that we did not write."""

from pathlib import Path

import pytest

from eagleray.actors.storage.disk import LocalDisk
from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.identities import LAST_EPOCH
from eagleray.broker.log import names
from eagleray.broker.log.config import Flush, LogConfig, TimestampType
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.producer_snapshot import decode_snapshot
from eagleray.broker.log.segment import Segment
from eagleray.protocol.records import CompressionType, RecordBatch, split_batches
from tests.compat.kafka_tools.dump_log import Decoder, KafkaTools
from tests.compat.kafka_tools.dump_output import AbortedTransaction, Batch, Dump, FileDump
from tests.crash import writer
from tests.crash.housekeeper import ORDERS, PRICES, open_logs
from tests.crash.kept_records import Told
from tests.crash.test_kill_housekeeper import run_and_kill
from tests.crash.test_kill_writer import Witness
from tests.support import log_driver as steps
from tests.support.batches import data_batch
from tests.support.log_checks import offset_entries, time_entries
from tests.support.log_driver import IDEMPOTENT, PLAIN, PRODUCERS, TRANSACTIONAL, LogDriver, NewBatch
from tests.support.logs import append, append_markers, end_marker

pytestmark = pytest.mark.kafka_tools

NOW_MS = 1_700_000_100_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


@pytest.mark.parametrize("timestamp_type", TimestampType)
def test_files_of_a_log_are_read_without_problem(
    kafka_tools: KafkaTools, directory: Path, timestamp_type: TimestampType
):
    config = LogConfig(segment_bytes=4096, index_interval_bytes=100, message_timestamp_type=timestamp_type)
    driver = LogDriver(LocalFileSystem(), config, str(directory))
    for number in range(6):
        write_round(driver, number)
    driver.take(steps.AdvanceHighWatermark(100))
    driver.take(steps.DeleteRecords(20))
    driver.log.close()

    compare(kafka_tools, directory, config)
    batches = dumped_batches(kafka_tools, directory)
    assert {batch.timestamp_type for batch in batches if not batch.is_control} == {timestamp_type}
    assert {batch.compression for batch in batches} == {codec.name.lower() for codec in CompressionType}


def test_markers_of_branches_are_read_without_problem(kafka_tools: KafkaTools, directory: Path):
    """They have the last epoch, behind which the partition and its snapshots know nothing of the branch."""
    config = LogConfig(segment_bytes=1024, index_interval_bytes=100)
    log = PartitionLog.open(LocalFileSystem(), str(directory), config, now_ms=NOW_MS)
    for first in range(0, 40, 4):
        for branch in range(first, first + 4):
            append(log, data_batch(producer_id=branch, transactional=True, keys=[b"key"]), now_ms=NOW_MS)
        ends = [end_marker(branch, LAST_EPOCH, bool(branch % 2), 3, 2) for branch in range(first, first + 3)]
        append_markers(log, *ends, now_ms=NOW_MS)
    assert len(log.producers) == 10
    log.close()
    compare(kafka_tools, directory, config)
    markers = [batch for batch in dumped_batches(kafka_tools, directory) if batch.is_control]
    assert len(markers) == 30
    assert {batch.producer_epoch for batch in markers} == {LAST_EPOCH}


def test_recovered_files_of_a_killed_writer_are_read_without_problem(kafka_tools: KafkaTools, directory: Path):
    witness = Witness()
    for seed in (101, 102, 103):
        witness.run_and_kill(directory, seed)
    PartitionLog.open(LocalFileSystem(), str(directory), writer.CONFIG, now_ms=NOW_MS).close()
    assert (directory / names.BOOKMARK_FILE).exists()
    compare(kafka_tools, directory, writer.CONFIG)


def test_files_of_a_killed_process_that_flushed_and_compacted_are_read_without_problem(
    kafka_tools: KafkaTools, tmp_path: Path
):
    """What kills have left, and what the next opening makes of it; compaction leaves gaps, which Kafka allows."""
    told = Told()
    for seed in (201, 202, 203, 204):
        run_and_kill(tmp_path, seed, told)
    folders = [tmp_path / "logs" / str(partition) for partition in (ORDERS, PRICES)]
    manager, _ = open_logs(str(tmp_path), LocalDisk(), Flush.OS)
    manager.close_all()
    files = [file for folder in folders for file in files_of(folder)]
    dump = kafka_tools.dump(*files, decoder=Decoder.TEXT, allow_gaps=True)
    assert dump.problems == ()
    values = [int(each.payload.split()[0]) for batch in batches_in(dump) for each in batch.records]
    assert {number for number in told.numbers(ORDERS) if number in told.offsets} <= {*values}
    assert len(values) == len({*values})
    indexes = [file for file in files if file.suffix in (".index", ".timeindex")]
    assert kafka_tools.dump(*indexes, check_index_sanity=True, allow_gaps=True).problems == ()


def test_files_in_the_page_cache_are_read_without_problem(kafka_tools: KafkaTools, directory: Path):
    """Kafka's tool looks at a log that is open; only a part of the last segment's index is written yet."""
    config = LogConfig(segment_bytes=2048, index_interval_bytes=0)
    driver = LogDriver(LocalFileSystem(), config, str(directory))
    write_round(driver, 0)
    driver.take(steps.Append((NewBatch(PLAIN),)))
    driver.take(steps.WriteBookmark())
    driver.take(steps.Append((NewBatch(PLAIN),)))
    assert offset_entries(driver.log.active_segment)
    dump = kafka_tools.dump(*files_of(directory), decoder=Decoder.TEXT)
    assert dump.problems == ()
    assert [batch.base_offset for batch in batches_in(dump)] == [entry.base_offset for entry in driver.history.entries]
    driver.log.close()


def write_round(driver: LogDriver, number: int) -> None:
    """Write all kinds of batches with every codec, and transactions that end both ways, one in the next round."""
    for codec in CompressionType:
        batches = [NewBatch(producer, 3, 50, compression=codec) for producer in PRODUCERS]
        driver.take(steps.Append(tuple(batches)))
    driver.take(steps.Append((NewBatch(IDEMPOTENT, in_new_epoch=True), NewBatch(PLAIN, 1, 0))))
    driver.take(steps.EndTransactions((number % 2 == 1, number % 3 == 0, number % 2 == 0)))
    driver.take(steps.ElectLeader())
    driver.take(steps.Append((NewBatch(TRANSACTIONAL[0], 2, 500),)))


def compare(kafka_tools: KafkaTools, directory: Path, config: LogConfig) -> None:
    """See that the tool has no problem, and understands every file as we do."""
    dump = kafka_tools.dump(*files_of(directory), decoder=Decoder.TEXT)
    assert dump.problems == ()
    sane = kafka_tools.dump(
        *(file for file in files_of(directory) if file.suffix in (".index", ".timeindex")), check_index_sanity=True
    )
    assert sane.problems == ()
    log = PartitionLog.open(LocalFileSystem(), str(directory), config, now_ms=NOW_MS)
    assert log.recovery.scanned_bytes == 0
    assert len(log.segments) > 3
    for segment in log.segments:
        compare_segment(dump, directory, segment)
    aborted = [aborted for file in dump.files.values() for aborted in file.aborted_transactions]
    assert aborted
    assert any(batch.is_control for batch in batches_in(dump))
    compare_snapshots(dump, directory)
    log.close()


def compare_segment(dump: Dump, directory: Path, segment: Segment) -> None:
    def dumped(suffix: str) -> FileDump:
        path = Path(names.segment_file(str(directory), segment.base_offset, suffix))
        return dump.files.get(path, FileDump(path))

    ours = split_batches(segment.read(0, segment.size_bytes))
    theirs = dumped(names.LOG_SUFFIX).batches
    assert [summary_of(batch) for batch in theirs] == [summary_of_ours(batch) for batch in ours]
    for batch, dumped_batch in zip(ours, theirs, strict=True):
        compare_records(batch, dumped_batch)
    index = dumped(names.OFFSET_INDEX_SUFFIX).offset_index
    assert [(entry.offset, entry.position) for entry in index if entry.position] == offset_entries(segment)
    times = dumped(names.TIME_INDEX_SUFFIX).time_index
    assert [(entry.timestamp_ms, entry.offset) for entry in times] == time_entries(segment)
    assert dumped(names.TRANSACTION_INDEX_SUFFIX).aborted_transactions == [
        AbortedTransaction(0, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for entry in map(segment.transaction_index.__getitem__, range(len(segment.transaction_index)))
    ]


def summary_of(batch: Batch) -> tuple[object, ...]:
    return (
        (batch.base_offset, batch.last_offset, batch.count, batch.size, batch.crc),
        (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence),
        (batch.is_transactional, batch.is_control, batch.partition_leader_epoch),
        (batch.max_timestamp_ms, batch.compression),
    )


def summary_of_ours(batch: RecordBatch) -> tuple[object, ...]:
    header = batch.header
    return (
        (header.base_offset, header.last_offset, header.record_count, header.size_bytes, header.crc),
        (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence),
        (header.is_transactional, header.is_control, header.partition_leader_epoch),
        (header.max_timestamp, header.compression.name.lower()),
    )


def compare_records(batch: RecordBatch, dumped: Batch) -> None:
    ours = batch.records()
    assert [record.offset for record in dumped.records] == [record.offset for record in ours]
    if batch.header.is_control:
        marker = batch.end_transaction_marker()
        assert marker is not None
        (record,) = dumped.records
        assert record.marker == ("COMMIT" if marker.commit else "ABORT")
        assert record.coordinator_epoch == marker.coordinator_epoch
    else:
        assert [record.timestamp_ms for record in dumped.records] == [record.timestamp for record in ours]
        assert [record.value_size for record in dumped.records] == [len(record.value or b"") for record in ours]
        assert [record.key for record in dumped.records] == [(record.key or b"").decode() for record in ours]


def compare_snapshots(dump: Dump, directory: Path) -> None:
    snapshots = [file for file in files_of(directory) if file.suffix == names.SNAPSHOT_SUFFIX]
    assert snapshots
    for file in snapshots:
        entries = decode_snapshot(file.read_bytes())
        assert entries is not None
        theirs = {producer.producer_id: producer for producer in dump.files[file].producers}
        assert len(theirs) == len(entries)
        for entry in entries:
            producer = theirs[entry.producer_id]
            assert (producer.producer_epoch, producer.coordinator_epoch) == (entry.epoch, entry.coordinator_epoch)
            opened = (
                -1 if producer.current_transaction_first_offset is None else producer.current_transaction_first_offset
            )
            assert (opened, producer.last_timestamp_ms) == (entry.open_since_offset, entry.last_timestamp_ms)
            if entry.batches:
                last = entry.batches[-1]
                assert (producer.first_sequence, producer.last_sequence) == (last.first_sequence, last.last_sequence)
                assert producer.last_offset == last.last_offset


def files_of(directory: Path) -> list[Path]:
    suffixes = (names.LOG_SUFFIX, *names.INDEX_SUFFIXES, names.SNAPSHOT_SUFFIX)
    return sorted(file for file in directory.iterdir() if file.suffix in suffixes)


def batches_in(dump: Dump) -> list[Batch]:
    return [batch for _, file in sorted(dump.files.items()) for batch in file.batches]


def dumped_batches(kafka_tools: KafkaTools, directory: Path) -> list[Batch]:
    logs = [file for file in files_of(directory) if file.suffix == names.LOG_SUFFIX]
    return batches_in(kafka_tools.dump(*logs))
