"""Members with a group.instance.id (KIP-345): they keep their place, and only one has it at a time."""

from eagleray.broker.groups.classic.events import GroupJoined, LeavingMember
from eagleray.broker.groups.config import GroupConfig
from eagleray.protocol.errors import ErrorCode
from tests.support.classic_groups import REBALANCE_MS, SESSION_MS, ClassicDriver, knows, reads
from tests.support.groups import GROUP, ORDERS_0, offset


def stable_pair(driver: ClassicDriver) -> list[GroupJoined]:
    """Two static members, the leader first."""
    first = driver.joined(driver.join(group_instance_id="host-1"))
    waiting = driver.join(group_instance_id="host-2")
    members = [driver.joined(driver.join(first.member_id, group_instance_id="host-1")), driver.joined(waiting)]
    driver.sync_all(members)
    return members


def assigned(driver: ClassicDriver) -> dict[str | None, bytes]:
    return {member.group_instance_id: member.assignment for member in driver.describe().members}


def test_an_instance_is_a_member_in_one_step_and_the_leader_knows_its_name():
    driver = ClassicDriver()
    joined = driver.joined(driver.join(group_instance_id="host-1"))

    assert joined.member_id == "host-1-id-1"
    assert [member.group_instance_id for member in joined.members] == ["host-1"]


def test_an_instance_that_comes_back_has_what_it_had_without_a_rebalance():
    driver = ClassicDriver()
    leader, follower = stable_pair(driver)
    before = assigned(driver)
    request = driver.join(group_instance_id="host-2", client_id="restarted")
    assert driver.is_waiting(request)
    driver.append()

    joined = driver.joined(request)
    assert joined.error_code is ErrorCode.NONE
    assert joined.member_id not in (follower.member_id, leader.member_id)
    assert (joined.generation, joined.leader) == (follower.generation, leader.member_id)
    assert not joined.skip_assignment
    assert driver.state() == "Stable"
    assert driver.synced(driver.sync(joined, group_instance_id="host-2")).assignment == before["host-2"]
    assert driver.beat(leader) is ErrorCode.NONE
    assert {member.client_id for member in driver.describe().members} == {"client", "restarted"}


def test_replaced_member_is_fenced_everywhere():
    driver = ClassicDriver()
    _, old = stable_pair(driver)
    driver.join(group_instance_id="host-2")
    driver.settle()
    who = {"group_instance_id": "host-2"}

    assert driver.beat(old, **who) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.error_of(driver.sync(old, **who)) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.error_of(driver.join(old.member_id, **who)) is ErrorCode.FENCED_INSTANCE_ID
    committing = driver.commit(offset(ORDERS_0, 1), generation=old.generation, member_id=old.member_id, **who)
    assert driver.error_of(committing) is ErrorCode.FENCED_INSTANCE_ID
    left = driver.replies[driver.leave(LeavingMember(old.member_id, "host-2"))]
    assert left.members[0].error_code is ErrorCode.FENCED_INSTANCE_ID
    assert driver.beat(old) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_comes_back_is_told_to_assign_nothing():
    driver = ClassicDriver()
    leader, follower = stable_pair(driver)
    request = driver.join(group_instance_id="host-1")
    driver.settle()

    joined = driver.joined(request)
    assert joined.leader == joined.member_id
    assert joined.skip_assignment
    assert {member.member_id for member in joined.members} == {joined.member_id, follower.member_id}
    assert leader.member_id not in driver.live().members


def test_a_leader_that_cannot_be_told_so_is_told_that_another_leads():
    driver = ClassicDriver()
    leader, _ = stable_pair(driver)
    request = driver.join(group_instance_id="host-1", supports_skipping_assignment=False)
    driver.settle()

    joined = driver.joined(request)
    assert joined.leader == leader.member_id != joined.member_id
    assert (joined.skip_assignment, joined.members) == (False, ())


def test_the_new_id_is_there_after_a_restart():
    driver = ClassicDriver()
    stable_pair(driver)
    request = driver.join(group_instance_id="host-2")
    driver.settle()
    before = assigned(driver)
    driver.restart()

    assert driver.beat(driver.joined(request), group_instance_id="host-2") is ErrorCode.NONE
    assert assigned(driver) == before


def test_an_id_that_is_not_logged_is_not_given():
    driver = ClassicDriver()
    stable_pair(driver)
    request = driver.join(group_instance_id="host-2")
    driver.lose()
    assert driver.error_of(request) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    again = driver.join(group_instance_id="host-2")
    driver.settle()
    assert driver.error_of(again) is ErrorCode.NONE
    assert len(driver.live().members) == 2


