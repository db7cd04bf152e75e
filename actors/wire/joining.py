"""Answers of several questions that belong to one request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagleray.actors.wire.call import Call
from eagleray.broker.messages import Message


class Joined:
    """Asks this node many questions, and goes on when all of them are answered.

    `results` has a place for each part of the request; what is known without asking is put there at once.
    """

    __slots__ = ("_call", "_done", "_missing", "results")

    def __init__(self, call: Call, parts: int, done: Callable[[list[Any]], None]) -> None:
        self._call = call
        self._done = done
        # One more than was asked, until everything has been.
        self._missing = 1
        self.results: list[Any] = [None] * parts

    def ask(self, place: int, message_type: Callable[..., Message], *fields: object) -> None:
        """Ask a role of this node; the answer, or None where there is none, is the result of a part."""
        self._missing += 1

        def received(reply: Message | None) -> None:
            self.results[place] = reply
            self.finish()

        self._call.ask_here(received, message_type, *fields)

    def finish(self) -> None:
        """Go on if this was the last answer; to be called once when all is asked."""
        self._missing -= 1
        if not self._missing:
            self._done(self.results)
