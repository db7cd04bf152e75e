"""A client of version 1 with several connections, whose bytes come late and in any order of the connections.

The coordinator does what the client wants, and nothing besides: each transaction ends as its client has asked, with the
partitions that it has asked for, and there is no other.
"""

from __future__ import annotations

import random
from collections import deque
from itertools import count
from typing import Final
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.runtime.connection_bindings import (
    NO_QUESTION,
    ClientConnection,
    ConnectionBindings,
    ConnectionClosed,
)
from eagleray.broker.runtime.connection_guard_mode import ConnectionGuardMode
from eagleray.broker.runtime.coordinator_events import PartitionAssigned, PartitionLoaded, PartitionResigned
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import AddPartitions, EndTransaction, Reply
from eagleray.broker.transactions.holding import HeldRequests
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import TRANSACTIONAL_ID, CoordinatorDriver

Wish = tuple[int, TopicPartition | bool]
"""The number of a transaction, and a partition to add to it or whether to commit it."""

MOST_LEFT: Final = 3
REPEATED: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR})


class Connection:
    """What a client has sent by one connection, and what the broker has written to it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sent: deque[Wish] = deque()
        self.read: dict[int, Wish] = {}
        """By the id of a request, what was read and is not answered."""
        self.written: deque[Reply] = deque()
        self.heard = NO_QUESTION
        self.questions = 0


class World(CoordinatorDriver):
    """One client, which has one request on its way at a time, and repeats it on another connection when it gives up."""

    def __init__(self, mode: ConnectionGuardMode = ConnectionGuardMode.ON) -> None:
        super().__init__(
            CoordinatorConfig(
                transaction_state_log_num_partitions=1,
                transaction_completion_log_delay_ms=0,
                transaction_v1_guard=mode,
            )
        )
        self.numbers = count(1)
        self.decided: list[tuple[bool, frozenset[TopicPartition]]] = []
        self.begun_transactions = 0
        self.restarts = 0
        self.wanted: list[tuple[bool, frozenset[TopicPartition]]] = []
        """How the client has ended its transactions, and what may be in them."""
        self.left: list[Connection] = []
        self.current = Connection(next(self.numbers))
        request = self.init(client=ClientConnection(self.current.number))
        self.settle()
        self.producer: ProducerIdentity = self.reply_to(request).producer
        self.transaction = 0
        self.added: set[TopicPartition] = set()
        """What the client knows to be in its transaction."""
        self.asked_for: set[TopicPartition] = set()
        self.waits_for: Wish | None = None

    def write(self, append) -> None:
        super().write(append)
        for _, logged in append.records:
            self._see(logged)

    def _see(self, logged: Snapshot) -> None:
        state = logged.state
        if state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
            self.decided.append((state is TransactionState.PREPARE_COMMIT, logged.partitions))
        elif state is TransactionState.ONGOING and len(logged.partitions) == 1:
            self.begun_transactions += 1

    # The client

    def want(self, wish: TopicPartition | bool) -> None:
        """Ask for something, where no answer is waited for, and where it makes sense."""
        is_end = isinstance(wish, bool)
        if self.waits_for is not None or (is_end and not self.added):
            return
        if not is_end:
            # Partitions have the number of their transaction, so that a stray one shows.
            wish = TopicPartition(wish.topic, 10 * self.transaction + wish.partition)
            self.asked_for.add(wish)
        self._send((self.transaction, wish))

    def _send(self, wish: Wish) -> None:
        self.waits_for = wish
        self.current.sent.append(wish)

    def leave(self, *, give_up: bool = False) -> None:
        """Give a connection up and repeat on another what was not answered; or abort, where that is possible."""
        if len(self.left) >= MOST_LEFT:
            return
        self.left.append(self.current)
        self.current = Connection(next(self.numbers))
        if self.waits_for is not None:
            wants_partition = not isinstance(self.waits_for[1], bool)
            self._send((self.transaction, False) if give_up and wants_partition and self.added else self.waits_for)

    def receive(self) -> None:
        if not self.current.written:
            return
        reply = self.current.written.popleft()
        assert self.waits_for is not None, "nothing was asked that could be answered"
        if reply.error_code in REPEATED:
            self.current.questions += reply.question != NO_QUESTION
            # A late copy may come between a question and its answer, on a connection that was asked before.
            assert self.current.questions <= 2 + 2 * self.restarts, "the client repeats its requests in vain"
            self._send(self.waits_for)
            return
        assert reply.error_code is ErrorCode.NONE, f"the client is told {reply.error_code.name} for {self.waits_for}"
        (_, wish), self.waits_for = self.waits_for, None
        if isinstance(wish, bool):
            self.wanted.append((wish, frozenset(self.asked_for)))
            self.check(self.added)
            self.transaction, self.added, self.asked_for = self.transaction + 1, set(), set()
        else:
            self.added.add(wish)

    # The network

    def deliver(self, connection: Connection) -> None:
        """Let the broker read all that has come by a connection, at once."""
        wishes, connection.sent = connection.sent, deque()
        events = []
        for transaction, wish in wishes:
            request_id, client = self.next_request_id(), ClientConnection(connection.number, connection.heard)
            connection.read[request_id] = transaction, wish
            if isinstance(wish, bool):
                events.append(EndTransaction(request_id, TRANSACTIONAL_ID, self.producer, wish, 1, client))
            else:
                events.append(AddPartitions(request_id, TRANSACTIONAL_ID, self.producer, (wish,), 1, False, client))
        self.send(*events)

    def send(self, *events):
        effects = super().send(*events)
        for connection in [self.current, *self.left] if hasattr(self, "left") else []:
            for request_id in [each for each in connection.read if each in self.replies]:
                del connection.read[request_id]
                reply = self.replies[request_id]
                connection.heard = max(connection.heard, reply.question)
                connection.written.append(reply)
        return effects

    def close(self, connection: Connection, *, loses: bool) -> None:
        """Let the broker see the end of a connection, with or without what was sent by it."""
        if not loses:
            self.deliver(connection)
        self.left.remove(connection)
        self.send(ConnectionClosed(connection.number))

    # The coordinator

    def move(self) -> None:
        """Have the coordinator go, and another come that knows the log alone."""
        while self.appends:
            self.append()
        self.restarts += 1
        self.markers.clear()
        epoch, self.coordinator_epoch = self.coordinator_epoch, self.coordinator_epoch + 1
        loaded = self.logged()
        self.send(PartitionResigned(0, epoch))
        self.send(PartitionAssigned(0, epoch + 1), PartitionLoaded(0, epoch + 1, loaded))

    # What must be

    def check(self, added: set[TopicPartition]) -> None:
        """Compare what was decided with what the client has asked for."""
        assert [commit for commit, _ in self.decided] == [commit for commit, _ in self.wanted]
        for (_, in_it), (_, may_be) in zip(self.decided, self.wanted, strict=True):
            assert in_it <= may_be, "a partition of another transaction"
        assert added <= self.decided[-1][1], "a partition that was answered for is not in the transaction"

    def finish(self) -> None:
        """Let everything arrive that is on its way, and the client end what it has begun."""
        for connection in [*self.left]:
            self.close(connection, loses=False)
        for _ in range(200):
            self.deliver(self.current)
            self.settle()
            self.receive()
            if self.waits_for is None:
                if not self.added:
                    break
                self.want(False)
        else:
            raise AssertionError("the client repeats its requests in vain")
        assert len(self.decided) == len(self.wanted)
        assert self.current.questions <= 2 + 2 * self.restarts
        state = self.coordinator.find(TRANSACTIONAL_ID).current.state
        assert state is not TransactionState.ONGOING, "a transaction that nobody has begun"

    def check_connections(self) -> None:
        """See that the coordinator knows of no connection that is closed, not even by a request that waits."""
        bindings = self.coordinator.find(TRANSACTIONAL_ID).shard.bindings
        open_connections = {connection.number for connection in (self.current, *self.left)}
        assert bindings.connections <= open_connections, "a connection that is closed is remembered"


PARTITIONS = st.builds(TopicPartition, st.just("orders"), st.integers(0, 2))
STEPS = st.one_of(
    st.tuples(st.just("want"), PARTITIONS | st.booleans()),
    st.tuples(st.sampled_from(["leave", "give up", "move", "append", "write markers", "read", "receive"]), st.none()),
    st.tuples(st.just("go on"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["deliver", "close", "reset"]), st.integers(0, MOST_LEFT - 1)),
)


def take(world: World, step: str, argument) -> None:
    if step == "want":
        world.want(argument)
    elif step in ("leave", "give up"):
        world.leave(give_up=step == "give up")
    elif step == "read":
        world.deliver(world.current)
    elif step == "receive":
        world.receive()
    elif step == "move":
        world.move()
    elif step == "append":
        if world.appends:
            world.append()
    elif step == "write markers":
        if world.markers:
            world.write_markers()
    elif step == "go on":
        for _ in range(argument):
            world.deliver(world.current)
            world.settle()
            world.receive()
    elif argument < len(world.left):
        connection = world.left[argument]
        if step == "deliver":
            world.deliver(connection)
        else:
            world.close(connection, loses=step == "reset")


def run(world: World, steps) -> None:
    for step, argument in steps:
        take(world, step, argument)
        world.check_connections()
    world.finish()
    world.check_connections()


@given(st.lists(STEPS, max_size=80))
def test_each_transaction_is_what_its_client_has_asked_for(steps):
    run(World(), steps)


# Guards with one rule broken


def admit_all(self: ConnectionBindings[str], name: str, client: ClientConnection, asked_for: object) -> int:
    return NO_QUESTION


def bind_at_once(self: ConnectionBindings[str], name: str, client: ClientConnection, asked_for: object) -> int:
    self.bind(name, client.number)
    return NO_QUESTION


def admit_all_without_binding(
    self: ConnectionBindings[str], name: str, client: ClientConnection, asked_for: object
) -> int:
    """Refuse only where another connection is bound, so that a connection which is unknown is not asked."""
    if name in self._bound and self._bound[name] != client.number:
        return question_to(self, name, client, asked_for)
    return NO_QUESTION


def forget_to_drop(self: HeldRequests, connection: int) -> list[object]:
    return []


question_to = ConnectionBindings.question_to
MUTATIONS = {
    "guard that admits every connection": (ConnectionBindings, "question_to", admit_all),
    "guard that binds every connection": (ConnectionBindings, "question_to", bind_at_once),
    "guard that asks nobody where nothing is bound": (ConnectionBindings, "question_to", admit_all_without_binding),
    "guard that forgets to drop held requests": (HeldRequests, "take_of", forget_to_drop),
    "guard that remembers closed connections": (ConnectionBindings, "closed", lambda self, connection: None),
}
SEEDS = 400


def drawn(seed: int) -> list[tuple[str, object]]:
    """The steps of a world that are drawn from its seed."""
    chance = random.Random(seed)

    def draw() -> tuple[str, object]:
        step = chance.choice(["want", "want", "go on", "go on", "leave", "leave", "deliver", "deliver", *OTHERS])
        if step == "want":
            return step, chance.choice([*(TopicPartition("orders", number) for number in range(3)), True, False])
        return step, chance.randint(1, 3) if step == "go on" else chance.randrange(MOST_LEFT)

    return [draw() for _ in range(60)]


OTHERS = [
    "give up",
    "move",
    "append",
    "append",
    "write markers",
    "close",
    "reset",
    "read",
    "read",
    "receive",
    "receive",
]


def test_drawn_worlds_are_well() -> None:
    for seed in range(SEEDS):
        run(World(), drawn(seed))


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_broken_rule_is_caught(mutation: str):
    with mock.patch.object(*MUTATIONS[mutation]), pytest.raises(AssertionError):
        for_each_seed()


def for_each_seed() -> None:
    for seed in range(SEEDS):
        run(World(), drawn(seed))


LATE_COMMIT = [
    ("want", TopicPartition("orders", 0)),
    ("go on", 1),
    ("want", True),
    ("leave", None),
    ("go on", 3),
    ("want", TopicPartition("orders", 1)),
    ("go on", 3),
    ("deliver", 0),
    ("want", False),
    ("go on", 3),
]
LATE_ADD = [
    ("want", TopicPartition("orders", 0)),
    ("leave", None),
    ("go on", 3),
    ("want", True),
    ("go on", 3),
    ("deliver", 0),
]


@pytest.mark.parametrize("steps", [LATE_COMMIT, LATE_ADD], ids=["late commit", "late add"])
def test_without_the_guard_a_late_request_is_taken_for_one_of_the_next_transaction(steps):
    with pytest.raises(AssertionError):
        run(World(ConnectionGuardMode.OFF), steps)
