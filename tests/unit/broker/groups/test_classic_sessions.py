"""Members that leave, fall silent, commit and are looked at; groups that end."""

import pytest

from eagleray.broker.groups.classic.events import MemberProtocol
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.protocol.errors import ErrorCode
from tests.support.classic_groups import SESSION_MS, ClassicDriver, knows, reads
from tests.support.group_protocols import EnterRoom, ReadingRoom, Room, room_of
from tests.support.groups import GROUP, ORDERS_0, PAYMENTS_0, GroupDriver, offset

WEEK_MS = 7 * 24 * 60 * 60 * 1000
INTERVAL_MS = 10 * 60 * 1000


def by(member: object) -> dict[str, object]:
    return {"generation": member.generation, "member_id": member.member_id}


# Leaving


def test_leave_ends_a_rebalance_that_waits_for_no_other_member():
    driver = ClassicDriver()
    first, second = driver.stable(2)
    waiting = driver.join(first.member_id)
    assert driver.is_waiting(waiting)
    driver.leave(second.member_id)

    joined = driver.joined(waiting)
    assert [member.member_id for member in joined.members] == [first.member_id]


def test_many_leave_at_once_each_with_an_outcome_of_its_own():
    driver = ClassicDriver()
    first, second = driver.stable(2)
    pending = driver.new_id_for()
    left = driver.answer_to(driver.leave(first.member_id, "stranger", pending, second.member_id))
    driver.settle()

    assert [member.error_code.name for member in left.members] == ["NONE", "UNKNOWN_MEMBER_ID", "NONE", "NONE"]
    assert [member.member_id for member in left.members][1] == "stranger"
    assert driver.state() == "Empty"
    assert not driver.live().pending_joins


def test_another_member_leads_when_the_leader_leaves():
    driver = ClassicDriver()
    leader, follower = driver.stable(2)
    driver.leave(leader.member_id)

    assert driver.joined(driver.join(follower.member_id)).leader == follower.member_id


def test_pending_member_that_leaves_disturbs_no_other():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.leave(driver.new_id_for())

    assert driver.state() == "Stable"
    again = driver.join(member.member_id, protocols=reads("payments"))
    assert driver.error_of(again) is ErrorCode.NONE


def test_member_that_waits_and_leaves_is_told_that_it_is_unknown():
    driver = ClassicDriver()
    driver.stable()
    pending = driver.new_id_for()
    waiting = driver.join(pending)
    driver.leave(pending)

    assert driver.error_of(waiting) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_goes_on_counting_its_generations():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.leave(member.member_id)
    driver.settle()
    record = driver.logged().groups[GROUP]
    assert (record.generation, record.protocol, record.leader, record.members) == (2, None, None, ())
    assert record.protocol_type == "consumer"
    driver.restart()
    assert driver.state() == "Empty"

    assert driver.joined(driver.come(protocol_type="connect")).generation == 3


# Silence


def test_a_silent_member_is_given_up_and_the_others_called_together():
    driver = ClassicDriver()
    first, second = driver.stable(2)
    driver.tick(SESSION_MS - 1)
    assert driver.beat(first) is ErrorCode.NONE
    driver.tick(1)

    assert driver.beat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.beat(second) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_is_a_sign_of_life_and_one_in_a_transaction_is_not():
    driver = ClassicDriver()
    first, second = driver.stable(2)
    driver.tick(SESSION_MS - 1)
    driver.committed(offset(ORDERS_0, 1), **by(first))
    driver.pending(offset(PAYMENTS_0, 1), **by(second))
    driver.tick(1)

    assert set(driver.live().members) == {first.member_id}


def test_members_whose_time_is_up_together_go_together():
    driver = ClassicDriver()
    driver.stable(3)
    driver.tick(SESSION_MS)
    assert len(driver.appends) == 1
    driver.settle()

    assert driver.state() == "Empty"


def test_a_session_counts_from_the_answer_that_was_waited_for():
    driver = ClassicDriver()
    first, second = driver.stable(2)
    both = [driver.join(first.member_id), driver.join(second.member_id)]
    leader, follower = (driver.joined(request) for request in both)
    waiting = driver.sync(follower)
    for _ in range(3):
        driver.beat(leader)
        driver.tick(SESSION_MS - 1)
    driver.sync(leader)
    driver.settle()
    driver.tick(SESSION_MS - 1)

    assert driver.error_of(waiting) is ErrorCode.NONE
    assert driver.beat(follower) is ErrorCode.NONE


def test_deadlines_of_groups_come_once_and_no_later_than_they_were_set_to():
    deadlines = Deadlines()
    deadlines.set_by("a", 30)
    deadlines.set_by("a", 10)
    deadlines.set_by("a", 20)
    deadlines.set_by("b", 15)

    assert [*deadlines.take_due(9)] == []
    assert [*deadlines.take_due(15)] == ["a", "b"]
    assert [*deadlines.take_due(100)] == []
    deadlines.set_by("a", 40)
    assert [*deadlines.take_due(40)] == ["a"]


# Looking at groups


