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
    MarkersLogged,
    OffsetsAssigned,
    OffsetsLoaded,
    OffsetsLogged,
    OffsetsResigned,
)
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.partitions.events import WriteMarkers
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
    assert errors(GroupCoordinator(GroupConfig(), new_ids())) == {ErrorCode.NOT_COORDINATOR}


def test_while_loading_clients_and_markers_are_told_to_try_again():
    coordinator = GroupCoordinator(GroupConfig(offsets_topic_num_partitions=1), new_ids())
    coordinator.handle(OffsetsAssigned(0, 1), 0)

    assert errors(coordinator) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    (listed,) = coordinator.handle(ListGroups(1), 0)
    assert listed.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    (answered,) = coordinator.handle(WriteMarkers(1, (marker(PRODUCER),)), 0)
    assert answered.error_codes == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)


def test_what_was_loaded_at_another_epoch_is_not_taken():
    coordinator = GroupCoordinator(GroupConfig(offsets_topic_num_partitions=1), new_ids())
    coordinator.handle(OffsetsAssigned(0, 2), 0)

    coordinator.handle(OffsetsLoaded(0, 1, OffsetsState()), 0)
    assert errors(coordinator) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    coordinator.handle(OffsetsLoaded(1, 2, OffsetsState()), 0)
    assert errors(coordinator) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def test_a_second_load_does_not_undo_what_came_since():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 5))

    driver.send(OffsetsLoaded(0, driver.epoch, OffsetsState()))
    driver.send(OffsetsAssigned(0, driver.epoch))

    assert driver.offsets() == {ORDERS_0: 5}


def test_who_resigns_tells_everybody():
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

    driver.send(OffsetsResigned(0, driver.epoch - 1))

    assert driver.offsets() == {ORDERS_0: 5}


def test_answers_to_a_coordinator_that_has_resigned_change_nothing():
    driver = GroupDriver()
    driver.commit(offset(ORDERS_0, 1))
    driver.write_markers(marker(PRODUCER))
    offsets, markers = driver.appends
    driver.resign()
    driver.lead()

    driver.send(OffsetsLogged(offsets.token))
    driver.send(MarkersLogged(markers.token))

    assert driver.offsets() == {}


def test_a_later_epoch_begins_anew_without_a_resignation():
    driver = GroupDriver()
    request = driver.commit(offset(ORDERS_0, 1))
    driver.epoch += 1

    driver.lead()

    assert driver.error_of(request) is ErrorCode.NOT_COORDINATOR
    driver.lose()
    assert driver.offsets() == {}
    driver.committed(offset(ORDERS_0, 2))
    assert driver.offsets() == {ORDERS_0: 2}


def test_an_answer_that_had_to_wait_for_another_stays_true_at_a_resignation():
    driver = GroupDriver()
    first, second = driver.commit(offset(ORDERS_0, 1)), driver.commit(offset(ORDERS_0, 2))
    driver.send(OffsetsLogged(driver.appends[1].token))

    driver.resign()

    assert driver.error_of(first) is ErrorCode.NOT_COORDINATOR
    assert driver.error_of(second) is ErrorCode.NONE
