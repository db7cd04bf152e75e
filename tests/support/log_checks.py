"""Whether a log is what the batches in it say."""

from collections.abc import Sequence

from hypothesis import currently_in_test_context, event

from eagleray.broker.log import names
from eagleray.broker.log.config import LogConfig
from eagleray.broker.log.leader_epochs import EpochStart
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.producer_entry import ProducerEntry
from eagleray.broker.log.producer_state import Origin, Rejection
from eagleray.broker.log.reading import Isolation
from eagleray.broker.log.segment import Segment
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import split_batches
from tests.support.batches import NOW_MS
from tests.support.log_driver import DIRECTORY, PRODUCERS, LogDriver, NewBatch
from tests.support.log_history import Conclusion, Entry, ModelProducer, conclude
from tests.support.simulated_disk import SimulatedDisk

MAX_BYTES = 10**6


def check_recovered(driver: LogDriver, *, lost_power: bool) -> None:
    """Compare a log that was just opened after a crash with what it was told, and take that for its history."""
    log, history = driver.log, driver.history
    required_end = history.required_end(lost_power=lost_power)
    assert history.start_offset <= log.log_start_offset <= max(history.start_offset, history.start_in_flight)
    is_bare = not batches_of(log) and not len(log.producers)
    if lost_power and required_end < log.log_start_offset == log.log_end_offset and is_bare:
        # Nothing is left but the start, which was written down when records were deleted that were never flushed.
        history.entries, history.in_flight = [], []
    possible = [*history.entries, *history.in_flight]
    survivors = [entry for entry in possible if entry.next_offset <= log.log_end_offset]
    assert required_end <= log.log_end_offset
    assert log.log_end_offset in {log.log_start_offset, *(entry.next_offset for entry in possible)}
    assert log.high_watermark <= max(history.high_watermark, log.log_start_offset)
    history.start_offset = history.start_in_flight = log.log_start_offset
    history.survived(log.log_end_offset, lost_power=lost_power)
    assert history.entries == survivors
    history.high_watermark = log.high_watermark
    check(driver)
    assert log.recovery.replayed_bytes == 0, "a segment was begun before the snapshot of what lies before it"
    if log.recovery.known_bytes:
        check_against_whole_scan(driver)
    elif log.recovery.scanned_bytes:
        check_indexes_of_scanned(log.active_segment, driver.config)


def check_against_whole_scan(driver: LogDriver) -> None:
    """What was found from a bookmark on is what a scan of the whole segment finds."""
    log, disk = driver.log, driver._file_system.copy()
    disk.crash_process()
    disk.remove(f"{DIRECTORY}/{names.BOOKMARK_FILE}")
    whole = PartitionLog.open(disk, DIRECTORY, driver.config, now_ms=driver.now_ms)
    assert whole.recovery.known_bytes == 0
    assert whole.recovery.scanned_bytes == log.recovery.scanned_bytes + log.recovery.known_bytes
    assert whole.log_end_offset == log.log_end_offset
    assert describe_producers(whole) == describe_producers(log)
    assert epochs_of(whole) == epochs_of(log)
    assert aborted_in(whole) == aborted_in(log)
    whole.advance_high_watermark(log.high_watermark)
    # The two may differ: a bookmark knows which decisions of earlier segments are not replicated, and a snapshot does
    # not; a log that was closed forgets those of its last segment, which a scan finds again.
    check_last_stable_offset(whole, conclude(driver.history.entries))
    if currently_in_test_context():
        event("went on from a bookmark")


def check(driver: LogDriver) -> None:
    """Compare a log with its history."""
    log, entries = driver.log, driver.history.entries
    first_offset = log.segments[0].base_offset
    assert first_offset <= log.log_start_offset <= log.high_watermark <= log.log_end_offset
    assert batches_of(log) == [entry.data for entry in entries if entry.base_offset >= first_offset]
    conclusion = conclude(entries)
    check_against_replay(log, replayed(entries, driver.config), conclusion)
    check_last_stable_offset(log, conclusion)
    check_answers(driver, conclusion.producers)
    assert committed_values(log) == expected_values(log, entries, conclusion)
    for segment in log.segments:
        check_indexes(segment)