def test_a_group_is_described_with_its_members_and_when_stable_with_what_they_have():
    driver = ClassicDriver()
    (member,) = driver.stable()
    (found,) = driver.describe().members
    assert (found.member_id, found.client_id, found.client_host) == (member.member_id, "client", "/127.0.0.1")
    assert (found.metadata, found.assignment) == (reads("orders")[0].metadata, f"of {member.member_id}".encode())

    driver.come()
    described = driver.describe()
    assert (described.state, described.protocol_type, described.protocol_name) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert {(found.metadata, found.assignment) for found in described.members} == {(b"", b"")}


def test_a_group_with_offsets_only_is_empty_and_one_that_is_not_there_is_dead():
    driver = ClassicDriver()
    driver.committed(offset(ORDERS_0, 1), group="offsets")

    assert (driver.describe("offsets").error_code, driver.state("offsets")) == (ErrorCode.NONE, "Empty")
    assert driver.describe("nothing").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.state("nothing") == "Dead"
    assert driver.describe("").error_code is ErrorCode.INVALID_GROUP_ID


def test_groups_are_listed_with_their_states():
    driver = ClassicDriver()
    driver.stable()
    driver.joined(driver.come(group="completing", protocol_type="connect"))
    driver.committed(offset(ORDERS_0, 1), group="offsets")

    found = [(group.name, group.kind, group.state, group.protocol_type) for group in driver.listed()]
    assert found == [
        (GROUP, "classic", "Stable", "consumer"),
        ("completing", "classic", "CompletingRebalance", "connect"),
        ("offsets", "classic", "Empty", ""),
    ]
    assert [group.name for group in driver.listed(states=("stable",))] == [GROUP]
    assert [group.name for group in driver.listed(protocol_types=("connect",))] == ["completing"]


# Deleting


def test_offsets_of_topics_that_members_read_stay():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.committed(offset(ORDERS_0, 1), offset(PAYMENTS_0, 1), **by(member))
    request = driver.delete_offsets(ORDERS_0, PAYMENTS_0)
    driver.settle()

    assert driver.replies[request].partition_errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE)
    assert driver.offsets() == {ORDERS_0: 1}


@pytest.mark.parametrize("subscription", [b"", b"\0", b"\0\0garbage"])
def test_a_member_whose_subscription_cannot_be_read_may_read_anything(subscription: bytes):
    driver = ClassicDriver()
    (member,) = driver.stable(protocols=(MemberProtocol("range", subscription),))
    driver.committed(offset(ORDERS_0, 1), **by(member))

    request = driver.delete_offsets(ORDERS_0)
    assert driver.replies[request].partition_errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)


def test_nothing_is_deleted_of_members_that_are_no_consumers():
    driver = ClassicDriver()
    (member,) = driver.stable(protocol_type="connect", protocols=knows("sessioned"))
    driver.committed(offset(ORDERS_0, 1), **by(member))

    assert driver.error_of(driver.delete_offsets(ORDERS_0)) is ErrorCode.NON_EMPTY_GROUP


def test_a_group_without_offsets_is_deleted_from_the_log():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.leave(member.member_id)
    driver.settle()
    request = driver.delete_group()
    driver.settle()

    assert driver.error_of(request) is ErrorCode.NONE
    assert not driver.logged().groups
    assert driver.groups() == ()


def test_member_that_joins_while_the_group_is_being_deleted_is_in_a_new_one():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.leave(member.member_id)
    driver.settle()
    driver.delete_group()
    joined = driver.joined(driver.come())
    assert joined.generation == 1
    driver.sync(joined)
    driver.settle()
    driver.restart()

    assert driver.beat(joined) is ErrorCode.NONE


def test_a_deletion_that_is_lost_takes_the_new_group_of_its_turn_with_it():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.leave(member.member_id)
    driver.settle()
    request = driver.delete_group()
    joining = driver.join(requires_known_member_id=False)
    driver.lose()

    assert {driver.error_of(request), driver.error_of(joining)} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert driver.state() == "Empty"
    assert driver.live().generation == 2


def test_an_empty_group_without_offsets_is_forgotten_in_time():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.leave(member.member_id)
    driver.settle()
    driver.tick()
    driver.tick(INTERVAL_MS)
    driver.settle()

    assert driver.groups() == ()
    assert not driver.logged().groups


def test_offsets_of_a_group_with_members_do_not_expire_and_then_are_kept_from_the_last_member_on():
    driver = ClassicDriver()
    (member,) = driver.stable()
    driver.committed(offset(ORDERS_0, 1), **by(member))
    driver.now_ms += WEEK_MS
    driver.beat(member)
    driver.tick()
    assert not driver.appends
    driver.leave(member.member_id)
    driver.settle()
    driver.tick(WEEK_MS - 1)
    assert not driver.appends
    driver.tick(INTERVAL_MS)
    driver.settle()

    assert driver.groups() == ()


def test_a_group_of_another_kind_with_members_is_not_joined():
    driver = ClassicDriver()
    room_of(driver, GROUP, Room(generation=1, members={"reader"}))

    assert driver.error_of(driver.join()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.error_of(driver.leave("reader")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_another_kind_without_members_becomes_a_classic_one():
    driver = ClassicDriver(protocols=[*GroupDriver().protocols, ReadingRoom])
    driver.send(EnterRoom(10_000, GROUP, 1, frozenset()))
    driver.settle()
    (member,) = driver.stable()
    driver.restart()

    assert driver.beat(member) is ErrorCode.NONE
    assert driver.live().kind == "classic"
