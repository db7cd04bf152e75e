"""What any protocol of groups can rely on: its records in the log, and its word about its members."""

from eagleray.broker.groups.coordinator import GroupCoordinator
from eagleray.broker.groups.events import FetchOffsets, ListGroups
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.runtime.coordinator_events import PartitionAssigned, PartitionLoaded
from eagleray.protocol.errors import ErrorCode
from tests.support.group_protocols import RECORD_TYPE, EnterRoom, ReadingRoom
from tests.support.groups import GROUP, ORDERS_0, PAYMENTS_0, GroupDriver, new_ids, offset

WEEK_MS = 7 * 24 * 60 * 60 * 1000
INTERVAL_MS = 10 * 60 * 1000
_IDS = iter(range(1000, 10_000))


def enter(driver: GroupDriver, *members: str, generation: int = 1) -> int:
    request_id = next(_IDS)
    driver.send(EnterRoom(request_id, GROUP, generation, frozenset(members)))
    return request_id


def occupied(*members: str) -> GroupDriver:
    driver = GroupDriver(protocols=[ReadingRoom])
    enter(driver, *members)
    driver.settle()
    return driver


def live(driver: GroupDriver) -> dict:
    return driver.coordinator._context.shards.by_partition[0].live


def listed(driver: GroupDriver, *filters: object) -> list[str]:
    request_id = next(_IDS)
    driver.send(ListGroups(request_id, *filters))
    return [group.name for group in driver.replies[request_id].groups]


def test_members_count_at_once_and_are_told_when_the_log_is_committed():
    driver = GroupDriver(protocols=[ReadingRoom])
    request = enter(driver, "m1")

    assert request not in driver.replies
    assert live(driver)[GROUP].members == {"m1"}
    driver.append()

    assert driver.error_of(request) is ErrorCode.NONE


def test_members_that_were_lost_do_not_count():
    driver = GroupDriver(protocols=[ReadingRoom])
    request = enter(driver, "m1")
    driver.lose()

    assert driver.error_of(request) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not live(driver)


def test_members_are_there_after_a_restart():
    driver = occupied("m1", "m2")
    driver.restart()

    assert live(driver)[GROUP].members == {"m1", "m2"}
    driver.committed(offset(ORDERS_0, 1), generation=1, member_id="m2")


def test_state_without_a_registered_protocol_is_taken_all_the_same():
    coordinator = GroupCoordinator(GroupDriver().config, new_ids(), GroupDriver(), [ReadingRoom])
    coordinator.handle(PartitionAssigned(0, 1), 0)
    state = OffsetsState()
    coordinator.handle(PartitionLoaded(0, 1, state), 0)

    assert RECORD_TYPE in state.members


def test_a_kind_hears_of_commits_outside_of_transactions():
    driver = occupied("m1")
    driver.committed(offset(ORDERS_0, 1), generation=1, member_id="m1")
    driver.commit(offset(ORDERS_0, 2), generation=9, member_id="m1")
    driver.pending(offset(ORDERS_0, 3), generation=1, member_id="m1")

    assert live(driver)[GROUP].commits == [("m1", driver.now_ms)]


def test_a_kind_says_who_may_fetch():
    driver = occupied("m1")
    driver.send(FetchOffsets(5000, GROUP, None, False, "m1", 7))
    driver.send(FetchOffsets(5001, GROUP, None, False, "m1", 1))

    assert driver.error_of(5000) is ErrorCode.STALE_MEMBER_EPOCH
    assert driver.error_of(5001) is ErrorCode.NONE


def test_a_group_with_members_is_not_deleted_nor_are_offsets_that_they_read():
    driver = occupied("m1")
    driver.committed(offset(ORDERS_0, 1), offset(PAYMENTS_0, 2), generation=1, member_id="m1")

    whole, some = driver.delete_group(), driver.delete_offsets(ORDERS_0, PAYMENTS_0)
    driver.settle()

    assert driver.error_of(whole) is ErrorCode.NON_EMPTY_GROUP
    assert driver.replies[some].partition_errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE)
    assert driver.offsets() == {ORDERS_0: 1}


def test_a_deleted_group_is_gone_from_the_log_as_well():
    driver = occupied()
    driver.committed(offset(ORDERS_0, 1))
    assert driver.error_of(_settled(driver, driver.delete_group())) is ErrorCode.NONE

    assert driver.groups() == ()
    driver.restart()
    assert driver.groups() == ()
    assert not live(driver)


def test_a_group_whose_deletion_is_lost_is_there_again():
    driver = occupied()
    request = driver.delete_group()
    assert not live(driver)
    driver.lose()

    assert driver.error_of(request) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert GROUP in live(driver)


def test_a_group_without_members_and_offsets_is_deleted_in_time():
    driver = occupied()
    driver.committed(offset(ORDERS_0, 1))
    driver.tick(WEEK_MS - 1)
    assert not driver.appends
    driver.tick(INTERVAL_MS)
    driver.settle()

    assert driver.groups() == ()
    assert not driver.load().members[RECORD_TYPE].rooms


def test_nothing_expires_of_a_group_with_members():
    driver = occupied("m1")
    driver.committed(offset(ORDERS_0, 1), generation=1, member_id="m1")
    driver.tick(WEEK_MS)

    assert not driver.appends


def test_offsets_are_kept_from_when_the_last_member_went():
    driver = occupied("m1")
    driver.committed(offset(ORDERS_0, 1), generation=1, member_id="m1")
    driver.now_ms += WEEK_MS
    enter(driver, generation=2)
    driver.settle()

    driver.tick(WEEK_MS - 1)
    assert not driver.appends
    driver.tick(INTERVAL_MS)
    assert driver.appends


def test_a_list_may_be_of_some_groups_only():
    driver = occupied("m1")
    driver.committed(offset(ORDERS_0, 1), group="offsets-only")

    assert listed(driver) == [GROUP, "offsets-only"]
    assert listed(driver, ("EMPTY",)) == ["offsets-only"]
    assert listed(driver, ("open", "Empty")) == [GROUP, "offsets-only"]
    assert listed(driver, (), ("Room",)) == [GROUP]
    assert listed(driver, (), ("classic",)) == ["offsets-only"]
    assert listed(driver, (), (), ("reading",)) == [GROUP]
    assert listed(driver, ("Open",), ("classic",)) == []


def _settled(driver: GroupDriver, request: int) -> int:
    driver.settle()
    return request
