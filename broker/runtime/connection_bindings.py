"""Which connection speaks for a client whose protocol cannot tell a late copy of a request from a new one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, Generic, TypeVar

import msgspec

from eagleray.broker.limits import Int64
from eagleray.broker.messages import Message

NO_QUESTION: Final = 0
"""The number of no question."""

MOST_ASKED: Final = 4
"""How many connections may have an open question about one name; the oldest question is forgotten for a new one."""


class ClientConnection(Message, frozen=True):
    """The connection of a Kafka client by which a request came."""

    number: Int64
    """Unique in the process that has the connection, which is the one that serves the request."""

    heard: Int64 = NO_QUESTION
    """The last question about what the request names that was written to the connection before the request was read."""


class ConnectionClosed(Message, frozen=True, tag=True):
    """A connection by which requests have come is no more; all that was read from it was served before."""

    connection: int


class _Question(msgspec.Struct, frozen=True):
    number: int
    asked_for: frozenset[Hashable]
    """What the refused request asked for."""


Name = TypeVar("Name", bound=Hashable)


class ConnectionBindings(Generic[Name]):
    """Binds names, such as transactional ids, to the one connection by which each of them may change something.

    The bound connection is admitted. Any other is asked: its request is refused with the number of a question. A client
    that is still there repeats the request, and with that answers the question: when the connection asks for the same
    once more, in bytes that were read after the question was written to it, it becomes the bound one. A late copy of a
    request is not repeated, for its client has moved on, to another connection.

    Owns: for each name the bound connection, and the questions to at most `MOST_ASKED` others. Persists nothing: what
    is forgotten costs each client one repeated request. The numbers of questions ascend, in all bindings of a
    coordinator together, so that a question that was forgotten is never taken for a later one.
    """

    __slots__ = ("_asked", "_bound", "_names", "_numbers")

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._bound: dict[Name, int] = {}
        self._asked: dict[Name, dict[int, _Question]] = {}
        self._names: dict[int, set[Name]] = {}
        """The names that a connection is bound to, or was asked about."""

    def __len__(self) -> int:
        return len(self._bound.keys() | self._asked.keys())

    @property
    def connections(self) -> AbstractSet[int]:
        """The connections that something is known of."""
        return self._names.keys()

    def is_bound(self, name: Name, connection: int) -> bool:
        """Whether a name is bound to this connection."""
        return self._bound.get(name) == connection

    def question_to(self, name: Name, client: ClientConnection, asked_for: frozenset[Hashable]) -> int:
        """Return NO_QUESTION where a request is admitted, else the number of the question with which it is refused.

        `asked_for` says what the request wants. One that repeats another wants at least the same.
        """
        connection = client.number
        if self._bound.get(name) == connection:
            return NO_QUESTION
        question = self._asked.get(name, {}).get(connection)
        if question is not None and client.heard >= question.number and asked_for >= question.asked_for:
            self.bind(name, connection)
            return NO_QUESTION
        return self._ask(name, connection, asked_for)

    def bind(self, name: Name, connection: int) -> None:
        """Bind a name to a connection; no other is, or may become it without being asked again."""
        if self._bound.get(name) != connection or name in self._asked:
            self.forget(name)
            self._bound[name] = connection
            self._names.setdefault(connection, set()).add(name)

    def forget(self, name: Name) -> None:
        """Forget everything about a name: every connection will be asked."""
        bound = self._bound.pop(name, None)
        if bound is not None:
            self._leave(bound, name)
        for connection in self._asked.pop(name, ()):
            self._leave(connection, name)

    def closed(self, connection: int) -> None:
        """Forget a connection."""
        for name in self._names.pop(connection, ()):
            if self._bound.get(name) == connection:
                del self._bound[name]
            asked = self._asked.get(name)
            if asked is not None and asked.pop(connection, None) is not None and not asked:
                del self._asked[name]

    def _ask(self, name: Name, connection: int, asked_for: frozenset[Hashable]) -> int:
        asked = self._asked.setdefault(name, {})
        asked.pop(connection, None)
        if len(asked) >= MOST_ASKED:
            oldest = next(iter(asked))
            del asked[oldest]
            self._leave(oldest, name)
        number = next(self._numbers)
        asked[connection] = _Question(number, asked_for)
        self._names.setdefault(connection, set()).add(name)
        return number

    def _leave(self, connection: int, name: Name) -> None:
        names = self._names[connection]
        names.discard(name)
        if not names:
            del self._names[connection]
