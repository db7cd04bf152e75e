"""Partitions of the transaction log: led, loaded, lost to another coordinator, and what comes too late."""

import pytest

from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.runtime.coordinator_events import (
    AppendFailed,
    Committed,
    PartitionAssigned,
    PartitionLoaded,
    PartitionResigned,
)
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.events import (
    MarkersForgotten,
    MarkersWritten,
    ProducerIdsReceived,
)
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, TRANSACTIONAL_ID, CoordinatorDriver, never_refuses, snapshot

SOMEBODY = ProducerIdentity(7, 5)


def with_transaction(state: TransactionState, **fields: object) -> CoordinatorDriver:
    return CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(state, **fields)})


def all_requests(driver: CoordinatorDriver) -> list[int]:
    return [driver.init(), driver.add(SOMEBODY), driver.add(SOMEBODY, verify_only=True), driver.end(SOMEBODY)]


def test_what_is_not_led_here_is_sent_elsewhere():
    driver = CoordinatorDriver(log_partitions=0, config=CoordinatorConfig())

    errors = {driver.error_of(request_id) for request_id in all_requests(driver)}

    assert errors == {ErrorCode.NOT_COORDINATOR}
    assert driver.coordinator.find(TRANSACTIONAL_ID) is ErrorCode.NOT_COORDINATOR


def test_while_a_partition_is_loaded_everybody_is_told_to_wait():
    driver = CoordinatorDriver(log_partitions=0, config=CoordinatorConfig(transaction_state_log_num_partitions=1))
    driver.send(PartitionAssigned(0, 4))

    errors = {driver.error_of(request_id) for request_id in all_requests(driver)}

    assert errors == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert driver.coordinator.find(TRANSACTIONAL_ID) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.coordinator.is_loading
    driver.send(PartitionLoaded(0, 4, {}))
    assert not driver.coordinator.is_loading
    driver.initialized()


def test_each_coordinator_serves_the_ids_of_its_own_partitions():
    driver = CoordinatorDriver(log_partitions=0, config=CoordinatorConfig(transaction_state_log_num_partitions=2))
    driver.send(PartitionAssigned(1, 1))
    driver.send(PartitionLoaded(1, 1, {}))
    driver.send(ProducerIdsReceived(0, 1000))

    for name in map(str, range(10)):
        request_id = driver.init(name)
        driver.settle()
        is_led = partition_for_name(name, 2) == 1
        assert driver.error_of(request_id) is (ErrorCode.NONE if is_led else ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_decided_transaction_gets_its_markers_again_with_the_new_epoch(state: TransactionState):
    driver = CoordinatorDriver(log_partitions=0, config=CoordinatorConfig(transaction_state_log_num_partitions=1))
    driver.send(PartitionAssigned(0, 9))

    driver.send(PartitionLoaded(0, 9, {TRANSACTIONAL_ID: snapshot(state, client_version=2)}))

    [markers] = driver.markers
    assert markers.coordinator_epoch == 9
    assert markers.commit is (state is TransactionState.PREPARE_COMMIT)
    assert markers.producer == ProducerIdentity(7, 5)
    assert markers.partitions == {ORDERS_0}
    assert markers.transaction_version == 2
    driver.settle()
    assert driver.current().state.name == state.name.replace("PREPARE", "COMPLETE")


def test_a_decided_transaction_without_partitions_is_completed_when_loaded():
    driver = with_transaction(TransactionState.PREPARE_ABORT, partitions=frozenset())

    assert driver.append().snapshot.state is TransactionState.COMPLETE_ABORT
    assert not driver.markers


@pytest.mark.parametrize(
    "state",
    [
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    ],
)
def test_what_is_not_decided_waits_for_its_producer(state: TransactionState):
    driver = with_transaction(state)

    assert not driver.markers
    assert not driver.appends


def test_a_load_that_is_not_wanted_any_more_changes_nothing():
    driver = CoordinatorDriver(log_partitions=0, config=CoordinatorConfig(transaction_state_log_num_partitions=1))
    loaded = {TRANSACTIONAL_ID: snapshot(TransactionState.PREPARE_COMMIT)}
    driver.send(PartitionLoaded(0, 1, loaded))
    driver.send(PartitionAssigned(0, 2))
    driver.send(PartitionLoaded(0, 1, loaded))
    assert driver.coordinator.is_loading
    driver.send(PartitionLoaded(0, 2, {}))
    driver.send(PartitionLoaded(0, 2, loaded))

    assert not driver.markers
    assert list(driver.coordinator) == []


# Resigning


def test_everybody_who_waits_is_told_when_the_partition_goes():
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(TransactionState.EMPTY)}, producer_ids=0)
    asked, held = driver.add(SOMEBODY), [driver.end(SOMEBODY), driver.init()]
    for_an_id, without_name = driver.init("unheard-of"), driver.init(None)

    driver.send(PartitionResigned(0, 1))

    told = {driver.error_of(request_id) for request_id in [asked, *held, for_an_id]}
    assert told == {ErrorCode.NOT_COORDINATOR}
    assert without_name not in driver.replies, "any coordinator may give it a producer id, this one too"
    driver.send(ProducerIdsReceived(3, 1000))
    assert driver.reply_to(without_name).producer == ProducerIdentity(3, 0)
    assert driver.coordinator.find(TRANSACTIONAL_ID) is ErrorCode.NOT_COORDINATOR


