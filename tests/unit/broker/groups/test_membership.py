"""Who may commit for a group."""

import pytest

from eagleray.broker.groups.membership import NO_MEMBERS, GenerationMembership
from eagleray.protocol.errors import ErrorCode
from tests.support.group_protocols import ReadingRoom, Room, room_of
from tests.support.groups import GROUP, ORDERS_0, GroupDriver, offset

TWO = Room(generation=5, members={"m1", "m2"}, static_members={"host-2": "m2"})
REBALANCING = Room(generation=5, members={"m1"}, is_completing_rebalance=True)


@pytest.mark.parametrize(
    ("membership", "generation", "member_id", "instance_id", "plain", "transactional"),
    [
        (NO_MEMBERS, -1, "", None, "NONE", "NONE"),
        (NO_MEMBERS, -1, "m1", None, "NONE", "NONE"),
        (NO_MEMBERS, 0, "m1", None, "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
        (NO_MEMBERS, 0, "", "host-2", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
        (TWO, 5, "m1", None, "NONE", "NONE"),
        (TWO, 4, "m1", None, "ILLEGAL_GENERATION", "ILLEGAL_GENERATION"),
        (TWO, 6, "m1", None, "ILLEGAL_GENERATION", "ILLEGAL_GENERATION"),
        (TWO, -1, "m1", None, "ILLEGAL_GENERATION", "ILLEGAL_GENERATION"),
        (TWO, 5, "m3", None, "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
        (TWO, 5, "", None, "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
        (TWO, 5, "m2", "host-2", "NONE", "NONE"),
        (TWO, 5, "m1", "host-2", "FENCED_INSTANCE_ID", "FENCED_INSTANCE_ID"),
        (TWO, 5, "m1", "host-9", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
        (TWO, -1, "", "host-2", "FENCED_INSTANCE_ID", "FENCED_INSTANCE_ID"),
        (TWO, -1, "", None, "UNKNOWN_MEMBER_ID", "NONE"),
        (REBALANCING, 5, "m1", None, "REBALANCE_IN_PROGRESS", "NONE"),
        (REBALANCING, 4, "m1", None, "ILLEGAL_GENERATION", "ILLEGAL_GENERATION"),
    ],
)
def test_commit_is_checked_against_members(
    membership: GenerationMembership,
    generation: int,
    member_id: str,
    instance_id: str | None,
    plain: str,
    transactional: str,
):
    def check(*, is_transactional: bool) -> str:
        return membership.check_commit(generation, member_id, instance_id, is_transactional=is_transactional).name

    assert check(is_transactional=False) == plain
    assert check(is_transactional=True) == transactional


def test_generation_of_an_unknown_group_is_illegal():
    driver = GroupDriver()

    plain = driver.commit(offset(ORDERS_0, 1), generation=3, member_id="m1")
    transactional = driver.commit_in_transaction(offset(ORDERS_0, 1), generation=3, member_id="m1")
    driver.settle()

    assert driver.error_of(plain) is ErrorCode.ILLEGAL_GENERATION
    assert driver.error_of(transactional) is ErrorCode.ILLEGAL_GENERATION
    assert driver.groups() == ()


def test_a_generation_of_a_group_that_has_lost_its_members_is_that_of_an_unknown_member():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))

    assert driver.error_of(driver.commit(offset(ORDERS_0, 2), generation=3, member_id="m1")) is (
        ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_member_commits_and_a_stranger_does_not():
    driver = GroupDriver(protocols=[ReadingRoom])
    room_of(driver, GROUP, TWO)

    driver.committed(offset(ORDERS_0, 1), generation=5, member_id="m1")
    stranger = driver.commit(offset(ORDERS_0, 2))

    assert driver.error_of(stranger) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.offsets() == {ORDERS_0: 1}


def test_a_generation_that_ends_while_its_commit_waits_for_verification_does_not_commit():
    driver = GroupDriver(protocols=[ReadingRoom])
    room_of(driver, GROUP, TWO)
    request = driver.commit_in_transaction(offset(ORDERS_0, 1), generation=5, member_id="m1")

    room_of(driver, GROUP, Room(generation=6, members=TWO.members))
    driver.settle()

    assert driver.error_of(request) is ErrorCode.ILLEGAL_GENERATION
    assert driver.unstable() == set()
