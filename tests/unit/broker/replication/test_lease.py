"""The lease of a node's leaders, the sessions that outlast it, and the settings that keep them apart."""

import pytest

from eagleray.broker.controller.broker_sessions import BrokerSessions
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import BrokerHeartbeatAnswered
from eagleray.broker.replication.lease import Lease
from eagleray.protocol.errors import ErrorCode
from tests.support.replicas import CONFIG


def answer(sent_ms: int, version: int = 1, error_code: ErrorCode = ErrorCode.NONE) -> BrokerHeartbeatAnswered:
    return BrokerHeartbeatAnswered(1, 11, sent_ms, error_code, version)


def test_lease_holds_from_the_sending_of_a_heartbeat_that_was_answered() -> None:
    lease = Lease(CONFIG)
    lease.knows(1)
    assert not lease.holds(0)
    lease.answered(answer(1000))
    assert lease.holds(1000 + CONFIG.leader_lease_ms - 1)
    assert not lease.holds(1000 + CONFIG.leader_lease_ms)


def test_an_answer_counts_when_the_node_knows_what_the_controller_knew() -> None:
    lease = Lease(CONFIG)
    lease.knows(4)
    lease.answered(answer(1000, version=5))
    assert not lease.holds(1000)
    lease.knows(5)
    assert lease.holds(1000)


def test_an_older_answer_that_comes_late_takes_nothing_back() -> None:
    lease = Lease(CONFIG)
    lease.knows(1)
    lease.answered(answer(1000))
    lease.answered(answer(500))
    assert lease.holds(1000 + CONFIG.leader_lease_ms - 1)


def test_a_node_that_was_given_up_has_no_lease_any_more() -> None:
    lease = Lease(CONFIG)
    lease.knows(1)
    lease.answered(answer(1000))
    lease.answered(answer(1100, error_code=ErrorCode.STALE_BROKER_EPOCH))
    lease.answered(answer(1200))
    assert lease.is_over
    assert not lease.holds(1200)


def test_answer_of_a_node_that_cannot_judge_leaves_the_lease_as_it_is() -> None:
    lease = Lease(CONFIG)
    lease.knows(1)
    lease.answered(answer(1000))
    lease.answered(answer(1100, error_code=ErrorCode.NOT_CONTROLLER))
    lease.answered(answer(1200, error_code=ErrorCode.KAFKA_STORAGE_ERROR))
    assert lease.holds(1000 + CONFIG.leader_lease_ms - 1)
    assert not lease.holds(1000 + CONFIG.leader_lease_ms)


def test_a_session_ends_after_its_time_and_once() -> None:
    sessions = BrokerSessions(CONFIG, [], 0)
    sessions.begin(1, 0)
    sessions.begin(2, 0)
    sessions.hear(2, 400)
    assert sessions.end_overdue(500) == sessions.end_overdue(999) == ()
    assert sessions.end_overdue(1000) == (1,)
    assert sessions.end_overdue(1000) == ()
    assert 1 not in sessions
    sessions.begin(1, 1300)
    assert sessions.end_overdue(1400) == (2,)


def test_a_controller_that_begins_anew_waits_for_leases_that_the_last_one_may_have_given() -> None:
    sessions = BrokerSessions(CONFIG, [1, 2], 0)
    sessions.hear(2, 300)
    # A node whose clock runs a tenth slower has a lease of 700 ms until 778 ms by the true time, 856 by a fast clock.
    assert sessions.end_overdue(500) == sessions.end_overdue(855) == ()
    assert sessions.end_overdue(856) == (1,)
    assert sessions.end_overdue(1299) == ()
    assert sessions.end_overdue(1300) == (2,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"leader_lease_ms": 2700}, "expected at most 2454"),
        ({"broker_heartbeat_interval_ms": 2000}, "expected less than the lease"),
        ({"replica_push_max_bytes": 0}, "expected a value from 1 to"),
    ],
)
def test_settings_by_which_two_could_lead_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReplicationConfig(**settings)
