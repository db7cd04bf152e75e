"""A question to a resolver as text: what is written to a topic of questions, and what an actor's question is made from.

    {"version":1,"prepared":"prepared-v1.orders-1.7.5","context":"NDI=","attempt":1,"prepared_at_ms":1700000000000}

`context` is in base64. Fields may be added within a version; a reader leaves alone what it does not know.
"""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.broker.transactions.resolver_events import AskResolver
from eagleray.broker.transactions.tokens import token_text

QUESTION_VERSION: Final = 1


class QuestionText(msgspec.Struct, frozen=True):
    """The fields of the text, in their order."""

    version: int
    prepared: str
    """The token, as `str` of a `PreparedTransaction` gives it."""

    context: bytes
    attempt: int
    prepared_at_ms: int


def question_text(question: AskResolver) -> bytes:
    """Write a question."""
    token = token_text(question.transactional_id, question.prepared)
    text = QuestionText(QUESTION_VERSION, token, question.context, question.attempt, question.prepared_ms)
    return msgspec.json.encode(text)
