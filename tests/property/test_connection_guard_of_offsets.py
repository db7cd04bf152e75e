"""Offsets of a version 1 client with several connections: what is committed is what its transactions were to commit.

The client moves on where the group coordinator does not see it: a commit of offsets that it gives up is followed by an
abort, which the transaction coordinator hears of, and by the next transaction.
"""

from __future__ import annotations

import random
from collections import deque
from itertools import count
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.events import CommitTransactionOffsets
from eagleray.broker.runtime.connection_bindings import (
    NO_QUESTION,
    ClientConnection,
    ConnectionBindings,
    ConnectionClosed,
)
from eagleray.broker.runtime.connection_guard_mode import ConnectionGuardMode
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import GROUP, ORDERS_0, PRODUCER, TRANSACTIONAL_ID, GroupDriver, marker, offset

MOST_LEFT = 3
SEEDS = 300
STEPS = [
    "commit offset",
    "commit offset",
    "read",
    "read",
    "end",
    "end",
    "leave",
    "give up",
    "deliver",
    "close",
    "reset",
]


class Connection:
    def __init__(self, number: int) -> None:
        self.number = number
        self.sent: deque[int] = deque()
        self.heard = NO_QUESTION


class World(GroupDriver):
    """One transaction after the other, each of which commits one offset, by whichever connection the client has."""

    def __init__(self, mode: ConnectionGuardMode = ConnectionGuardMode.ON) -> None:
        super().__init__(GroupConfig(offsets_topic_num_partitions=1, transaction_v1_guard=mode))
        self.numbers, self.values = count(1), count(1)
        self.current, self.left = Connection(next(self.numbers)), list[Connection]()
        self.waits_for: int | None = None
        self.acknowledged: int | None = None
        self.has_given_up = False
        self.expected: dict[Any, int] = {}

    def commit_offset(self) -> None:
        if self.waits_for is None and self.acknowledged is None and not self.has_given_up:
            self.waits_for = next(self.values)
            self.current.sent.append(self.waits_for)

    def leave(self, *, gives_up: bool) -> None:
        """Go on with another connection, and repeat there what was not answered, or give it up."""
        if len(self.left) >= MOST_LEFT:
            return
        self.left.append(self.current)
        self.current = Connection(next(self.numbers))
        if self.waits_for is None:
            return
        if gives_up:
            self.waits_for, self.has_given_up = None, True
        else:
            self.current.sent.append(self.waits_for)

    def end(self, *, commit: bool) -> None:
        """End the transaction, unless a commit is on its way; one that was given up has it aborted."""
        if self.waits_for is not None:
            return
        commit = commit and not self.has_given_up
        self.ended(marker(PRODUCER, commit=commit))
        if commit and self.acknowledged is not None:
            self.expected = {ORDERS_0: self.acknowledged}
        self.acknowledged, self.has_given_up = None, False
        assert self.offsets() == self.expected, "offsets that the client has not committed"

    def deliver(self, connection: Connection) -> None:
        """Let the broker read what has come by a connection, all of which is in a transaction for all that it knows."""
        sent, connection.sent = connection.sent, deque()
        requests = []
        for value in sent:
            client = ClientConnection(connection.number, connection.heard)
            fields = GROUP, TRANSACTIONAL_ID, PRODUCER, (offset(ORDERS_0, value),)
            request_id = self.next_request_id()
            self.send(CommitTransactionOffsets(request_id, *fields, client=client))
            requests.append((request_id, value))
        self.settle()
        for request_id, value in requests:
            self._answered(connection, value, self.replies[request_id])

    def _answered(self, connection: Connection, value: int, reply: Any) -> None:
        connection.heard = max(connection.heard, reply.question)
        if connection is self.current and value == self.waits_for:
            if reply.error_code is ErrorCode.NONE:
                self.waits_for, self.acknowledged = None, value
            else:
                assert reply.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                connection.sent.append(value)

    def close(self, connection: Connection, *, loses: bool) -> None:
        if not loses:
            self.deliver(connection)
        self.left.remove(connection)
        self.send(ConnectionClosed(connection.number))

    def take(self, step: str, number: int) -> None:
        if step == "commit offset":
            self.commit_offset()
        elif step == "read":
            self.deliver(self.current)
        elif step == "end":
            self.end(commit=number > 0)
        elif step in ("leave", "give up"):
            self.leave(gives_up=step == "give up")
        elif number < len(self.left):
            connection = self.left[number]
            if step == "deliver":
                self.deliver(connection)
            else:
                self.close(connection, loses=step == "reset")


def run(world: World, steps: list[tuple[str, int]]) -> None:
    for step, number in steps:
        world.take(step, number)
    for _ in range(3):
        world.deliver(world.current)
    assert world.waits_for is None, "the client repeats its commit in vain"
    world.end(commit=True)


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, MOST_LEFT - 1)), max_size=80))
def test_committed_offsets_are_those_of_committed_transactions(steps):
    run(World(), steps)


def for_each_seed(mode: ConnectionGuardMode = ConnectionGuardMode.ON) -> None:
    for seed in range(SEEDS):
        chance = random.Random(seed)
        run(World(mode), [(chance.choice(STEPS), chance.randrange(MOST_LEFT)) for _ in range(60)])


def forget_nothing(self: ConnectionBindings[int], name: int) -> None:
    """Only a connection that is closed, or bound anew, makes a difference."""


def test_drawn_worlds_are_well():
    for_each_seed()


def test_without_the_guard_late_offsets_are_caught():
    with pytest.raises(AssertionError, match="offsets that the client has not committed"):
        for_each_seed(ConnectionGuardMode.OFF)


def test_binding_that_outlives_an_abort_is_caught():
    original = ConnectionBindings.forget

    def bind(self: ConnectionBindings[int], name: int, connection: int) -> None:
        original(self, name)
        self._bound[name] = connection
        self._names.setdefault(connection, set()).add(name)

    with (
        mock.patch.object(ConnectionBindings, "forget", forget_nothing),
        mock.patch.object(ConnectionBindings, "bind", bind),
        pytest.raises(AssertionError, match="offsets that the client has not committed"),
    ):
        for_each_seed()
