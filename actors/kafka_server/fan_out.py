"""Requests to several partitions or roles that one Kafka request needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from eagleray.actors.kafka_server.call import Call
from eagleray.actors.lanes.link import Fields, Reply, RequestType


class FanOut(Generic[Reply]):
    """Asks this node many questions, and goes on when all of them are answered.

    `results` has a place for each part of the request; what is known without asking is put there at once.
    """

    __slots__ = ("_call", "_done", "_missing", "results")

    def __init__(self, call: Call, parts: int, done: Callable[[list[Reply | None]], None]) -> None:
        self._call = call
        self._done = done
        # One more than was asked, until everything has been.
        self._missing = 1
        self.results: list[Reply | None] = [None] * parts

    def ask(
        self, place: int, message_type: RequestType[Fields, Reply], *fields: Fields.args, **named: Fields.kwargs
    ) -> None:
        """Ask a role of this node; the answer, or None where there is none, is the result of a part."""
        self._missing += 1

        def received(reply: Reply | None) -> None:
            self.results[place] = reply
            self.finish()

        self._call.ask_here(received, message_type, *fields, **named)

    def finish(self) -> None:
        """Go on if this was the last answer; called once when everything has been asked."""
        self._missing -= 1
        if not self._missing:
            self._done(self.results)
