"""The limits on groups, members and offsets: what is refused, what makes room, and what never does."""

import pytest

from eagleray.broker.groups.classic.events import JoinGroup, LeaveGroup, LeavingMember, MemberProtocol
from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.consumer.events import ConsumerHeartbeat
from eagleray.broker.groups.limits import LOOK_MS, Allowance
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import ORDERS_0, ORDERS_1, PAYMENTS_0, PRODUCER, GroupDriver, marker, offset

NONE, REFUSED = ErrorCode.NONE, ErrorCode.POLICY_VIOLATION
SESSION_MS = 10_000


def limited(**limits):
    return GroupDriver(GroupConfig(offsets_topic_num_partitions=1, **limits))


def commit(driver, group, *offsets):
    """Commit offsets outside of any group membership; return the code of the request, or those of its offsets."""
    request_id = driver.commit(*offsets, group=group)
    driver.settle()
    answer = driver.answer_to(request_id)
    return answer.partition_errors or answer.error_code


def join(driver, group, **fields):
    known = {"member_id": "", "protocol_type": "consumer", "protocols": (MemberProtocol("range", b""),)}
    known |= {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS, "requires_known_member_id": False}
    request_id = driver.request(JoinGroup, group, **(known | fields))
    driver.settle()
    return driver.answer_to(request_id)


def heartbeat(driver, group, member_id, epoch=0):
    request_id = driver.request(
        ConsumerHeartbeat,
        group,
        member_id,
        epoch,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("orders",),
        owned=(),
    )
    driver.settle()
    return driver.answer_to(request_id)


def test_allowance_counts_again_only_when_there_may_be_too_much_and_not_too_often():
    counted = []
    there = [0]

    def count():
        counted.append(there[0])
        return there[0]

    allowance = Allowance(3, count, 0)
    assert [allowance.take(0) for _ in range(3)] == [True] * 3
    there[0] = 3
    assert counted == [0]
    assert not allowance.take(LOOK_MS - 1), "it is not counted again so soon"
    assert not allowance.take(LOOK_MS)
    there[0] = 2
    assert not allowance.take(2 * LOOK_MS - 1)
    assert allowance.take(2 * LOOK_MS)
    assert counted == [0, 3, 2]


def test_new_group_is_refused_and_a_known_one_is_not():
    driver = limited(max_groups_per_partition=2)
    assert commit(driver, "a", offset(ORDERS_0, 1)) is NONE
    assert join(driver, "b").error_code is NONE
    driver.now_ms += LOOK_MS
    assert commit(driver, "c", offset(ORDERS_0, 1)) is REFUSED
    assert join(driver, "c").error_code is REFUSED
    assert heartbeat(driver, "c", "m").error_code is REFUSED
    assert commit(driver, "a", offset(ORDERS_1, 1)) is NONE
    assert join(driver, "a").error_code is NONE
    assert driver.groups() == ("a", "b")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_without_members_and_offsets_makes_room(protocol):
    driver = limited(max_groups_per_partition=1)
    if protocol == "classic":
        member_id = join(driver, "a").member_id
        driver.request(LeaveGroup, "a", (LeavingMember(member_id, None),))
    else:
        heartbeat(driver, "a", "m")
        heartbeat(driver, "a", "m", epoch=-1)
    driver.settle()
    assert driver.groups() == ("a",)
    driver.now_ms += LOOK_MS
    assert commit(driver, "b", offset(ORDERS_0, 1)) is NONE
    assert driver.groups() == ("b",)
    driver.restart()
    assert driver.groups() == ("b",), "the log has forgotten the other"


def test_group_with_members_or_offsets_makes_no_room():
    driver = limited(max_groups_per_partition=4)
    commit(driver, "offsets", offset(ORDERS_0, 1))
    driver.pending(offset(ORDERS_0, 1), group="pending")
    join(driver, "classic")
    heartbeat(driver, "consumer", "m")
    driver.now_ms += LOOK_MS
    assert commit(driver, "new", offset(ORDERS_0, 1)) is REFUSED
    assert set(driver.groups()) == {"offsets", "pending", "classic", "consumer"}


def test_client_that_was_given_an_id_is_expected_and_its_group_makes_no_room():
    driver = limited(max_groups_per_partition=1)
    told = join(driver, "a", requires_known_member_id=True)
    assert told.error_code is ErrorCode.MEMBER_ID_REQUIRED
    driver.now_ms += LOOK_MS
    assert commit(driver, "b", offset(ORDERS_0, 1)) is REFUSED
    assert join(driver, "a", member_id=told.member_id).error_code is NONE


def test_new_member_is_refused_and_a_known_one_is_not():
    driver = limited(max_members_per_partition=2)
    member_id = join(driver, "a").member_id
    heartbeat(driver, "b", "m")
    driver.now_ms += LOOK_MS
    assert join(driver, "a").error_code is REFUSED
    assert join(driver, "c", requires_known_member_id=True).error_code is REFUSED
    assert heartbeat(driver, "b", "other").error_code is REFUSED
    assert heartbeat(driver, "b", "m").error_code is NONE
    assert join(driver, "a", member_id=member_id).error_code is NONE


def test_clients_that_were_given_an_id_count_as_members():
    driver = limited(max_members_per_partition=2)
    for _ in range(2):
        assert join(driver, "a", requires_known_member_id=True).error_code is ErrorCode.MEMBER_ID_REQUIRED
    driver.now_ms += LOOK_MS
    assert join(driver, "a", requires_known_member_id=True).error_code is REFUSED
    driver.tick(SESSION_MS)
    assert join(driver, "a", requires_known_member_id=True).error_code is ErrorCode.MEMBER_ID_REQUIRED


def test_static_member_comes_back_whatever_the_limits_are():
    driver = limited(max_members_per_partition=1)
    first = join(driver, "a", group_instance_id="host-1")
    driver.now_ms += LOOK_MS
    assert join(driver, "a", group_instance_id="host-2").error_code is REFUSED
    again = join(driver, "a", group_instance_id="host-1")
    assert again.error_code is NONE
    assert again.member_id != first.member_id


def test_member_that_says_too_much_about_itself_is_refused():
    driver = limited(group_max_member_bytes=100)
    assert join(driver, "a", protocols=(MemberProtocol("range", bytes(95)),)).error_code is NONE
    too_much = (MemberProtocol("range", bytes(50)), MemberProtocol("other", bytes(50)))
    assert join(driver, "b", protocols=too_much).error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("limit", ["max_offsets_per_group", "max_offsets_per_partition"])
def test_offset_of_another_partition_is_refused_and_those_that_are_known_are_not(limit):
    driver = limited(**{limit: 2})
    assert commit(driver, "a", offset(ORDERS_0, 1), offset(ORDERS_1, 1)) is NONE
    driver.now_ms += LOOK_MS
    codes = commit(driver, "a", offset(ORDERS_0, 2), offset(PAYMENTS_0, 2), offset(ORDERS_1, 2))
    assert codes == (NONE, REFUSED, NONE)
    assert driver.offsets("a") == {ORDERS_0: 2, ORDERS_1: 2}


def test_offsets_of_open_transactions_count_and_make_room_when_they_are_aborted():
    driver = limited(max_offsets_per_partition=1)
    driver.pending(offset(ORDERS_0, 1))
    driver.now_ms += LOOK_MS
    assert commit(driver, "other", offset(ORDERS_0, 1)) == (REFUSED,)
    driver.ended(marker(PRODUCER, commit=False))
    driver.now_ms += LOOK_MS
    assert commit(driver, "other", offset(ORDERS_0, 1)) is NONE
