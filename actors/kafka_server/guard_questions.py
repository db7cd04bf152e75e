"""What a client has heard, on one connection, of the questions by which coordinators guard its transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.runtime.connection_bindings import NO_QUESTION

if TYPE_CHECKING:
    from eagleray.actors.kafka_server.call import Call

MOST_HEARD: Final = 1024
"""How many transactional ids the questions of one connection are remembered for; a forgotten one is asked again."""

_About: TypeAlias = tuple[ProcessRole, str]
"""Which coordinator has asked, and about which transactional id."""


class GuardQuestions:
    """The questions to one connection: with which response each of them leaves, and which are written.

    Promises: a question counts as heard for those requests alone of which no byte was read before it was written. So a
    copy that had come together with the request that was refused does not pass for the client's answer.
    """

    __slots__ = ("_after_request", "_heard", "_leaving", "_of_calls")

    def __init__(self) -> None:
        self._of_calls: dict[Call, tuple[_About, int]] = {}
        """By the request that was refused, while its response waits for those of earlier requests."""
        self._leaving: list[tuple[_About, int]] = []
        """Those whose response is ready to be written."""
        self._after_request: list[tuple[_About, int]] = []
        """Those that were written when a part of the next request had been read already."""
        self._heard: dict[_About, int] = {}

    def heard(self, role: ProcessRole, transactional_id: str) -> int:
        """Return the last question that counts as heard for the request which is being taken."""
        return self._heard.get((role, transactional_id), NO_QUESTION)

    def asked(self, call: Call, role: ProcessRole, transactional_id: str, question: int) -> None:
        """Take note that a request is about to be answered with a question."""
        self._of_calls[call] = (role, transactional_id), question

    def is_leaving(self, call: Call) -> None:
        """Take note that the response to a request will be written next."""
        if call in self._of_calls:
            self._leaving.append(self._of_calls.pop(call))

    def written(self, *, has_read_part: bool) -> None:
        """Take note that all ready responses are written, and whether a part of a request was read by then."""
        if self._leaving:
            leaving, self._leaving = self._leaving, []
            if has_read_part:
                self._after_request += leaving
            else:
                self._hear(leaving)

    def took_requests(self) -> None:
        """Take note that the requests of which a part had been read are taken."""
        if self._after_request:
            written, self._after_request = self._after_request, []
            self._hear(written)

    def _hear(self, questions: list[tuple[_About, int]]) -> None:
        for about, question in questions:
            self._heard.pop(about, None)
            if len(self._heard) >= MOST_HEARD:
                del self._heard[next(iter(self._heard))]
            self._heard[about] = question
