"""The actor that calls the resolvers of applications, so that no node ever does.

What a resolver returns or raises is the application's: to read it is to run whatever its pickle says. So it is read
here, in a process that has nothing to lose. A node gets plain bytes from this actor, and reads them as one Struct.
"""

from __future__ import annotations

import asyncio
import logging
from importlib import import_module
from typing import Final

import msgspec
import ray

from eagleray.actors.roles.resolver_calls import ResolverVerdict
from eagleray.broker.transactions.question_text import question_text
from eagleray.broker.transactions.resolver_events import AskResolver

_log = logging.getLogger(__name__)

_APPLICATION: Final = "eagleray.client.producer.resolver"
"""Where an application finds the classes of questions and outcomes. Only this actor, which speaks to the application in
its stead, loads them in a process of the broker."""

_OUTCOMES: Final = {"COMMIT": True, "ABORT": False, "UNKNOWN": None}

_decode_question = msgspec.msgpack.Decoder(AskResolver).decode
_encode_verdict = msgspec.msgpack.Encoder().encode


class ResolverCaller:
    """Calls methods of named actors with a question, and says in plain bytes what has come of it.

    Owns: nothing. Ray starts it again wherever it dies; the questions that were on their way have no answer then, and
    are asked again. A question that is answered neither with an outcome nor in time counts as one of which the outcome
    is not known.
    """

    async def ask(self, question: bytes) -> bytes:
        """Ask one question."""
        try:
            verdict = await self._ask(_decode_question(question))
        except Exception as error:  # noqa: BLE001 - the actor that is asked may raise anything
            verdict = ResolverVerdict(None, _in_words(error))
        return _encode_verdict(verdict)

    async def _ask(self, question: AskResolver) -> ResolverVerdict:
        application, resolver = import_module(_APPLICATION), question.resolver
        try:
            actor = await asyncio.to_thread(ray.get_actor, resolver.name, namespace=resolver.namespace)
        except ValueError:
            return ResolverVerdict(None, "Ray knows no such actor now")
        method = getattr(actor, resolver.method, None)
        if method is None:
            return ResolverVerdict(None, "the actor has no such method")
        asked = application.Question.parse(question_text(question))
        async with asyncio.timeout(question.timeout_ms / 1000):
            outcome = await method.remote(asked)
        if not isinstance(outcome, application.Outcome):
            return ResolverVerdict(None, f"it has returned {_in_words(outcome)}; expected an eagleray.Outcome")
        commit = _OUTCOMES[outcome.name]
        return ResolverVerdict(commit, "it does not know yet" if commit is None else "")


def _in_words(value: object) -> str:
    """Say what a value is, in a few words, even where it cannot say so itself."""
    if isinstance(value, TimeoutError):
        return "it has not answered in time"
    try:
        last_line = str(value).strip().rpartition("\n")[2]
    except Exception:  # noqa: BLE001 - it is the application's code
        last_line = "?"
    return f"{type(value).__name__}: {last_line[:200]}"
