"""Requests to a leader that fail by a mistake of ours: they are refused alone, and nothing of them is in the log."""

import pytest

from eagleray.broker.log.appending import AppendRun
from eagleray.broker.partitions.events import DescribePartition, Produced
from eagleray.broker.partitions.fetching import Fetches
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.failures import RequestFailed
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS
from tests.support.leading import ORDERS, fetch, lead, plain
from tests.support.simulated_disk import SimulatedDisk

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR
POISONED = 13


@pytest.fixture
def leaders():
    return lead(SimulatedDisk())


def handle(leaders, *events):
    return leaders.handle(events, NOW_MS, NOW_MS)


def answers_of(effects):
    return {effect.request_id: effect.error_code for effect in effects if isinstance(effect, Produced)}


def failures_of(effects):
    return [effect.request.request_id for effect in effects if isinstance(effect, RequestFailed)]


@pytest.fixture
def poison(monkeypatch):
    """The log fails at the batches of one producer, after it has taken note of them."""
    add = AppendRun._add

    def fail(run, batch, origin):
        added = add(run, batch, origin)
        assert batch.header.producer_id != POISONED
        return added

    monkeypatch.setattr(AppendRun, "_add", fail)


@pytest.mark.usefixtures("poison")
def test_batch_at_which_the_log_fails_is_refused_alone(leaders):
    before = plain(1, producer_id=1, epoch=0, sequence=0)
    poisoned = plain(2, producer_id=POISONED, epoch=0, sequence=0)
    behind = plain(3, producer_id=2, epoch=0, sequence=0)
    effects = handle(leaders, before, poisoned, behind)
    assert answers_of(effects) == {1: ErrorCode.NONE, 2: FAILED, 3: ErrorCode.NONE}
    assert failures_of(effects) == [2]
    log = leaders._leaders[ORDERS].log
    assert log.log_end_offset == 2
    assert log.producers.get(POISONED) is None
    # What was written before is a repeat, and what comes next is in line.
    repeated = handle(
        leaders, plain(4, producer_id=1, epoch=0, sequence=0), plain(5, producer_id=2, epoch=0, sequence=1)
    )
    assert answers_of(repeated) == {4: ErrorCode.NONE, 5: ErrorCode.NONE}
    assert log.log_end_offset == 3


@pytest.mark.usefixtures("poison")
def test_batch_without_acks_that_fails_is_not_answered(leaders):
    effects = handle(leaders, plain(1, acks=0, producer_id=POISONED, epoch=0, sequence=0))
    assert answers_of(effects) == {}
    assert failures_of(effects) == [1]


def test_batch_that_cannot_be_judged_is_refused(leaders, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(PartitionLeader, "produce", lambda leader, event: 1 // 0)
        effects = handle(leaders, plain(1))
    assert answers_of(effects) == {1: FAILED}
    assert answers_of(handle(leaders, plain(2))) == {2: ErrorCode.NONE}


def test_read_that_fails_is_refused_and_others_are_served(leaders, monkeypatch):
    take = Fetches.fetch

    def fail(fetches, read, steady_ms):
        assert read.request_id != POISONED
        return take(fetches, read, steady_ms)

    monkeypatch.setattr(Fetches, "fetch", fail)
    handle(leaders, plain(1))
    effects = handle(leaders, fetch(POISONED, max_wait_ms=0), fetch(2, max_wait_ms=0), DescribePartition(3, ORDERS))
    assert failures_of(effects) == [POISONED]
    codes = {each.request_id: each.partitions[0].error_code for each in effects if hasattr(each, "partitions")}
    assert codes == {POISONED: FAILED, 2: ErrorCode.NONE}
    assert [each.request_id for each in effects if hasattr(each, "size_bytes")] == [3]


@pytest.mark.parametrize("is_overdue", [False, True])
def test_fetch_that_has_waited_fails_alone(leaders, monkeypatch, is_overdue):
    assert handle(leaders, fetch(POISONED, min_bytes=1, max_wait_ms=500)) == []
    assert handle(leaders, fetch(2, min_bytes=1, max_wait_ms=500)) == []
    read = Fetches._read

    def fail(fetches, event):
        assert event.request_id != POISONED
        return read(fetches, event)

    monkeypatch.setattr(Fetches, "_read", fail)
    effects = leaders.handle([Tick()], NOW_MS, NOW_MS + 501) if is_overdue else handle(leaders, plain(1))
    assert failures_of(effects) == [POISONED]
    codes = {each.request_id: each.partitions[0].error_code for each in effects if hasattr(each, "partitions")}
    assert codes == {POISONED: FAILED, 2: ErrorCode.NONE}
    assert leaders.handle([Tick()], NOW_MS, NOW_MS + 1000) == [], "nothing waits any more"
