"""A byte of a file changes while nobody looks: the log finds out, or says so, or does not depend on it."""

import msgspec
from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from eagleray.broker.generations import SECOND_SUFFIX
from eagleray.broker.log import names
from eagleray.broker.log.config import Flush, LogConfig, TimestampType
from eagleray.broker.log.errors import LogError
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.reading import Isolation
from eagleray.protocol.records import PLACEMENT_BYTES, split_batches
from tests.support import log_driver as steps
from tests.support import log_steps
from tests.support.log_checks import batches_of, check
from tests.support.log_driver import DIRECTORY, LogDriver
from tests.support.simulated_disk import SimulatedDisk

# Enough to have closed segments, a snapshot, epochs and an aborted transaction, whatever else happens.
PRELUDE = (
    steps.Append((steps.NewBatch(steps.TRANSACTIONAL[0]), steps.NewBatch(steps.IDEMPOTENT, value_bytes=300))),
    steps.EndTransactions((False, False, False)),
    steps.ElectLeader(),
    steps.Append((steps.NewBatch(steps.TRANSACTIONAL[1], 2, 300), steps.NewBatch(steps.PLAIN, value_bytes=300))),
    steps.EndTransactions((False, True, False)),
    steps.Append((steps.NewBatch(steps.TRANSACTIONAL[0], 2, 300), steps.NewBatch(steps.IDEMPOTENT))),
    steps.AdvanceHighWatermark(100),
)


class Strike(msgspec.Struct, frozen=True):
    """Which byte changes: of as many files and bytes as there are, the number that is left over."""

    file: int
    position: int
    mask: int


strikes = st.builds(Strike, file=st.integers(0, 100), position=st.integers(0, 10_000), mask=st.integers(1, 255))


class Overwriting(msgspec.Struct, frozen=True):
    """A file of which a beginning is left, up to nothing or everything, and other bytes behind it."""

    file: int
    kept_bytes: int
    rest: bytes


zeros = st.integers(0, 200).map(bytes)
overwritings = st.builds(
    Overwriting, file=st.integers(0, 100), kept_bytes=st.integers(0, 10_000), rest=st.binary(max_size=100) | zeros
)

EPOCHS = (names.LEADER_EPOCH_FILE, names.EPOCH_CHECKSUM_FILE)

# Whatever can be made again from the batches.
DERIVED = (*names.INDEX_FILE_SUFFIXES, names.SNAPSHOT_SUFFIX, names.BOOKMARK_FILE, *EPOCHS)


class Rot:
    """A log that was left in any state, with one byte of one file changed."""

    def __init__(
        self, config: LogConfig, workload: list[steps.Step], *, reboots: bool, is_closed: bool = False
    ) -> None:
        self.disk = SimulatedDisk()
        self.driver = LogDriver(self.disk, config)
        # The last append comes after whatever closed the log, so that opening it again has something to recover.
        for step in (*PRELUDE, *workload, steps.Reopen() if is_closed else PRELUDE[0]):
            self.driver.take(step)
        if reboots:
            self.driver.take(steps.Flush())
            self.disk.lose_power(lambda: True)
        else:
            self.disk.crash_process()

    def strike(self, strike: Strike | Overwriting, *suffixes: str) -> str:
        """Change one of the files that end so."""
        files = [path for path, data in sorted(self.disk.tree().items()) if data and path.endswith(suffixes)]
        assume(files)
        path = files[strike.file % len(files)]
        data = self.disk.tree()[path]
        if isinstance(strike, Strike):
            self.disk.rot(path, strike.position % len(data), strike.mask)
        else:
            self.overwrite(path, data[: strike.kept_bytes % (len(data) + 1)] + strike.rest)
        event(f"rot in {path.rsplit('.', 1)[-1]}")
        return path

    def overwrite(self, path: str, data: bytes) -> None:
        file = self.disk.open(path)
        file.truncate(0)
        file.write((data,))
        file.flush()
        file.close()

    def open(self) -> PartitionLog | None:
        """Open the log; it may refuse, but it may not break."""
        try:
            self.driver.open()
        except LogError:
            event("refused")
            return None
        return self.driver.log

    def exercise(self, log: PartitionLog) -> None:
        """Use everything that reads or writes; whatever is wrong has to be said by a LogError."""
        for isolation in Isolation:
            # No checksum covers the offsets of a batch, so those in the records are not followed here.
            for offset in range(log.log_start_offset, min(log.readable_end(isolation), log.log_start_offset + 100)):
                try:
                    log.read(offset, max_bytes=1, isolation=isolation)
                    log.offset_for_timestamp(self.driver.now_ms - offset, isolation)
                except LogError:
                    event("a read was refused")
        batch = split_batches(self.driver.next_batch(steps.NewBatch(steps.PLAIN), {}, 0).data)
        log.append(batch, leader_epoch=log.epochs.latest_epoch, now_ms=self.driver.now_ms)
        log.apply_retention(self.driver.now_ms)
        log.close()


