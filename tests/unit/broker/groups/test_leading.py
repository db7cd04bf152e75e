"""Partitions of `__consumer_offsets` come and go."""

from eagleray.broker.groups.classic.events import (
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberProtocol,
    SyncGroup,
)
from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.coordinator import GroupCoordinator
from eagleray.broker.groups.events import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    FetchOffsets,
    ListGroups,
)
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.partitions.events import WriteMarkers
from eagleray.broker.runtime.coordinator_events import Committed, PartitionAssigned, PartitionLoaded, PartitionResigned
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import GROUP, ORDERS_0, PRODUCER, GroupDriver, marker, new_ids, offset

REQUESTS = [
    CommitOffsets(1, GROUP, (offset(ORDERS_0, 1),)),
    CommitTransactionOffsets(1, GROUP, "t", PRODUCER, (offset(ORDERS_0, 1),)),
    FetchOffsets(1, GROUP),
    DeleteGroup(1, GROUP),
    JoinGroup(1, GROUP, "", "consumer", (MemberProtocol("range"),), 10_000, 10_000),
    SyncGroup(1, GROUP, 1, "m"),
    Heartbeat(1, GROUP, 1, "m"),
    LeaveGroup(1, GROUP, (LeavingMember("m"),)),
    DescribeGroup(1, GROUP),
]


def errors(coordinator: GroupCoordinator) -> set[ErrorCode]:
    return {coordinator.handle(request, 0)[0].error_code for request in REQUESTS}


def test_a_group_of_another_coordinator_is_sent_there():
    assert errors(GroupCoordinator(GroupConfig(), new_ids(), GroupDriver())) == {ErrorCode.NOT_COORDINATOR}


def test_while_loading_clients_and_markers_are_told_to_try_again():
    coordinator = GroupCoordinator(GroupConfig(offsets_topic_num_partitions=1), new_ids(), GroupDriver())
    coordinator.handle(PartitionAssigned(0, 1), 0)

    assert errors(coordinator) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    (listed,) = coordinator.handle(ListGroups(1), 0)
    assert listed.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    (answered,) = coordinator.handle(WriteMarkers(1, (marker(PRODUCER),)), 0)
    assert answered.error_codes == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)


def test_state_loaded_at_another_epoch_is_not_taken():
    coordinator = GroupCoordinator(GroupConfig(offsets_topic_num_partitions=1), new_ids(), GroupDriver())
    coordinator.handle(PartitionAssigned(0, 2), 0)

    coordinator.handle(PartitionLoaded(0, 1, OffsetsState()), 0)
    assert errors(coordinator) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    coordinator.handle(PartitionLoaded(1, 2, OffsetsState()), 0)
    assert errors(coordinator) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def test_a_second_load_does_not_undo_what_came_since():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 5))

    driver.send(PartitionLoaded(0, driver.epoch, OffsetsState()))
    driver.send(PartitionAssigned(0, driver.epoch))

    assert driver.offsets() == {ORDERS_0: 5}


def test_resigning_coordinator_answers_all_that_wait():
    driver = GroupDriver()
    driver.commit_in_transaction(offset(ORDERS_0, 3))
    committing, deleting = driver.commit(offset(ORDERS_0, 1)), driver.delete_group()
    verifying = driver.commit_in_transaction(offset(ORDERS_0, 3))
    driver.resign()
    assert {driver.error_of(request) for request in (committing, deleting, verifying)} == {ErrorCode.NOT_COORDINATOR}

    driver = GroupDriver()
    marking = driver.write_markers(marker(PRODUCER))
    driver.resign()
    assert driver.replies[marking].error_codes == (ErrorCode.NOT_LEADER_OR_FOLLOWER,)


def test_a_resignation_from_an_older_epoch_is_none():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 5))

    driver.send(PartitionResigned(0, driver.epoch - 1))

    assert driver.offsets() == {ORDERS_0: 5}


def test_commits_of_a_coordinator_that_has_resigned_say_nothing_to_its_successor():
    driver = GroupDriver()
    driver.commit(offset(ORDERS_0, 1))
    append = driver.appends[0]
    driver.resign()
    driver.take_back(driver.appends.popleft())
    driver.epoch += 1
    driver.lead()
    request = driver.commit(offset(ORDERS_0, 2))

    driver.send(Committed(0, driver.epoch, append.position))
    driver.send(Committed(0, driver.epoch - 1, append.position + 1))
    assert request not in driver.replies
    driver.settle()

    assert driver.error_of(request) is ErrorCode.NONE
    assert driver.offsets() == {ORDERS_0: 2}


def test_a_later_epoch_begins_anew_without_a_resignation():
    driver = GroupDriver()
    request = driver.commit(offset(ORDERS_0, 1))
    driver.take_back(driver.appends.popleft())
    driver.epoch += 1

    driver.lead()

    assert driver.error_of(request) is ErrorCode.NOT_COORDINATOR
    assert driver.offsets() == {}
    driver.committed(offset(ORDERS_0, 2))
    assert driver.offsets() == {ORDERS_0: 2}


def test_requests_behind_a_failed_append_are_refused_and_the_log_is_loaded_again():
    driver = GroupDriver()
    earlier, lost = driver.commit(offset(ORDERS_0, 1)), driver.commit(offset(ORDERS_0, 2))
    marking = driver.write_markers(marker(PRODUCER))
    waiting = driver.commit_in_transaction(offset(ORDERS_0, 3))
    reading = driver.request(FetchOffsets, GROUP)

    driver.lose()

    requests = earlier, lost, waiting, reading
    assert {driver.error_of(request) for request in requests} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert driver.replies[marking].error_codes == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
    assert driver.offsets() == {ORDERS_0: 2}, "what was appended before is there"
