"""Who becomes a member of a classic group, and when a generation begins."""

import pytest

from eagleray.broker.groups.config import GroupConfig
from eagleray.protocol.errors import ErrorCode
from tests.support.classic_groups import REBALANCE_MS, SESSION_MS, ClassicDriver, knows, reads
from tests.support.groups import GROUP, ORDERS_0, offset


def driver_with(**config: int) -> ClassicDriver:
    return ClassicDriver(GroupConfig(offsets_topic_num_partitions=1, **config))


# Becoming a member


def test_a_new_member_is_sent_back_with_an_id_and_then_leads_a_generation_of_its_own():
    driver = ClassicDriver()
    member_id = driver.new_id_for(client_id="shop")
    assert member_id == "shop-id-1"
    assert driver.state() == "Empty"

    joined = driver.joined(driver.join(member_id))

    assert joined.error_code is ErrorCode.NONE
    assert (joined.member_id, joined.leader, joined.generation) == (member_id, member_id, 1)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [(member.member_id, member.metadata) for member in joined.members] == [
        (member_id, reads("orders")[0].metadata)
    ]
    assert driver.state() == "CompletingRebalance"


def test_an_old_client_joins_in_one_step():
    driver = ClassicDriver()

    joined = driver.joined(driver.join(requires_known_member_id=False))

    assert joined.error_code is ErrorCode.NONE
    assert joined.member_id == "client-id-1"