@given(log_steps.configs, log_steps.workloads, st.booleans(), strikes)
@example(
    LogConfig(segment_bytes=log_steps.SEGMENT_BYTES, index_interval_bytes=0, retention_ms=log_steps.RETENTION_MS),
    [steps.SkipSequence(steps.PLAIN), steps.Truncate(1), steps.ElectLeader()],
    False,
    Strike(file=2, position=456, mask=1),
).via("an offset that no index can hold ended the process that built the index")
def test_no_damage_is_more_than_a_log_error(
    config: LogConfig, workload: list[steps.Step], reboots: bool, strike: Strike
):
    rotten = Rot(config, workload, reboots=reboots)
    rotten.strike(strike, "")
    log = rotten.open()
    if log is not None:
        rotten.exercise(log)
        rotten.open()


@given(log_steps.configs, log_steps.workloads, st.booleans(), strikes)
def test_a_damaged_batch_is_never_served_from_where_recovery_looked(
    config: LogConfig, workload: list[steps.Step], reboots: bool, strike: Strike
):
    rotten = Rot(config, workload, reboots=reboots)
    rotten.strike(strike, names.LOG_SUFFIX)
    log = rotten.open()
    if log is None:
        return
    written = {entry.data[PLACEMENT_BYTES:] for entry in rotten.driver.history.entries}
    last = log.active_segment
    # What lies before a bookmark is taken as the closed segments are: as it is.
    for batch in split_batches(last.read(log.recovery.known_bytes, last.size_bytes)):
        assert bytes(batch.view[PLACEMENT_BYTES:]) in written


@given(log_steps.configs, log_steps.workloads, st.booleans(), strikes)
def test_a_damaged_snapshot_gives_way_to_an_older_one_and_the_log(
    config: LogConfig, workload: list[steps.Step], reboots: bool, strike: Strike
):
    rotten = Rot(config, workload, reboots=reboots)
    rotten.strike(strike, names.SNAPSHOT_SUFFIX)
    log = rotten.open()
    assert log is not None
    # What lay before the first segment is known by its snapshot alone.
    assume(log.segments[0].base_offset == 0)
    check(rotten.driver)


@given(log_steps.configs, log_steps.workloads, st.booleans(), strikes)
@example(
    LogConfig(
        segment_bytes=log_steps.SEGMENT_BYTES,
        index_interval_bytes=200,
        retention_ms=log_steps.RETENTION_MS,
        message_timestamp_type=TimestampType.CREATE_TIME,
        flush=Flush.COMMIT,
    ),
    [
        steps.EndTransactions(commit=(False, False, False), even_empty=True),
        steps.SkipSequence(steps.PLAIN),
        steps.Truncate(5),
    ],
    True,
    Strike(file=0, position=6, mask=1),
).via("a segment's end was looked for behind an index entry that led into the middle of a batch")
def test_a_damaged_index_costs_time_only(config: LogConfig, workload: list[steps.Step], reboots: bool, strike: Strike):
    rotten = Rot(config, workload, reboots=reboots)
    rotten.strike(strike, names.OFFSET_INDEX_SUFFIX)
    log = rotten.open()
    assert log is not None
    expected = [
        entry.data for entry in rotten.driver.history.entries if entry.header.last_offset >= log.log_start_offset
    ]
    assert replicated(log) == expected


@given(log_steps.configs, log_steps.workloads, st.booleans(), st.booleans(), strikes | overwritings)
def test_damaged_derived_file_changes_no_answer(
    config: LogConfig, workload: list[steps.Step], reboots: bool, is_closed: bool, strike: Strike | Overwriting
):
    rotten = Rot(config, workload, reboots=reboots, is_closed=is_closed)
    path = rotten.strike(strike, *DERIVED)
    log = rotten.open()
    assert log is not None
    # What lay before the first segment is known by its snapshot alone.
    assume(not path.endswith(names.SNAPSHOT_SUFFIX) or log.segments[0].base_offset == 0)
    check(rotten.driver)
    rotten.driver.take(steps.Reopen())
    check(rotten.driver)


@given(log_steps.configs, log_steps.workloads, st.booleans(), strikes | overwritings)
def test_damaged_generation_of_the_checkpoint_loses_no_record(
    config: LogConfig, workload: list[steps.Step], reboots: bool, strike: Strike | Overwriting
):
    """What the one before says may be more than is true, and then nothing is done; otherwise all is there."""
    rotten = Rot(config, workload, reboots=reboots)
    before = rotten.disk.copy()
    rotten.strike(strike, names.CHECKPOINT_FILE, names.CHECKPOINT_FILE + SECOND_SUFFIX)
    tree = rotten.disk.tree()
    log = rotten.open()
    if log is None:
        assert {path: data for path, data in rotten.disk.tree().items() if path.endswith(names.LOG_SUFFIX)} == {
            path: data for path, data in tree.items() if path.endswith(names.LOG_SUFFIX)
        }
        return
    assert log.log_end_offset == rotten.driver.history.end_offset
    intact = PartitionLog.open(before, DIRECTORY, config, now_ms=rotten.driver.now_ms)
    assert batches_of(log)[-len(batches_of(intact)) :] == batches_of(intact)


def replicated(log: PartitionLog) -> list[bytes]:
    """Read everything as followers do, through the indexes, batch by batch and from every offset."""
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        data = log.read_for_replica(offset, max_bytes=1)
        assert split_batches(data)[0].header.base_offset <= offset
        if data not in found[-1:]:
            found.append(data)
    return found
