"""Requests that wait at a coordinator for something that is under way, rather than being sent back at once."""

from __future__ import annotations

import msgspec

from eagleray.broker.runtime.deadlines import NEVER_MS, Deadlines
from eagleray.broker.transactions.events import Request


class Held(msgspec.Struct, frozen=True):
    """A request, and how long it may wait, counted from its first arrival."""

    request: Request
    deadline_ms: int


class WaitingLine:
    """Requests that wait for the same thing, in the order in which they came."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[Held] = []

    def __len__(self) -> int:
        return len(self._held)

    def add(self, request: Request, deadline_ms: int) -> None:
        """Let a request wait behind the others."""
        self._held.append(Held(request, deadline_ms))

    def take_all(self) -> list[Held]:
        """Return all that wait, in order, and forget them."""
        held, self._held = self._held, []
        return held

    @property
    def next_due_ms(self) -> int:
        """When the first of them has waited long enough."""
        return min([held.deadline_ms for held in self._held], default=NEVER_MS)

    def take_of(self, connection: int) -> list[Request]:
        """Return those that have come by a connection, in order, and forget them."""
        taken = [held.request for held in self._held if _is_of(held.request, connection)]
        if taken:
            self._held = [held for held in self._held if not _is_of(held.request, connection)]
        return taken

    def take_overdue(self, now_ms: int) -> list[Request]:
        """Return those that have waited long enough, in order, and forget them."""
        overdue = [held.request for held in self._held if held.deadline_ms <= now_ms]
        if overdue:
            self._held = [held for held in self._held if held.deadline_ms > now_ms]
        return overdue


class HeldRequests:
    """Requests that wait for a transactional id, each id's in a line of its own.

    Bounded: no more than `limit` for one id, unless a call says otherwise, and none beyond its deadline, as long as
    the coordinator takes the overdue.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: dict[str, list[Held]] = {}
        self._ids: dict[int, set[str]] = {}
        """By the number of a connection, the ids for which a request that came by it has waited."""
        self._deadlines: Deadlines[str] = Deadlines()
        """By when to look at a line; it may be empty by then."""

    def __contains__(self, transactional_id: str) -> bool:
        return transactional_id in self._lines

    def add(self, transactional_id: str, request: Request, deadline_ms: int, limit: int | None = None) -> bool:
        """Keep a request behind those that wait already; False where there is no room."""
        line = self._lines.get(transactional_id)
        if (0 if line is None else len(line)) >= (self._limit if limit is None else limit):
            return False
        if line is None:
            line = self._lines[transactional_id] = []
        line.append(Held(request, deadline_ms))
        if request.client is not None:
            self._ids.setdefault(request.client.number, set()).add(transactional_id)
        self._deadlines.set_by(transactional_id, deadline_ms)
        return True

    def take_all(self, transactional_id: str) -> list[Held]:
        """Return all that wait for an id, in order, and forget them."""
        return self._lines.pop(transactional_id, [])

    def take_of(self, connection: int) -> list[Request]:
        """Return all that have come by a connection, each id's in order, and forget them."""
        taken: list[Request] = []
        for transactional_id in self._ids.pop(connection, ()):
            line = self._lines.pop(transactional_id, [])
            taken += [held.request for held in line if _is_of(held.request, connection)]
            kept = [held for held in line if not _is_of(held.request, connection)]
            if kept:
                self._lines[transactional_id] = kept
        return taken

    @property
    def next_due_ms(self) -> int:
        """When the first of them has waited long enough."""
        return self._deadlines.next_due_ms

    def take_overdue(self, now_ms: int) -> list[Request]:
        """Return those that have waited long enough, and forget them."""
        overdue: list[Request] = []
        for transactional_id in self._deadlines.take_due(now_ms):
            line = self._lines.pop(transactional_id, [])
            overdue += [held.request for held in line if held.deadline_ms <= now_ms]
            kept = [held for held in line if held.deadline_ms > now_ms]
            if kept:
                self._lines[transactional_id] = kept
                self._deadlines.set(transactional_id, min(held.deadline_ms for held in kept))
        return overdue


def _is_of(request: Request, connection: int) -> bool:
    """Whether a request has come by this connection of a client."""
    return request.client is not None and request.client.number == connection
