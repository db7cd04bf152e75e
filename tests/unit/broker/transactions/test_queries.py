"""What those are told who ask about transactions."""

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.runtime.coordinator_events import Committed, PartitionAssigned, PartitionLoaded
from eagleray.broker.transactions.branches.branching import Branch, Branching
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.descriptions import (
    DescribeTransaction,
    ListTransactions,
    TransactionDescribed,
    TransactionDescription,
    TransactionsListed,
)
from eagleray.broker.transactions.events import InitProducerId, ProducerIdsReceived
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, never_refuses, snapshot

NOW_MS = 100_000
LOADED = {
    "idle": snapshot(TransactionState.EMPTY, producer_id=1),
    "open": snapshot(TransactionState.ONGOING, producer_id=2, start_ms=70_000, updated_ms=80_000),
    "job": snapshot(
        TransactionState.ONGOING,
        producer_id=3,
        partitions=frozenset({ORDERS_1}),
        start_ms=90_000,
        branching=Branching(tag="batch-2", branches={30: Branch(frozenset({ORDERS_0})), 31: Branch()}),
    ),
    "over": snapshot(
        TransactionState.COMPLETE_COMMIT,
        producer_id=4,
        start_ms=60_000,
        branching=Branching(committed_tag="batch-1", branches={40: Branch(is_committed=True)}),
    ),
}


def coordinator(*, is_loaded: bool = True) -> TransactionCoordinator:
    machine = TransactionCoordinator(CoordinatorConfig(transaction_state_log_num_partitions=1), never_refuses)
    machine.handle(PartitionAssigned(0, 1), 0)
    if is_loaded:
        machine.handle(PartitionLoaded(0, 1, LOADED), NOW_MS)
    return machine


def described(transactional_id: str, machine: TransactionCoordinator | None = None) -> TransactionDescribed:
    [answer] = (machine or coordinator()).handle(DescribeTransaction(9, transactional_id), NOW_MS)
    assert answer.request_id == 9
    return answer


def listed(**filters: object) -> set[str]:
    [answer] = coordinator().handle(ListTransactions(9, **filters), NOW_MS)
    assert (answer.request_id, answer.error_code) == (9, ErrorCode.NONE)
    return {each.transactional_id for each in answer.transactions}


def test_an_open_transaction_is_described():
    assert described("open") == TransactionDescribed(
        9,
        ErrorCode.NONE,
        TransactionDescription("open", "Ongoing", ProducerIdentity(2, 5), 60_000, 70_000, 80_000, (ORDERS_0,)),
    )


def test_a_transaction_with_branches_is_described_as_a_whole():
    description = described("job").transaction

    assert description.partitions == (ORDERS_0, ORDERS_1)
    assert (description.tag, description.branches) == ("batch-2", 2)


def test_what_is_left_of_branches_is_not_told():
    description = described("over").transaction

    assert (description.state, description.tag, description.branches) == ("CompleteCommit", None, 0)


@pytest.mark.parametrize(
    ("transactional_id", "machine", "error_code"),
    [
        ("", coordinator(), ErrorCode.INVALID_REQUEST),
        ("unknown", coordinator(), ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("open", coordinator(is_loaded=False), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("open", TransactionCoordinator(CoordinatorConfig(), never_refuses), ErrorCode.NOT_COORDINATOR),
    ],
)
def test_why_a_transaction_is_not_described(transactional_id, machine, error_code):
    assert described(transactional_id, machine) == TransactionDescribed(9, error_code)


def test_what_is_not_committed_yet_is_told_once_it_is():
    machine = coordinator()
    machine.handle(ProducerIdsReceived(100, 10), NOW_MS)
    [append] = machine.handle(InitProducerId(1, "new"), NOW_MS)

    assert machine.handle(DescribeTransaction(8, "new"), NOW_MS) == []
    assert machine.handle(ListTransactions(9), NOW_MS) == []
    _, description, answer = machine.handle(Committed(0, 1, append.position), NOW_MS)

    assert description.transaction.transactional_id == "new"
    assert "new" in {each.transactional_id for each in answer.transactions}


def test_everything_is_listed():
    assert listed() == LOADED.keys()


def test_a_list_says_what_a_description_says():
    [answer] = coordinator().handle(ListTransactions(9, states=("Ongoing",)), NOW_MS)

    assert set(answer.transactions) == {described("open").transaction, described("job").transaction}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"states": ("Ongoing",)}, {"open", "job"}),
        ({"states": ("Empty", "CompleteCommit")}, {"idle", "over"}),
        ({"states": ("ongoing", "Whatever")}, set()),
        ({"producer_ids": (2, 1)}, {"open", "idle"}),
        ({"producer_ids": (31,)}, {"job"}),
        ({"producer_ids": (5,)}, set()),
        ({"older_than_ms": 0}, {"open", "job", "over"}),
        ({"older_than_ms": 29_999}, {"open", "over"}),
        ({"older_than_ms": 30_000}, {"over"}),
        ({"older_than_ms": 5000, "states": ("Ongoing",), "producer_ids": (3, 4)}, {"job"}),
    ],
)
def test_a_list_may_be_narrowed_down(filters, expected):
    assert listed(**filters) == expected


def test_there_is_no_list_while_a_part_of_it_is_loaded():
    [answer] = coordinator(is_loaded=False).handle(ListTransactions(9), NOW_MS)

    assert answer == TransactionsListed(9, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_states_have_the_names_that_kafka_gives_them():
    names = {state.name: described_state(state) for state in TransactionState if state.value < 6}

    assert names == {
        "EMPTY": "Empty",
        "ONGOING": "Ongoing",
        "PREPARE_COMMIT": "PrepareCommit",
        "PREPARE_ABORT": "PrepareAbort",
        "COMPLETE_COMMIT": "CompleteCommit",
        "COMPLETE_ABORT": "CompleteAbort",
    }


def described_state(state: TransactionState) -> str:
    machine = TransactionCoordinator(CoordinatorConfig(transaction_state_log_num_partitions=1), never_refuses)
    machine.handle(PartitionAssigned(0, 1), 0)
    machine.handle(PartitionLoaded(0, 1, {"t": snapshot(state)}), 0)
    return described("t", machine).transaction.state