def test_of_two_that_come_back_at_once_the_first_is_fenced():
    driver = ClassicDriver()
    stable_pair(driver)
    first, second = driver.join(group_instance_id="host-2"), driver.join(group_instance_id="host-2")
    assert driver.is_waiting(first)
    driver.settle()

    assert {driver.error_of(first), driver.error_of(second)} == {ErrorCode.NONE}
    assert driver.beat(driver.joined(first), group_instance_id="host-2") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.beat(driver.joined(second), group_instance_id="host-2") is ErrorCode.NONE


def test_a_rebalance_that_begins_before_the_log_is_committed_calls_the_new_one():
    driver = ClassicDriver()
    leader, _ = stable_pair(driver)
    request = driver.join(group_instance_id="host-2")
    again = driver.join(leader.member_id, group_instance_id="host-1")
    driver.settle()

    replaced = driver.joined(request)
    assert replaced.generation == leader.generation
    assert driver.is_waiting(again)
    assert driver.beat(replaced, group_instance_id="host-2") is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = driver.joined(driver.join(replaced.member_id, group_instance_id="host-2"))
    assert rejoined.generation == driver.joined(again).generation == leader.generation + 1


def test_another_choice_of_protocol_begins_a_rebalance():
    driver = ClassicDriver()
    one = driver.joined(driver.join(group_instance_id="host-1", protocols=knows("a", "b")))
    driver.sync_all([one])
    request = driver.join(group_instance_id="host-1", protocols=knows("b", "a"))

    assert driver.joined(request).generation == one.generation + 1
    assert driver.joined(request).protocol_name == "b"


def test_an_instance_may_come_back_while_the_others_come_together_or_wait_for_assignments():
    driver = ClassicDriver()
    leader, follower = stable_pair(driver)
    waiting = driver.join(follower.member_id, group_instance_id="host-2", protocols=reads("payments"))
    replaced = driver.join(group_instance_id="host-2")
    assert driver.error_of(waiting) is ErrorCode.FENCED_INSTANCE_ID
    again = driver.joined(driver.join(leader.member_id, group_instance_id="host-1"))
    assert driver.joined(replaced).generation == again.generation
    syncing = driver.sync(driver.joined(replaced))
    third = driver.join(group_instance_id="host-2")

    assert driver.error_of(syncing) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.state() == "PreparingRebalance"
    assert driver.is_waiting(third)


def test_an_instance_that_does_not_join_again_keeps_its_place_until_its_session_ends():
    driver = ClassicDriver()
    leader, follower = stable_pair(driver)
    waiting = driver.join(follower.member_id, group_instance_id="host-2", protocols=reads("payments"))
    for _ in range(REBALANCE_MS // SESSION_MS + 1):
        driver.beat(leader, group_instance_id="host-1")
        driver.tick(SESSION_MS - 1)

    joined = driver.joined(waiting)
    assert joined.leader == follower.member_id
    assert {member.group_instance_id for member in joined.members} == {"host-1", "host-2"}
    driver.tick(SESSION_MS)
    assert "host-1" not in driver.live().static_members


def test_while_none_of_the_instances_joins_again_the_group_waits_for_them():
    driver = ClassicDriver()
    leader, follower = stable_pair(driver)
    dynamic = driver.new_id_for()
    driver.join(dynamic)
    driver.leave(dynamic)
    for _ in range(REBALANCE_MS // SESSION_MS + 2):
        driver.beat(leader), driver.beat(follower)
        driver.tick(SESSION_MS - 1)
    assert driver.state() == "PreparingRebalance"
    assert len(driver.live().members) == 2

    both = [driver.join(leader.member_id), driver.join(follower.member_id)]
    assert {driver.joined(request).error_code for request in both} == {ErrorCode.NONE}


def test_an_admin_has_an_instance_leave_by_its_name():
    driver = ClassicDriver()
    leader, _ = stable_pair(driver)
    left = driver.replies[driver.leave(LeavingMember("", "host-2"), LeavingMember("", "host-9"))]

    assert [member.error_code for member in left.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(driver.live().static_members) == {"host-1"}
    assert driver.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_instance_comes_back_to_a_full_group():
    driver = ClassicDriver(GroupConfig(offsets_topic_num_partitions=1, group_max_size=2))
    stable_pair(driver)
    request = driver.join(group_instance_id="host-2")
    driver.settle()

    assert driver.error_of(request) is ErrorCode.NONE
    assert driver.error_of(driver.join(group_instance_id="host-3")) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_pending_member_is_not_an_instance():
    driver = ClassicDriver()
    pending = driver.new_id_for()

    assert driver.error_of(driver.join(pending, group_instance_id="host-1")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.live(GROUP).pending_joins
