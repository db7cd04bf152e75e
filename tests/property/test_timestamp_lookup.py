"""Offsets by timestamp against a walk over all records, whatever order the timestamps come in."""

from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.log import Isolation, LogConfig, PartitionLog, TimestampedOffset, TimestampType
from eagleray.protocol.records import Record
from tests.support.batches import data_batch, records_of
from tests.support.logs import DIRECTORY, append, everything
from tests.support.simulated_disk import SimulatedDisk

LARGEST_MS = 60

timestamps_ms = st.integers(-1, LARGEST_MS)
"""-1 is no timestamp."""
batches = st.lists(st.lists(timestamps_ms, min_size=1, max_size=4), min_size=1, max_size=40)
configs = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([1024, 10**6]),
    segment_ms=st.sampled_from([30, 10**9]),
    index_interval_bytes=st.sampled_from([0, 200, 4096]),
    message_timestamp_type=st.sampled_from(TimestampType),
)


def filled_log(disk: SimulatedDisk, config: LogConfig, stamps: list[list[int]]) -> PartitionLog:
    """Write batches; the log's own clock goes back and forth as well."""
    log = PartitionLog.open(disk, DIRECTORY, config, now_ms=0)
    for batch in stamps:
        append(log, data_batch(len(batch), timestamps_ms=batch), now_ms=max(batch))
    log.advance_high_watermark(log.log_end_offset)
    return log


def walk(records: list[Record], timestamp_ms: int) -> TimestampedOffset | None:
    found = [record for record in records if record.timestamp >= timestamp_ms]
    return TimestampedOffset(found[0].timestamp, found[0].offset) if found else None


@given(configs, batches, st.data())
def test_every_lookup_equals_a_walk(config: LogConfig, stamps: list[list[int]], data: st.DataObject) -> None:
    disk = SimulatedDisk()
    log = filled_log(disk, config, stamps)
    records = records_of(everything(log))
    start_offset = data.draw(st.integers(0, log.log_end_offset))
    reopens = data.draw(st.booleans())
    if reopens:
        log.close()
        log = PartitionLog.open(disk, DIRECTORY, config, now_ms=0)
    largest_ms = max(record.timestamp for record in records)
    largest = walk(records, largest_ms) if largest_ms >= 0 else None
    assert log.offset_of_largest_timestamp(Isolation.READ_UNCOMMITTED) == largest
    log.delete_records(start_offset)
    readable = [record for record in records if record.offset >= start_offset]
    for timestamp_ms in range(LARGEST_MS + 2):
        assert log.offset_for_timestamp(timestamp_ms, Isolation.READ_UNCOMMITTED) == walk(readable, timestamp_ms)
