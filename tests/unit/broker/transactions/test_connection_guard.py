"""What a late copy of a request of version 1 can do, on another connection than that of its client: nothing."""

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.runtime.connection_bindings import NO_QUESTION, ClientConnection, ConnectionClosed
from eagleray.broker.runtime.connection_guard_mode import ConnectionGuardMode
from eagleray.broker.runtime.coordinator_events import PartitionAssigned, PartitionLoaded, PartitionResigned
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import AddPartitions, EndTransaction
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

HOLDER = ProducerIdentity(7, 5)
OLD, NEW, THIRD = 1, 2, 3
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
NONE = ErrorCode.NONE

# By request, what comes of it on the bound connection. `!` marks what changes something: on any other it is refused.
OUTCOMES = """
    state            add              add_new          abort             commit
    EMPTY            !ONGOING         !ONGOING         INVALID_TXN_STATE INVALID_TXN_STATE
    ONGOING          NONE             !ONGOING         !PREPARE_ABORT    !PREPARE_COMMIT
    PREPARE_COMMIT   wait             wait             INVALID_TXN_STATE wait
    PREPARE_ABORT    wait             wait             wait              INVALID_TXN_STATE
    COMPLETE_COMMIT  !ONGOING         !ONGOING         INVALID_TXN_STATE NONE
    COMPLETE_ABORT   !ONGOING         !ONGOING         NONE              INVALID_TXN_STATE
"""
ROWS = [line.split() for line in OUTCOMES.strip().splitlines()]
CELLS = [(row[0], request, cell) for row in ROWS[1:] for request, cell in zip(ROWS[0][1:], row[1:], strict=True)]


class Clients(CoordinatorDriver):
    """A coordinator, and connections which hear every question before they send the next request."""

    def __init__(self, mode=ConnectionGuardMode.ON, loaded=None):
        config = CoordinatorConfig(
            transaction_state_log_num_partitions=1,
            transaction_completion_log_delay_ms=0,
            transaction_v1_guard=mode,
        )
        super().__init__(config, loaded=loaded)
        self.questions = {}
        self.sent_by = {}

    def by(self, connection, *, heard=True):
        return ClientConnection(connection, self.questions.get(connection, NO_QUESTION) if heard else NO_QUESTION)

    def send(self, *events):
        effects = super().send(*events)
        for event in events:
            if getattr(event, "client", None) is not None:
                self.sent_by[event.request_id] = event.client.number
        for effect in effects:
            if getattr(effect, "question", NO_QUESTION) != NO_QUESTION:
                self.questions[self.sent_by[effect.request_id]] = effect.question
        return effects

    def ask(self, request, connection, *, version=1, producer=HOLDER, heard=True):
        client = self.by(connection, heard=heard)
        if request in ("add", "add_new"):
            partition = ORDERS_0 if request == "add" else ORDERS_1
            return self.add(producer, partition, version=version, client=client)
        return self.end(producer, commit=request == "commit", version=version, client=client)

    def bind(self, connection):
        """Bind the id as an answered InitProducerId does."""
        shard = self.coordinator.find(TRANSACTIONAL_ID).shard
        shard.bindings.bind(TRANSACTIONAL_ID, connection)

    def outcome(self, request_id):
        reply = self.replies.get(request_id)
        if reply is not None:
            return reply.error_code.name
        if self.appends:
            return self.appends[-1].records[-1][1].state.name
        return "wait"


def clients_in(state, **options):
    return Clients(loaded={TRANSACTIONAL_ID: snapshot(TransactionState[state])}, **options)


def initialized(clients, connection):
    request = clients.init(client=clients.by(connection))
    clients.settle()
    return clients.reply_to(request).producer


def served(clients, request, connection, **options):
    """Have a request served as a client does, which repeats it where it is told to; return how often it was sent."""
    for attempt in range(1, 5):
        request_id = clients.ask(request, connection, **options)
        clients.settle()
        if clients.error_of(request_id) is not CONCURRENT:
            assert clients.error_of(request_id) is NONE
            return attempt
    raise AssertionError("the client repeats its request in vain")


# Every state, request and standing of the connection


@pytest.mark.parametrize(("state", "request_name", "cell"), CELLS)
def test_request_on_the_bound_connection_is_served(state: str, request_name: str, cell: str):
    clients = clients_in(state)
    clients.bind(OLD)

    assert clients.outcome(clients.ask(request_name, OLD)) == cell.strip("!")


@pytest.mark.parametrize("bound_to", [None, OLD])
@pytest.mark.parametrize(("state", "request_name", "cell"), CELLS)
def test_request_on_another_connection_changes_nothing(state: str, request_name: str, cell: str, bound_to: int | None):
    clients = clients_in(state)
    if bound_to is not None:
        clients.bind(bound_to)
    before = clients.current()

    request = clients.ask(request_name, NEW)

    if cell.startswith("!"):
        assert clients.error_of(request) is CONCURRENT
        assert clients.replies[request].question != NO_QUESTION
        assert (clients.current(), [*clients.appends]) == (before, [])
    else:
        assert clients.outcome(request) == cell, "what changes nothing is answered as on the bound connection"