def batches_of(log: PartitionLog) -> list[bytes]:
    """Return every batch in the files, whether readers see it or not."""
    found = []
    for segment in log.segments:
        batches = split_batches(segment.read(0, segment.size_bytes))
        assert not batches or batches[0].header.base_offset >= segment.base_offset
        found += [bytes(batch.view) for batch in batches]
    return found


def replayed(entries: Sequence[Entry], config: LogConfig) -> PartitionLog:
    """Build a fresh log of one segment by appending the same batches."""
    plain = LogConfig(index_interval_bytes=config.index_interval_bytes)
    log = PartitionLog.open(SimulatedDisk(), DIRECTORY, plain, now_ms=0)
    if entries:
        log.append_replicated([entry.batch() for entry in entries], now_ms=0)
    return log


def check_against_replay(log: PartitionLog, fresh: PartitionLog, conclusion: Conclusion) -> None:
    assert describe_producers(log) == describe_producers(fresh)
    for producer in log.producers:
        check_cached_batches(producer, conclusion.producers[producer.producer_id])
    assert log.producers.unstable.first_undecided_offset == fresh.producers.unstable.first_undecided_offset
    first_offset = log.segments[0].base_offset
    assert aborted_in(log) == [entry for entry in aborted_in(fresh) if entry.last_offset >= first_offset]
    fresh.epochs.truncate_before(log.log_start_offset)
    fresh.epochs.truncate_from(log.log_end_offset)
    assert epochs_of(log) == list(fresh.epochs)


def epochs_of(log: PartitionLog) -> list[EpochStart]:
    """Return the epochs that have records in the log: where all are deleted, the last one may be known or not."""
    return [start for start in log.epochs if start.start_offset < log.log_end_offset]


def describe_producers(log: PartitionLog) -> dict[int, tuple[int, ...]]:
    return {
        entry.producer_id: (
            entry.epoch,
            entry.coordinator_epoch,
            entry.open_since_offset,
            entry.last_timestamp_ms,
            entry.last_sequence,
        )
        for entry in log.producers
    }


def check_cached_batches(producer: ProducerEntry, model: ModelProducer) -> None:
    """The last batch is always known; of those before it, the newest ones, for a snapshot keeps only the last."""
    cached = [
        (each.first_sequence, each.last_sequence, each.first_offset, each.last_offset) for each in producer.batches
    ]
    expected = [
        (entry.header.base_sequence, entry.header.last_sequence, entry.base_offset, entry.header.last_offset)
        for entry in model.last_batches
    ]
    assert bool(cached) == bool(expected)
    assert cached == expected[len(expected) - len(cached) :]


def aborted_in(log: PartitionLog) -> list[AbortedTransaction]:
    indexes = [segment.transaction_index for segment in log.segments]
    return [index[position] for index in indexes for position in range(len(index))]


def check_last_stable_offset(log: PartitionLog, conclusion: Conclusion) -> None:
    """Nothing undecided is stable. A snapshot may forget that a marker was not replicated when it was taken."""
    opened = [each.open_since_offset for each in conclusion.producers.values() if each.open_since_offset is not None]
    unreplicated = [
        first_offset
        for marker_offset, first_offset in conclusion.first_offsets_by_marker.items()
        if marker_offset >= log.high_watermark
    ]
    at_most = max(min([log.high_watermark, *opened]), log.log_start_offset)
    at_least = max(min([log.high_watermark, *opened, *unreplicated]), log.log_start_offset)
    assert at_least <= log.last_stable_offset <= at_most