def test_a_new_epoch_for_the_same_partition_tells_them_too():
    driver = with_transaction(TransactionState.EMPTY)
    asked = driver.add(SOMEBODY)

    driver.send(PartitionAssigned(0, 2))

    assert driver.error_of(asked) is ErrorCode.NOT_COORDINATOR
    assert driver.error_of(driver.add(SOMEBODY)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_an_old_resignation_or_assignment_changes_nothing():
    driver = with_transaction(TransactionState.EMPTY)
    driver.send(PartitionAssigned(0, 5))
    driver.send(PartitionLoaded(0, 5, {TRANSACTIONAL_ID: snapshot(TransactionState.EMPTY)}))

    driver.send(PartitionResigned(0, 4))
    driver.send(PartitionAssigned(0, 4))
    driver.send(PartitionAssigned(0, 5))
    driver.send(PartitionResigned(3, 9))

    driver.begun(SOMEBODY)


def test_other_partitions_go_on_as_before():
    driver = CoordinatorDriver(log_partitions=2)
    names = {partition_for_name(str(number), 2): str(number) for number in range(10)}
    for name in names.values():
        driver.init(name)

    driver.send(PartitionResigned(0, 1))
    driver.settle()

    assert [transaction.transactional_id for transaction in driver.coordinator] == [names[1]]


def test_time_passes_quietly_over_what_has_gone():
    driver = with_transaction(TransactionState.ONGOING)
    driver.end(SOMEBODY)
    driver.append()
    driver.write_markers()
    driver.lose()

    driver.send(PartitionResigned(0, 1))

    assert driver.tick(10**12) == []


# What comes too late


def test_a_commit_of_an_earlier_epoch_is_not_taken_for_a_newer_one():
    driver = with_transaction(TransactionState.EMPTY)
    driver.add(SOMEBODY)
    earlier = driver.appends.popleft()
    driver.send(PartitionAssigned(0, 2))
    driver.send(PartitionLoaded(0, 2, {TRANSACTIONAL_ID: snapshot(TransactionState.ONGOING)}))
    request_id = driver.end(SOMEBODY)

    driver.send(Committed(0, 1, driver.appends[0].position))
    driver.send(AppendFailed(0, 1))
    driver.send(Committed(0, 2, earlier.position))

    assert request_id not in driver.replies
    driver.append()
    assert driver.error_of(request_id) is ErrorCode.NONE


def test_answers_that_nobody_waits_for_change_nothing():
    driver = with_transaction(TransactionState.ONGOING)

    assert driver.send(Committed(0, 1, 1)) == []
    assert driver.send(Committed(7, 1, 1)) == []
    assert driver.send(AppendFailed(7, 1)) == []
    assert driver.send(MarkersWritten(TRANSACTIONAL_ID, 0, 1, 1)) == []
    assert driver.send(MarkersWritten("unheard-of", 0, 1, 1)) == []


def test_markers_of_an_older_coordinator_epoch_complete_nothing():
    driver = with_transaction(TransactionState.PREPARE_COMMIT)
    [old] = driver.markers
    driver.send(PartitionAssigned(0, 2))
    driver.send(PartitionLoaded(0, 2, {TRANSACTIONAL_ID: snapshot(TransactionState.PREPARE_COMMIT)}))
    new = driver.markers[1]

    driver.send(MarkersWritten(TRANSACTIONAL_ID, 0, old.coordinator_epoch, new.decision))
    assert not driver.appends
    driver.report(new)

    assert driver.append().snapshot.state is TransactionState.COMPLETE_COMMIT


def test_markers_of_the_transaction_before_do_not_complete_this_one():
    driver = CoordinatorDriver()
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()
    first = driver.write_markers()
    driver.append()
    driver.begun(producer)
    driver.end(producer, commit=False)
    driver.append()

    driver.report(first)

    assert driver.current().state is TransactionState.PREPARE_ABORT
    assert not driver.appends


def test_markers_reported_twice_complete_once():
    driver = with_transaction(TransactionState.PREPARE_COMMIT)
    [markers] = driver.markers

    driver.report(markers)
    driver.report(markers)
    assert len(driver.appends) == 1
    driver.append()
    driver.report(markers)

    assert not driver.appends


def test_when_the_writer_of_markers_has_forgotten_everything_it_is_asked_again():
    loaded = {
        name: snapshot(state)
        for name, state in (
            ("decided", TransactionState.PREPARE_COMMIT),
            ("reported", TransactionState.PREPARE_ABORT),
            ("ongoing", TransactionState.ONGOING),
            ("complete", TransactionState.COMPLETE_COMMIT),
        )
    }
    driver = CoordinatorDriver(loaded=loaded)
    by_name = {markers.transactional_id: markers for markers in driver.markers}
    driver.report(by_name["reported"])

    assert driver.send(MarkersForgotten()) == [], "nothing is said before the log is committed"
    driver.markers.clear()
    driver.append()

    assert [*driver.markers] == [by_name["decided"]], "the very same request, and no other"


# What the log did not take


def test_after_a_failed_append_the_partition_is_loaded_again_at_its_epoch():
    driver = with_transaction(TransactionState.ONGOING)
    lost = driver.end(SOMEBODY)

    driver.send(AppendFailed(0, 1))

    assert driver.error_of(lost) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.error_of(driver.end(SOMEBODY)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    driver.send(Committed(0, 1, driver.appends.popleft().position))
    assert not driver.markers, "of a decision that is not there"
    driver.send(PartitionLoaded(0, 1, {TRANSACTIONAL_ID: snapshot(TransactionState.ONGOING)}))
    driver.ended(SOMEBODY, commit=False)


def test_a_coordinator_begins_with_nothing():
    assert list(TransactionCoordinator(CoordinatorConfig(), never_refuses)) == []