@pytest.mark.parametrize(("state", "request_name", "cell"), [each for each in CELLS if each[2].startswith("!")])
def test_asked_connection_is_served_when_it_asks_again(state: str, request_name: str, cell: str):
    clients = clients_in(state)
    clients.bind(OLD)
    clients.ask(request_name, NEW)

    assert clients.outcome(clients.ask(request_name, NEW)) == cell.strip("!")
    assert clients.coordinator.find(TRANSACTIONAL_ID).shard.bindings.is_bound(TRANSACTIONAL_ID, NEW)


@pytest.mark.parametrize(("state", "request_name", "cell"), [each for each in CELLS if each[2].startswith("!")])
def test_copies_that_come_together_are_all_refused(state: str, request_name: str, cell: str):
    clients = clients_in(state)

    requests = [clients.ask(request_name, NEW, heard=False) for _ in range(3)]

    assert [clients.error_of(request) for request in requests] == [CONCURRENT] * 3


@pytest.mark.parametrize(("state", "request_name", "cell"), [each for each in CELLS if each[2].startswith("!")])
def test_closed_connection_has_neither_binding_nor_question(state: str, request_name: str, cell: str):
    clients = clients_in(state)
    clients.bind(OLD)
    clients.ask(request_name, NEW)

    clients.send(ConnectionClosed(OLD), ConnectionClosed(NEW))

    assert clients.outcome(clients.ask(request_name, OLD)) == "CONCURRENT_TRANSACTIONS"
    assert clients.outcome(clients.ask(request_name, NEW)) == "CONCURRENT_TRANSACTIONS"


@pytest.mark.parametrize(("state", "request_name", "cell"), CELLS)
def test_asker_without_a_connection_of_a_client_is_not_guarded(state: str, request_name: str, cell: str):
    clients = clients_in(state)
    partition = ORDERS_1 if request_name == "add_new" else ORDERS_0
    is_add = request_name.startswith("add")

    request = clients.add(HOLDER, partition) if is_add else clients.end(HOLDER, commit=request_name == "commit")

    assert clients.outcome(request) == cell.strip("!")


@pytest.mark.parametrize(("state", "request_name", "cell"), CELLS)
def test_guard_that_is_off_admits_every_connection(state: str, request_name: str, cell: str):
    clients = clients_in(state, mode=ConnectionGuardMode.OFF)
    clients.bind(OLD)

    assert clients.outcome(clients.ask(request_name, NEW)) == cell.strip("!")


@pytest.mark.parametrize("request_name", ["add", "add_new", "abort", "commit"])
def test_version_2_is_not_guarded(request_name: str):
    clients = clients_in("ONGOING")
    clients.bind(OLD)

    assert clients.outcome(clients.ask(request_name, NEW, version=2)) != "CONCURRENT_TRANSACTIONS"


def test_leader_that_verifies_is_not_guarded():
    clients = clients_in("ONGOING")
    clients.bind(OLD)

    request = clients.add(HOLDER, ORDERS_0, verify_only=True)

    assert clients.reply_to(request).partition_errors == (NONE,)


# Binding


def test_answered_init_producer_id_binds():
    clients = Clients()
    producer = initialized(clients, OLD)

    assert served(clients, "add", OLD, producer=producer) == 1
    assert served(clients, "commit", OLD, producer=producer) == 1


def test_init_producer_id_that_was_held_binds_when_it_is_answered():
    clients = clients_in("ONGOING")
    clients.bind(OLD)
    request = clients.init(client=clients.by(NEW))
    clients.append()
    assert request not in clients.replies, "it waits for the markers of what it has aborted"
    clients.settle()

    producer = clients.reply_to(request).producer

    assert served(clients, "add", NEW, producer=producer) == 1


def test_refused_init_producer_id_binds_nothing():
    clients = clients_in("COMPLETE_COMMIT")
    clients.bind(OLD)
    clients.init(expected=ProducerIdentity(7, 1), client=clients.by(NEW))
    clients.settle()

    assert served(clients, "add", OLD) == 1


def test_client_pays_one_retry_for_another_connection():
    clients = Clients()
    producer = initialized(clients, OLD)

    assert served(clients, "add", NEW, producer=producer) == 2
    assert served(clients, "add_new", NEW, producer=producer) == 1
    assert served(clients, "commit", NEW, producer=producer) == 1
    assert served(clients, "add", NEW, producer=producer) == 1


def test_moved_coordinator_asks_every_connection():
    clients = Clients()
    producer = initialized(clients, OLD)

    clients.send(PartitionResigned(0, 1), PartitionAssigned(0, 2), PartitionLoaded(0, 2, clients.logged()))
    clients.coordinator_epoch = 2

    assert served(clients, "add", OLD, producer=producer) == 2


