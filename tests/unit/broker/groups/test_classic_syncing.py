"""How the assignment of a generation gets to its members, and what of it is in the log."""

import pytest

from eagleray.broker.groups.classic.events import MemberAssignment
from eagleray.broker.groups.classic.states import GroupState
from eagleray.broker.log import LogConfig
from eagleray.protocol.errors import ErrorCode
from tests.support.classic_groups import REBALANCE_MS, SESSION_MS, ClassicDriver, reads
from tests.support.groups import GROUP


def completing(driver: ClassicDriver) -> list:
    """Have a generation of two that nothing is assigned to."""
    first, second = driver.stable(2)
    both = [driver.join(first.member_id), driver.join(second.member_id)]
    return [driver.joined(request) for request in both]


def beat_all(driver: ClassicDriver, members: list, after_ms: int) -> None:
    """Let time pass in which none of the members is silent for long."""
    for _ in range(after_ms // (SESSION_MS // 2)):
        for member in members:
            driver.beat(member)
        driver.tick(SESSION_MS // 2)


def test_members_get_what_the_leader_gave_once_the_log_has_it():
    driver = ClassicDriver()
    leader, follower = completing(driver)
    early = driver.sync(follower)
    assert driver.is_waiting(early)
    bringing = driver.sync(leader)
    assert driver.is_waiting(early)
    assert driver.is_waiting(bringing)
    driver.append()

    assert driver.synced(early).assignment == f"of {follower.member_id}".encode()
    assert driver.synced(bringing).assignment == f"of {leader.member_id}".encode()
    assert (driver.synced(early).protocol_type, driver.synced(early).protocol_name) == ("consumer", "range")
    assert driver.state() == "Stable"
    assert driver.synced(driver.sync(follower)).assignment == f"of {follower.member_id}".encode()


def test_member_that_was_given_nothing_gets_nothing():
    driver = ClassicDriver()
    leader, follower = completing(driver)
    waiting = driver.sync(follower)
    driver.sync(leader, assignments=(MemberAssignment("stranger", b"x"),))
    driver.settle()

    assert driver.synced(waiting).assignment == b""
    assert driver.error_of(waiting) is ErrorCode.NONE


def test_a_repeated_sync_takes_the_place_of_the_one_that_waits_and_nothing_is_logged_twice():
    driver = ClassicDriver()
    leader, follower = completing(driver)
    early, later = driver.sync(follower), driver.sync(follower)
    assert driver.error_of(early) is ErrorCode.REBALANCE_IN_PROGRESS
    first, again = driver.sync(leader), driver.sync(leader, assignments=())
    assert len(driver.appends) == 1
    driver.settle()

    assert driver.synced(later).assignment
    assert driver.synced(first).assignment == driver.synced(again).assignment == f"of {leader.member_id}".encode()


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "host-1"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group": "another"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_sync_is_refused_for_its_reason(fields: dict, error_code: ErrorCode):
    driver = ClassicDriver()
    (member,) = driver.stable()

    assert driver.error_of(driver.sync(member, **fields)) is error_code


def test_the_right_protocol_may_be_named():
    driver = ClassicDriver()
    (member,) = driver.stable()

    named = driver.sync(member, protocol_type="consumer", protocol_name="range")
    assert driver.error_of(named) is ErrorCode.NONE


def test_another_generation_is_not_synced_with():
    driver = ClassicDriver()
    (member,) = driver.stable()
    later = driver.joined(driver.join(member.member_id))

    assert driver.error_of(driver.sync(member)) is ErrorCode.ILLEGAL_GENERATION
    driver.sync_all([later])


def test_a_rebalance_that_begins_before_the_log_is_committed_is_told_by_the_next_heartbeat():
    driver = ClassicDriver()
    leader, follower = completing(driver)
    waiting = [driver.sync(follower), driver.sync(leader)]
    driver.leave(follower.member_id)
    driver.settle()

    assert {driver.error_of(request) for request in waiting} == {ErrorCode.NONE}
    assert driver.state() == "PreparingRebalance"
    assert driver.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.joined(driver.join(leader.member_id)).generation == leader.generation + 1


def test_assignment_that_the_log_loses_reaches_no_member():
    driver = ClassicDriver()
    leader, follower = completing(driver)
    waiting = [driver.sync(follower), driver.sync(leader)]
    driver.lose()

    assert {driver.error_of(request) for request in waiting} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert driver.live().generation == leader.generation - 1, "the log has the generation before"
    assert driver.beat(leader) is ErrorCode.ILLEGAL_GENERATION


def test_a_leader_brings_its_assignments_again_to_a_log_that_refused_them():
    driver = ClassicDriver()
    leader, follower = completing(driver)
    waiting = driver.sync(follower)
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.error_of(driver.sync(leader)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.state() == "CompletingRebalance"
    assert driver.is_waiting(waiting)
    driver.refusal = ErrorCode.NONE

    driver.sync_all([leader])
    assert driver.error_of(waiting) is ErrorCode.NONE


def test_assignment_that_no_batch_can_hold_reaches_no_member():
    driver = ClassicDriver()
    driver.log_config = LogConfig(max_message_bytes=1000)
    driver.restart()
    leader, follower = completing(driver)
    large = tuple(MemberAssignment(member.member_id, bytes(900)) for member in leader.members)
    waiting = [driver.sync(follower), driver.sync(leader, assignments=large)]

    assert {driver.error_of(request) for request in waiting} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert driver.state() == "PreparingRebalance"
    assert not driver.appends


def test_a_log_that_takes_nothing_lets_no_member_come_or_go():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused = driver.join(), driver.leave(member.member_id)
    assert {driver.error_of(request) for request in refused} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    driver.tick(SESSION_MS)
    driver.refusal = ErrorCode.NONE
    assert driver.beat(member) is ErrorCode.NONE, "a member that is heard of in time stays"

    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.tick(SESSION_MS)
    driver.refusal = ErrorCode.NONE
    driver.tick(1000)
    driver.settle()
    assert driver.state() == "Empty"


def test_member_that_does_not_ask_for_its_assignment_in_time_is_out():
    driver = ClassicDriver()
    leader, follower = completing(driver)
    driver.sync(leader)
    driver.settle()
    beat_all(driver, [leader, follower], REBALANCE_MS)

    assert driver.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.beat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_whose_leader_brings_nothing_ends_without_it():
    driver = ClassicDriver()
    leader, follower = completing(driver)
    waiting = driver.sync(follower)
    beat_all(driver, [leader], REBALANCE_MS)

    assert driver.error_of(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.beat(leader) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.joined(driver.join(follower.member_id)).leader == follower.member_id


# The log


def test_after_a_restart_members_have_what_they_had_and_new_sessions():
    driver = ClassicDriver()
    members = driver.stable(2)
    driver.now_ms += 3 * SESSION_MS
    driver.restart()

    described = driver.describe()
    assert (described.state, described.protocol_type, described.protocol_name) == ("Stable", "consumer", "range")
    assert {found.member_id: found.assignment for found in described.members} == {
        member.member_id: f"of {member.member_id}".encode() for member in members
    }
    assert {found.metadata for found in described.members} == {reads("orders")[0].metadata}
    assert {(found.client_id, found.client_host) for found in described.members} == {("client", "/127.0.0.1")}
    driver.tick(SESSION_MS - 1)
    assert [driver.beat(member) for member in members] == [ErrorCode.NONE, ErrorCode.NONE]
    assert driver.live().leader == members[0].member_id


def test_after_a_restart_who_is_not_heard_of_is_given_up():
    driver = ClassicDriver()
    driver.stable(2)
    driver.restart()
    driver.tick(SESSION_MS)
    driver.settle()

    assert driver.state() == "Empty"
    assert driver.logged().groups[GROUP].members == ()


def test_a_generation_that_was_never_assigned_is_not_in_the_log():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.join(member.member_id)
    driver.restart()

    assert driver.beat(member) is ErrorCode.NONE
    assert driver.live().generation == member.generation


def test_the_record_is_kafkas():
    driver = ClassicDriver()
    leader, follower = driver.stable(2, group_instance_id=None)
    record = driver.logged().groups[GROUP]

    assert (record.protocol_type, record.protocol, record.generation, record.leader) == (
        "consumer",
        "range",
        leader.generation,
        leader.member_id,
    )
    assert record.current_state_timestamp == driver.now_ms
    written = {member.member_id: member for member in record.members}
    assert set(written) == {leader.member_id, follower.member_id}
    one = written[follower.member_id]
    assert (one.session_timeout, one.rebalance_timeout) == (SESSION_MS, REBALANCE_MS)
    assert one.subscription == reads("orders")[0].metadata
    assert one.assignment == f"of {follower.member_id}".encode()


def test_resigning_coordinator_sends_waiting_members_to_the_next():
    driver = ClassicDriver()
    leader, follower = completing(driver)
    other = driver.joined(driver.come(group="other"))
    joining = driver.come(group="other")
    syncing, bringing = driver.sync(follower), driver.sync(leader)
    group = driver.live()
    driver.resign()
    driver.appends.clear()

    assert {driver.error_of(request) for request in (syncing, bringing, joining)} == {ErrorCode.NOT_COORDINATOR}
    assert group.state is GroupState.DEAD
    assert driver.beat(other, group="other") is ErrorCode.NOT_COORDINATOR
    driver.epoch += 1
    driver.lead()
    assert driver.beat(leader) is ErrorCode.NONE, "the log had the assignment"
