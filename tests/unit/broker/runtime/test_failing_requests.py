"""Requests that fail at any line of what decides them: they are answered so, and the state is what it was before."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from eagleray.actors.lanes.catalog import REQUESTS
from eagleray.broker.groups.classic.events import Heartbeat, JoinGroup, LeaveGroup, LeavingMember, MemberProtocol
from eagleray.broker.groups.consumer.events import ConsumerHeartbeat, DescribeConsumerGroup
from eagleray.broker.groups.events import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    ListGroups,
)
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.partitions.events import WriteMarkers
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.failures import failed_answer, reply_type_of
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    CompleteTransaction,
    DescribeTransaction,
    EndBranched,
    EndTransaction,
    ForgetTransactionalId,
    InitProducerId,
    LastDecision,
    ListTransactions,
    MarkersWritten,
    OpenBranch,
    PrepareTransaction,
    TakePoolOver,
)
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, TRANSACTIONAL_ID, CoordinatorDriver
from tests.support.failing_lines import FailingLine, Injected
from tests.support.groups import GROUP, PRODUCER, GroupDriver, marker, offset
from tests.support.groups import ORDERS_0 as OFFSETS_OF_ORDERS_0
from tests.support.runtime_driver import RuntimeDriver

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR
DECIDES = ("/broker/transactions/", "/broker/groups/", "/broker/runtime/coordinator_runtime.py")
CATCHES = ("transactions/coordinator.py", "groups/coordinator.py", "transactions/holding.py")
"""What hands requests on, and catches the errors of those who take them."""

Request = Callable[[int], Any]


def each_line(make: Callable[[], RuntimeDriver], request: Callable[[RuntimeDriver, int], Any]) -> Any:
    """A driver for each line at which the request can fail, after it has; yields it with the id of the request."""
    for line in count(1):
        driver = make()
        request_id = driver.next_request_id()
        event = request(driver, request_id)
        failing = FailingLine(DECIDES, line, CATCHES)
        decide = driver.coordinator.handle_all
        driver.coordinator.handle_all = lambda *turn: failing.run(lambda: decide(*turn))  # noqa: B023 - called at once
        driver.send(event)
        driver.coordinator.handle_all = decide
        if not failing.has_fired:
            assert line > 1, "nothing was tried"
            return
        assert [type(error) for error in driver.failures] == [Injected], driver.failures
        yield driver, request_id


# Transactions


def transactions() -> CoordinatorDriver:
    """One transaction that is open, of version 2, and an idle id."""
    driver = CoordinatorDriver()
    driver.begun(driver.initialized(), 2)
    idle = driver.init(transactional_id="idle")
    driver.settle()
    assert driver.error_of(idle) is ErrorCode.NONE
    return driver


def producer_of(driver: CoordinatorDriver) -> ProducerIdentity:
    return driver.current().holder


ASKED_OF_TRANSACTIONS: dict[type, Callable[[CoordinatorDriver, int], Any]] = {
    InitProducerId: lambda driver, number: InitProducerId(number, TRANSACTIONAL_ID),
    TakePoolOver: lambda driver, number: TakePoolOver(number, TRANSACTIONAL_ID),
    AddPartitions: lambda driver, number: AddPartitions(number, TRANSACTIONAL_ID, producer_of(driver), (ORDERS_1,), 2),
    EndTransaction: lambda driver, number: EndTransaction(number, TRANSACTIONAL_ID, producer_of(driver), True, 2),
    BeginBranched: lambda driver, number: BeginBranched(number, TRANSACTIONAL_ID, "batch-2"),
    OpenBranch: lambda driver, number: OpenBranch(number, TRANSACTIONAL_ID, producer_of(driver)),
    EndBranched: lambda driver, number: EndBranched(number, TRANSACTIONAL_ID, producer_of(driver), True),
    PrepareTransaction: lambda driver, number: PrepareTransaction(number, TRANSACTIONAL_ID, producer_of(driver)),
    CompleteTransaction: lambda driver, number: CompleteTransaction(
        number, TRANSACTIONAL_ID, producer_of(driver), True, True
    ),
    ForgetTransactionalId: lambda driver, number: ForgetTransactionalId(number, "idle", driver.current("idle").holder),
    DescribeTransaction: lambda driver, number: DescribeTransaction(number, TRANSACTIONAL_ID),
    ListTransactions: lambda driver, number: ListTransactions(number),
    LastDecision: lambda driver, number: LastDecision(number, TRANSACTIONAL_ID),
}


def test_every_request_of_transactions_is_tried():
    assert ASKED_OF_TRANSACTIONS.keys() == set(REQUESTS[ProcessRole.COORDINATOR])


@pytest.mark.parametrize("kind", ASKED_OF_TRANSACTIONS, ids=lambda kind: kind.__name__)
def test_request_that_fails_changes_no_transaction(kind):
    before = transactions()
    wanted = {each.transactional_id: each.current for each in before.coordinator}
    for driver, request_id in each_line(transactions, ASKED_OF_TRANSACTIONS[kind]):
        assert driver.replies[request_id].error_code is FAILED
        assert not driver.appends
        driver.reload()
        assert driver.load() == wanted
        assert {each.transactional_id: each.current for each in driver.coordinator} == wanted
        driver.ended(producer_of(driver), version=2)


def test_transaction_whose_markers_are_written_is_loaded_again_where_its_end_fails():
    def decided() -> CoordinatorDriver:
        driver = transactions()
        driver.end(producer_of(driver), commit=True, version=2)
        driver.append()
        return driver

    def written(driver: CoordinatorDriver, number: int) -> MarkersWritten:
        markers = driver.markers[0]
        names = markers.transactional_id, markers.log_partition, markers.coordinator_epoch, markers.decision
        return MarkersWritten(*names)

    for driver, _ in each_line(decided, written):
        driver.markers.clear()
        driver.reload()
        # The log has the decision, so the markers are written once more.
        driver.settle()
        assert driver.current().state.name == "COMPLETE_COMMIT"


def test_request_that_waited_and_fails_is_answered():
    def waits() -> CoordinatorDriver:
        driver = transactions()
        driver.end(producer_of(driver), commit=True, version=2)
        driver.append()
        driver.waiting = driver.init()
        assert driver.waiting not in driver.replies
        return driver

    def written(driver: CoordinatorDriver, number: int) -> MarkersWritten:
        markers = driver.markers[0]
        names = markers.transactional_id, markers.log_partition, markers.coordinator_epoch, markers.decision
        return MarkersWritten(*names)

    for driver, _ in each_line(waits, written):
        driver.markers.clear()
        driver.reload()
        driver.settle()
        assert driver.waiting in driver.replies


def test_others_in_the_turn_of_a_failed_request_are_told_to_try_again():
    driver = transactions()
    other, failing = driver.next_request_id(), driver.next_request_id()
    idle = driver.current("idle").holder
    events = (AddPartitions(other, "idle", idle, (ORDERS_0,)), EndTransaction(failing, TRANSACTIONAL_ID, None, True))
    driver.send(*events)
    assert driver.error_of(other) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.error_of(failing) is FAILED
    assert not driver.appends
    driver.reload()
    again = driver.add(idle, ORDERS_0, transactional_id="idle")
    driver.settle()
    assert driver.error_of(again) is ErrorCode.NONE


def test_error_that_is_about_no_request_is_raised(monkeypatch):
    driver = transactions()
    monkeypatch.setattr(driver.coordinator._housekeeping, "tick", lambda now_ms, **_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        driver.send(Tick())


# Groups


def groups() -> GroupDriver:
    """A group with offsets, some of them in a transaction, and one with a member."""
    driver = GroupDriver()
    driver.committed(offset(OFFSETS_OF_ORDERS_0, 5))
    driver.pending(offset(OFFSETS_OF_ORDERS_0, 9))
    return driver


def picture(driver: GroupDriver) -> Any:
    stable, unstable = driver.offsets(), driver.unstable()
    return stable, unstable, driver.groups(), driver.logs[0].log_end_offset


JOINS = (MemberProtocol("range", b"any"),)
ASKED_OF_GROUPS: dict[type, Callable[[GroupDriver, int], Any]] = {
    CommitOffsets: lambda driver, number: CommitOffsets(number, GROUP, (offset(OFFSETS_OF_ORDERS_0, 6),)),
    CommitTransactionOffsets: lambda driver, number: CommitTransactionOffsets(
        number, GROUP, "tx", PRODUCER, (offset(OFFSETS_OF_ORDERS_0, 10),)
    ),
    FetchOffsets: lambda driver, number: FetchOffsets(number, GROUP),
    DeleteOffsets: lambda driver, number: DeleteOffsets(number, GROUP, (OFFSETS_OF_ORDERS_0,)),
    DeleteGroup: lambda driver, number: DeleteGroup(number, GROUP),
    ListGroups: lambda driver, number: ListGroups(number),
    JoinGroup: lambda driver, number: JoinGroup(number, GROUP, "", "consumer", JOINS, 10_000, 10_000),
    Heartbeat: lambda driver, number: Heartbeat(number, GROUP, 1, "member"),
    LeaveGroup: lambda driver, number: LeaveGroup(number, GROUP, (LeavingMember("member"),)),
    ConsumerHeartbeat: lambda driver, number: ConsumerHeartbeat(number, "other", "member", 0),
    DescribeConsumerGroup: lambda driver, number: DescribeConsumerGroup(number, "other"),
}


@pytest.mark.parametrize("kind", ASKED_OF_GROUPS, ids=lambda kind: kind.__name__)
def test_request_that_fails_changes_no_group(kind):
    wanted = picture(groups())
    for driver, request_id in each_line(groups, ASKED_OF_GROUPS[kind]):
        assert driver.replies[request_id].error_code is FAILED
        assert not driver.appends
        driver.reload()
        assert picture(driver) == wanted
        driver.ended(marker(PRODUCER))
        assert driver.offsets() == {OFFSETS_OF_ORDERS_0: 9}


def test_markers_that_fail_are_not_written():
    wanted = picture(groups())
    for driver, request_id in each_line(groups, lambda driver, number: WriteMarkers(number, (marker(PRODUCER),))):
        assert driver.replies[request_id].error_codes == (FAILED,)
        driver.reload()
        assert picture(driver) == wanted
        driver.ended(marker(PRODUCER))


# Answers


@pytest.mark.parametrize("role", [ProcessRole.LEADER, ProcessRole.COORDINATOR, ProcessRole.GROUPS])
def test_every_request_of_clients_has_an_answer_for_its_failure(role):
    for kind in REQUESTS[role]:
        if hasattr(kind, "refused"):
            continue
        answer = failed_answer(kind(7, *[None] * (len(kind.__struct_fields__) - 1)))
        assert type(answer) is reply_type_of(kind)
        assert answer.request_id == 7
        assert getattr(answer, "error_code", FAILED) is FAILED
