"""What a coordinator wants to have asked of a resolver, and what it is told of the answer."""

from __future__ import annotations

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.messages import Message
from eagleray.broker.transactions.resolver import ResolverName


class AskResolver(Message, frozen=True, tag=True):
    """Ask how a prepared transaction has to end; answered by `ResolverAnswered`, in time or never."""

    transactional_id: str
    prepared: ProducerIdentity
    """The token of the transaction."""

    context: bytes
    """What its producer said when it prepared."""

    attempt: int
    """The number of the question, from 1."""

    prepared_ms: int
    resolver: ResolverName
    timeout_ms: int
    """How long an answer is waited for."""


class ResolverAnswered(Message, frozen=True, tag=True):
    """A question is over: the resolver has said how a transaction has to end, or no answer is to be expected."""

    transactional_id: str
    prepared: ProducerIdentity
    attempt: int
    commit: bool | None
    """None where the outcome is not known, for whatever reason."""
