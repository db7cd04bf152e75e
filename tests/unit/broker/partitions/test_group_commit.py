"""With flush=commit nothing that was answered is lost, whenever the power goes."""

import pytest

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import Flush, LogConfig, PartitionLog
from eagleray.broker.partitions.events import MarkersAnswered, Produced, VerifyTransaction
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, whole_batches
from tests.support.faults import CHANGES, Fault, Operation, Outcome, ProcessKilled
from tests.support.leading import (
    ORDERS,
    PAYMENTS,
    PRODUCER,
    alone,
    in_transaction,
    lead,
    markers,
    open_log,
    plain,
    verified,
)
from tests.support.log_crashes import PowerLoss
from tests.support.logs import everything
from tests.support.simulated_disk import SimulatedDisk

# Small segments, so that the log rolls on the way.
CONFIG = LogConfig(flush=Flush.COMMIT, segment_bytes=1024)
TURNS = 6


def value_of(request_id):
    return b"%d " % request_id * 40


def batches_of(turn):
    """Two batches for one partition, one of them of a transaction, and one for another."""
    first = turn * 10
    return [
        plain(first, value=value_of(first)),
        in_transaction(first + 1, turn, version=1, value=value_of(first + 1)),
        plain(first + 2, PAYMENTS, value=value_of(first + 2)),
    ]


def work(leaders, answered, marked):
    """Take some turns; note the value of every batch, and the number of markers, that were answered."""

    def take(events):
        effects = leaders.handle(events, NOW_MS, NOW_MS)
        for effect in effects:
            if isinstance(effect, Produced):
                assert effect.error_code is ErrorCode.NONE
                answered[PAYMENTS if effect.request_id % 10 == 2 else ORDERS].add(value_of(effect.request_id))
            elif isinstance(effect, MarkersAnswered):
                assert effect.error_codes == ()
                marked.append(effect.request_id)
        return [verified(effect) for effect in effects if isinstance(effect, VerifyTransaction)]

    for turn in range(TURNS):
        take(take(batches_of(turn)))
        take([markers(turn * 10 + 9, ORDERS, PAYMENTS, producer=PRODUCER)])


def steps_of_work():
    disk = SimulatedDisk()
    leaders = lead(disk, CONFIG)
    begun = len(disk.trace)
    work(leaders, {ORDERS: set(), PAYMENTS: set()}, [])
    return len(disk.trace) - begun


@pytest.mark.parametrize("kept_percent", [0, 50, 100])
def test_acknowledged_batches_survive_the_loss_of_power_at_any_moment(kept_percent):
    for step in range(steps_of_work()):
        disk = SimulatedDisk()
        leaders = lead(disk, CONFIG)
        answered, marked = {ORDERS: set(), PAYMENTS: set()}, []
        with disk.injected(Fault(Outcome.KILL, on=CHANGES, skip=step)), pytest.raises(ProcessKilled):
            work(leaders, answered, marked)
        disk.lose_power(PowerLoss(kept_percent, seed=step).keeps())
        for partition in (ORDERS, PAYMENTS):
            batches = whole_batches(everything(open_log(disk, partition, CONFIG)))
            found = {batch.records()[0].value for batch in batches if not batch.header.is_control}
            assert answered[partition] <= found
            assert sum(batch.header.is_control for batch in batches) >= len(marked)


def test_a_turn_flushes_each_partition_once_however_much_it_brings():
    disk = SimulatedDisk()
    leaders = lead(disk, LogConfig(flush=Flush.COMMIT))
    leaders.handle([plain(1), plain(2, PAYMENTS)], NOW_MS, NOW_MS)
    begun = len(disk.trace)
    others = [ProducerIdentity(number, 0) for number in range(3)]
    leaders.handle(
        [plain(3), plain(4, PAYMENTS), *(markers(5, ORDERS, PAYMENTS, producer=other) for other in others), plain(6)],
        NOW_MS,
        NOW_MS,
    )
    flushed = [step.path for step in disk.trace[begun:] if step.operation is Operation.FLUSH]
    assert sorted(flushed) == [f"/{name}/00000000000000000000.log" for name in (ORDERS, PAYMENTS)]


def test_a_turn_that_writes_nothing_flushes_nothing():
    disk = SimulatedDisk()
    leaders = lead(disk, LogConfig(flush=Flush.COMMIT))
    leaders.handle([plain(1, producer_id=7)], NOW_MS, NOW_MS)
    begun = len(disk.trace)
    (answer,) = leaders.handle([plain(2, producer_id=7)], NOW_MS, NOW_MS)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert disk.trace[begun:] == []


def test_a_repeat_of_what_only_the_page_cache_holds_is_flushed_before_it_is_answered():
    disk = SimulatedDisk()
    lead(disk).handle([plain(1, producer_id=7)], NOW_MS, NOW_MS)
    disk.crash_process()
    leaders = lead(disk, LogConfig(flush=Flush.COMMIT))
    (answer,) = leaders.handle([plain(2, producer_id=7)], NOW_MS, NOW_MS)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    disk.lose_power(lambda: False)
    assert open_log(disk).log_end_offset == 1


@pytest.mark.parametrize(("partitions", "helped"), [(2, 0), (3, 1)])
def test_the_disk_is_helped_once_before_many_flushes(partitions, helped):
    disk, help_calls = SimulatedDisk(), []
    leaders = PartitionLeaders(sync=lambda: help_calls.append(count_flushes(disk)))
    names = [TopicPartition("orders", number) for number in range(partitions)]
    for name in names:
        log = PartitionLog.open(disk, f"/{name}", CONFIG, now_ms=NOW_MS)
        leaders.lead(name, alone(log, 0, name))
        # The first append of a log marks it as open, which flushes as well.
        leaders.handle([plain(100 + name.partition, name)], NOW_MS, NOW_MS)
    help_calls.clear()
    before = count_flushes(disk)
    effects = leaders.handle([plain(name.partition, name) for name in names], NOW_MS, NOW_MS)
    assert [effect.error_code for effect in effects] == [ErrorCode.NONE] * partitions
    assert help_calls == [before] * helped
    assert count_flushes(disk) == before + partitions


def count_flushes(disk):
    return sum(step.operation is Operation.FLUSH for step in disk.trace)