def test_forgotten_id_keeps_no_binding():
    clients = clients_in("COMPLETE_COMMIT")
    clients.bind(OLD)
    shard = clients.coordinator.find(TRANSACTIONAL_ID).shard

    clients.tick(clients.config.transactional_id_expiration_ms + 1)
    while clients.coordinator.next_due_ms <= clients.now_ms:
        clients.tick()
    clients.settle()

    assert len(shard.bindings) == 0


def test_id_that_had_branches_is_guarded_too():
    clients = Clients()
    owner = clients.owned()
    clients.end_branched(owner, commit=True)
    clients.settle()
    producer = initialized(clients, OLD)

    late = clients.ask("add", NEW, producer=producer)

    assert clients.error_of(late) is CONCURRENT
    assert served(clients, "add", OLD, producer=producer) == 1


# What was found in other brokers


def test_late_commit_does_not_decide_the_next_transaction():
    clients = Clients()
    producer = initialized(clients, OLD)
    served(clients, "add", OLD, producer=producer)
    # The commit on the old connection is held up; the client repeats it on a new one, and begins the next transaction.
    assert served(clients, "commit", NEW, producer=producer) == 2
    served(clients, "add", NEW, producer=producer)

    late = clients.ask("commit", OLD, producer=producer, heard=False)

    assert clients.error_of(late) is CONCURRENT
    assert served(clients, "abort", NEW, producer=producer) == 1
    assert clients.current().state is TransactionState.COMPLETE_ABORT


def test_late_add_partitions_begins_no_transaction():
    clients = Clients()
    producer = initialized(clients, OLD)
    served(clients, "add", NEW, producer=producer)
    served(clients, "commit", NEW, producer=producer)

    late = clients.ask("add", OLD, producer=producer, heard=False)

    assert clients.error_of(late) is CONCURRENT
    assert clients.current().state is TransactionState.COMPLETE_COMMIT


# Requests that wait


def test_held_request_is_guarded_when_it_is_served():
    clients = clients_in("PREPARE_COMMIT")
    clients.bind(NEW)
    late = clients.ask("add", OLD)
    assert late not in clients.replies

    clients.settle()

    assert clients.error_of(late) is CONCURRENT
    assert clients.current().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("request_name", ["add", "commit"])
def test_held_request_does_not_outlive_its_connection(request_name: str, version: int):
    clients = clients_in("PREPARE_COMMIT")
    clients.bind(OLD)
    of_closed = clients.ask(request_name, OLD, version=version)
    of_open = clients.ask(request_name, THIRD, version=version)
    assert not {of_closed, of_open} & clients.replies.keys()

    clients.send(ConnectionClosed(OLD))
    assert clients.error_of(of_closed) is ErrorCode.NETWORK_EXCEPTION, "which no client is there to hear"
    assert of_open not in clients.replies
    clients.settle()

    assert of_open in clients.replies


def test_held_init_producer_id_does_not_outlive_its_connection():
    clients = clients_in("PREPARE_COMMIT")
    clients.init(client=clients.by(OLD))

    clients.send(ConnectionClosed(OLD))
    clients.settle()

    assert clients.current().producer_epoch == 5


def test_request_that_waits_for_a_producer_id_does_not_outlive_its_connection():
    clients = CoordinatorDriver(producer_ids=0)
    request = clients.init(client=ClientConnection(OLD))
    other = clients.init("checkout-2", client=ClientConnection(NEW))

    clients.send(ConnectionClosed(OLD))

    assert clients.error_of(request) is ErrorCode.NETWORK_EXCEPTION
    assert other not in clients.replies


def test_request_that_was_read_before_its_connection_closed_is_served():
    clients = clients_in("ONGOING")
    clients.bind(OLD)

    clients.send(
        EndTransaction(1000, TRANSACTIONAL_ID, HOLDER, True, 1, ClientConnection(OLD)),
        ConnectionClosed(OLD),
        AddPartitions(1001, TRANSACTIONAL_ID, HOLDER, (ORDERS_1,), 1, False, ClientConnection(OLD)),
    )
    assert clients.current().state is TransactionState.PREPARE_COMMIT
    clients.settle()

    assert clients.error_of(1000) is NONE
    assert clients.error_of(1001) is CONCURRENT


@pytest.mark.parametrize("is_off", [False, True])
def test_held_requests_go_with_their_connection_also_where_the_guard_is_off(is_off: bool):
    clients = clients_in("PREPARE_COMMIT", mode=ConnectionGuardMode.OFF if is_off else ConnectionGuardMode.ON)
    request = clients.ask("add", OLD)

    clients.send(ConnectionClosed(OLD))

    assert clients.error_of(request) is ErrorCode.NETWORK_EXCEPTION