def test_member_id_that_was_never_given_is_unknown():
    driver = ClassicDriver()
    assert driver.error_of(driver.join("stranger")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not driver.is_live()

    driver.stable()
    answer = driver.joined(driver.join("stranger"))
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")


def test_an_id_that_is_not_used_in_time_is_forgotten_and_so_is_the_group():
    driver = ClassicDriver()
    member_id = driver.new_id_for()

    driver.tick(SESSION_MS - 1)
    assert driver.is_live()
    driver.tick(1)

    assert not driver.is_live()
    assert driver.error_of(driver.join(member_id)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not driver.appends


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"client_id": "x" * 9000}, ErrorCode.INVALID_REQUEST),
        ({"group_instance_id": "x" * 9000}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": 2**31}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_impossible_member_is_refused(fields: dict, error_code: ErrorCode):
    driver = ClassicDriver()

    assert driver.error_of(driver.join(**fields)) is error_code
    assert not driver.is_live()


def test_member_without_a_rebalance_timeout_waits_for_its_session():
    driver = ClassicDriver()
    first = driver.joined(driver.come(rebalance_timeout_ms=-1))
    waiting = driver.come(rebalance_timeout_ms=-1)

    driver.tick(SESSION_MS - 1)
    driver.beat(first)
    assert driver.is_waiting(waiting)
    driver.tick(1)

    assert driver.error_of(waiting) is ErrorCode.NONE


# The join phase


def test_a_second_member_calls_the_first_back():
    driver = ClassicDriver()
    (first,) = driver.stable()
    waiting = driver.come()

    assert driver.is_waiting(waiting)
    assert driver.state() == "PreparingRebalance"
    assert driver.beat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.join(first.member_id)

    leader, second = driver.joined(again), driver.joined(waiting)
    assert leader.leader == second.leader == first.member_id
    assert (leader.generation, second.generation) == (2, 2)
    assert {member.member_id for member in leader.members} == {first.member_id, second.member_id}
    assert second.members == ()


def test_pending_member_is_waited_for():
    driver = ClassicDriver()
    (first,) = driver.stable()
    pending = driver.new_id_for()

    again = driver.join(first.member_id)
    assert driver.is_waiting(again)
    late = driver.join(pending)

    assert driver.joined(again).generation == driver.joined(late).generation == 2


def test_a_pending_member_that_does_not_come_holds_the_others_up_no_longer_than_its_session():
    driver = ClassicDriver()
    (first,) = driver.stable()
    driver.new_id_for()
    again = driver.join(first.member_id)

    driver.tick(SESSION_MS)

    assert driver.joined(again).generation == 2


def test_member_that_does_not_come_back_in_time_is_out():
    driver = ClassicDriver()
    first, second = driver.stable(2)
    waiting = driver.join(second.member_id, protocols=reads("payments"))
    for _ in range(REBALANCE_MS // SESSION_MS):
        assert driver.beat(first) is ErrorCode.REBALANCE_IN_PROGRESS
        driver.tick(SESSION_MS - 1)
    assert driver.is_waiting(waiting)
    driver.beat(first)
    driver.tick(SESSION_MS)

    joined = driver.joined(waiting)
    assert joined.leader == second.member_id
    assert [member.member_id for member in joined.members] == [second.member_id]
    assert driver.beat(first) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_that_waits_is_given_up_after_five_minutes_of_silence():
    driver = ClassicDriver()
    (first,) = driver.stable(rebalance_timeout_ms=600_000)
    waiting = driver.come(rebalance_timeout_ms=600_000)
    for _ in range(31):
        driver.beat(first)
        driver.tick(SESSION_MS - 1)

    assert driver.error_of(waiting) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.joined(driver.join(first.member_id)).generation == 2


def test_a_known_member_that_waits_need_not_be_heard_of():
    driver = ClassicDriver()
    first, second = driver.stable(2)
    waiting = driver.join(second.member_id, protocols=reads("payments"))
    for _ in range(5):
        driver.beat(first)
        driver.tick(SESSION_MS - 1)
    assert driver.is_waiting(waiting)
    driver.join(first.member_id)

    assert driver.error_of(waiting) is ErrorCode.NONE
    assert len(driver.live().members) == 2


def test_a_repeated_join_takes_the_place_of_the_one_that_waits():
    driver = ClassicDriver()
    first, second = driver.stable(2)
    old = driver.join(second.member_id, protocols=reads("payments"))
    new = driver.join(second.member_id, protocols=reads("payments"))

    answer = driver.joined(old)
    assert (answer.error_code, answer.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, second.member_id)
    assert driver.is_waiting(new)
    driver.join(first.member_id)
    assert driver.error_of(new) is ErrorCode.NONE


def test_member_that_missed_the_answer_is_told_again_without_a_rebalance():
    driver = ClassicDriver()
    joined = driver.joined(driver.come())
    assert driver.joined(driver.join(joined.member_id)).members == joined.members

    driver = ClassicDriver()
    _, second = driver.stable(2)
    again = driver.joined(driver.join(second.member_id))

    assert again.generation == second.generation
    assert again.members == ()
    assert driver.state() == "Stable"


def test_the_leader_of_a_stable_group_begins_a_rebalance_by_joining_again():
    driver = ClassicDriver()
    (leader,) = driver.stable()

    assert driver.joined(driver.join(leader.member_id)).generation == leader.generation + 1


def test_a_new_subscription_begins_a_rebalance_also_while_assignments_are_waited_for():
    driver = ClassicDriver()
    first, second = driver.stable(2)
    both = [driver.join(first.member_id), driver.join(second.member_id)]
    leader, follower = map(driver.joined, both)
    waiting = driver.sync(follower)
    rejoin = driver.join(leader.member_id, protocols=reads("orders", "payments"))

    assert driver.error_of(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.is_waiting(rejoin)


# The first generation


def test_the_first_generation_waits_for_more_members_where_that_is_configured():
    driver = driver_with(group_initial_rebalance_delay_ms=3000)
    first = driver.come()
    driver.tick(2000)
    second = driver.come()
    driver.tick(1000)
    assert driver.is_waiting(first)
    third = driver.come()
    driver.tick(3000)
    assert driver.is_waiting(first)
    driver.tick(3000)

    generations = {driver.joined(request).generation for request in (first, second, third)}
    assert generations == {1}


def test_the_first_generation_waits_no_longer_than_its_members_say():
    driver = driver_with(group_initial_rebalance_delay_ms=3000)
    first = driver.come(rebalance_timeout_ms=7000)
    for _ in range(2):
        driver.come(rebalance_timeout_ms=7000)
        driver.tick(3000)
    assert driver.is_waiting(first)
    driver.come(rebalance_timeout_ms=7000)
    driver.tick(1000)

    assert driver.joined(first).generation == 1


def test_all_members_may_leave_before_the_first_generation():
    driver = driver_with(group_initial_rebalance_delay_ms=3000)
    member_id = driver.new_id_for()
    waiting = driver.join(member_id)
    driver.leave(member_id)
    assert driver.error_of(waiting) is ErrorCode.UNKNOWN_MEMBER_ID

    driver.tick(3000)
    driver.settle()

    assert driver.state() == "Empty"
    assert driver.logged().groups[GROUP].generation == 1


# Protocols


def test_the_protocol_is_one_that_all_know_and_most_would_rather_have():
    driver = driver_with(group_initial_rebalance_delay_ms=1)
    wishes = [knows("a", "b", "c"), knows("c", "b"), knows("d", "c", "b")]
    requests = [driver.come(protocols=wish) for wish in wishes]
    driver.tick(1)
    driver.tick(1)

    assert {driver.joined(request).protocol_name for request in requests} == {"c"}


def test_client_that_shares_no_protocol_with_the_others_stays_out():
    driver = ClassicDriver()
    driver.stable(protocols=knows("a", "b"))

    assert driver.error_of(driver.join(protocols=knows("c"))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.error_of(driver.join(protocols=knows("a"), protocol_type="connect")) is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert driver.error_of(driver.join(protocols=knows("b"))) is ErrorCode.MEMBER_ID_REQUIRED


def test_a_protocol_that_is_named_twice_counts_once():
    driver = ClassicDriver()
    driver.stable(protocols=knows("a", "a"))

    assert driver.error_of(driver.join(protocols=knows("a"))) is ErrorCode.MEMBER_ID_REQUIRED


def test_cooperative_members_rebalance_twice_with_what_they_own_in_their_subscriptions():
    driver = ClassicDriver()
    (first,) = driver.stable(protocols=knows("cooperative-sticky"))
    second = driver.come(protocols=knows("cooperative-sticky"))
    members = [
        driver.joined(driver.join(first.member_id, protocols=knows("cooperative-sticky"))),
        driver.joined(second),
    ]
    driver.sync_all(members)
    # Whoever had to give something up joins again with another subscription, and so the other is called once more.
    again = driver.join(first.member_id, protocols=reads("orders", protocol="cooperative-sticky"))
    assert driver.beat(members[1]) is ErrorCode.REBALANCE_IN_PROGRESS
    other = driver.join(members[1].member_id, protocols=knows("cooperative-sticky"))
    answers = driver.sync_all([driver.joined(again), driver.joined(other)])

    assert driver.joined(again).generation == members[0].generation + 1
    assert all(answer.assignment for answer in answers)


# Sizes


def test_full_group_takes_no_other_member():
    driver = driver_with(group_max_size=1)
    (member,) = driver.stable()

    answer = driver.joined(driver.join())
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.joined(driver.join(member.member_id)).error_code is ErrorCode.NONE


def test_a_pending_member_for_whom_there_is_no_room_is_forgotten():
    driver = driver_with(group_max_size=1)
    first, second = driver.new_id_for(), driver.new_id_for()
    joined = driver.joined(driver.join(first))

    assert driver.error_of(driver.join(second)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.sync_all([joined])
    assert not driver.live().pending_joins


def test_member_that_joins_again_too_late_for_the_size_is_out():
    driver = driver_with(group_max_size=2, group_initial_rebalance_delay_ms=10)
    requests = [driver.come(), driver.come()]
    driver.tick(20)
    driver.tick(20)
    first, second = (driver.joined(request) for request in requests)
    driver.sync_all([first, second])
    driver.config = GroupConfig(offsets_topic_num_partitions=1, group_max_size=1)
    driver.restart()
    # The group is larger than it may be, and everybody is called together.
    assert driver.state() == "PreparingRebalance"
    waiting = driver.join(second.member_id)
    assert driver.error_of(driver.join(first.member_id)) is ErrorCode.GROUP_MAX_SIZE_REACHED

    assert driver.joined(waiting).leader == second.member_id


# Where it is coordinated


def test_a_member_of_a_group_of_another_coordinator_is_sent_there_and_one_of_a_loading_one_waits():
    driver = ClassicDriver()
    driver.resign()
    assert driver.error_of(driver.join()) is ErrorCode.NOT_COORDINATOR
    assert driver.describe().error_code is ErrorCode.NOT_COORDINATOR


def test_a_group_that_has_had_offsets_only_may_get_members():
    driver = ClassicDriver()
    driver.committed(offset(ORDERS_0, 3))
    (member,) = driver.stable()

    assert driver.error_of(driver.commit(offset(ORDERS_0, 4))) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.committed(offset(ORDERS_0, 5), generation=member.generation, member_id=member.member_id)
    assert driver.offsets() == {ORDERS_0: 5}