def check_answers(driver: LogDriver, producers: dict[int, ModelProducer]) -> None:
    """Ask what each producer would be answered, which changes nothing."""
    for producer in PRODUCERS:
        state = producers.get(producer.producer_id)
        if state is None:
            continue
        decide = driver.log.producers.check_data
        following = driver.next_batch(NewBatch(producer), producers, driver.log.log_end_offset)
        assert decide(following.header, Origin.CLIENT, NOW_MS) is None
        if state.last_batches:
            repeated = decide(state.last_batches[-1].header, Origin.CLIENT, NOW_MS)
            assert repeated is not None
            assert not isinstance(repeated, Rejection)
            assert repeated.first_offset == state.last_batches[-1].base_offset
        state.next_sequence += 1
        too_early = driver.next_batch(NewBatch(producer), producers, driver.log.log_end_offset)
        state.next_sequence -= 1
        refused = decide(too_early.header, Origin.CLIENT, NOW_MS)
        assert isinstance(refused, Rejection)
        assert refused.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def expected_values(
    log: PartitionLog, entries: Sequence[Entry], conclusion: Conclusion
) -> list[tuple[int, bytes | None]]:
    return [
        (offset, value)
        for entry in entries
        if conclusion.is_committed.get(entry.base_offset)
        for offset, value in entry.values()
        if log.log_start_offset <= offset < log.last_stable_offset
    ]


def committed_values(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    """Read as a consumer at read_committed does, which leaves out what it is told was aborted."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        fetched = log.read(offset, max_bytes=MAX_BYTES, isolation=Isolation.READ_COMMITTED)
        waiting = sorted(fetched.aborted_transactions, key=lambda aborted: aborted.first_offset)
        aborted_ids: set[int] = set()
        for batch in split_batches(fetched.records):
            header = batch.header
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted_ids.add(waiting.pop(0).producer_id)
            if header.is_control:
                aborted_ids.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted_ids):
                found += [(each.offset, each.value) for each in batch.records() if each.offset >= offset]
        offset = header.next_offset
    return found


def check_indexes(segment: Segment) -> None:
    """Every entry tells the truth about a batch."""
    batches = split_batches(segment.read(0, segment.size_bytes))
    positions: dict[int, int] = {}
    largest: dict[int, int] = {}
    position, largest_ms = 0, -1
    for batch in batches:
        positions[batch.header.last_offset] = position
        largest_ms = max(largest_ms, batch.header.max_timestamp)
        largest[batch.header.last_offset] = largest_ms
        position += len(batch.view)
    for offset, entry_position in offset_entries(segment):
        assert positions[offset] == entry_position
    for timestamp_ms, offset in time_entries(segment):
        assert largest[offset] == timestamp_ms
    assert segment.largest_timestamp_ms == largest_ms


def check_indexes_of_scanned(segment: Segment, config: LogConfig) -> None:
    """A segment that was scanned has the indexes that appending its batches one by one gives."""
    offsets, times = [], []
    position = bytes_since_entry = 0
    largest_ms, offset_of_largest = -1, segment.base_offset
    for batch in split_batches(segment.read(0, segment.size_bytes)):
        header = batch.header
        if header.max_timestamp > largest_ms:
            largest_ms, offset_of_largest = header.max_timestamp, header.last_offset
        if bytes_since_entry > config.index_interval_bytes:
            offsets.append((header.last_offset, position))
            if not times or largest_ms > times[-1][0]:
                times.append((largest_ms, offset_of_largest))
            bytes_since_entry = 0
        bytes_since_entry += header.size_bytes
        position += header.size_bytes
    assert offset_entries(segment) == offsets
    assert time_entries(segment) == times


def offset_entries(segment: Segment) -> list[tuple[int, int]]:
    index = segment.offset_index
    offsets = [segment.base_offset + relative for relative in index._relative_offsets]
    return list(zip(offsets, index._positions, strict=True))


def time_entries(segment: Segment) -> list[tuple[int, int]]:
    index = segment.time_index
    offsets = [segment.base_offset + relative for relative in index._relative_offsets]
    return list(zip(index._timestamps_ms, offsets, strict=True))
