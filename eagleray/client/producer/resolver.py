"""Resolvers: who is asked how a prepared transaction has to end, when its producer is gone or silent."""

from __future__ import annotations

import enum
from typing import Final, Literal, Self, get_args

import msgspec

from eagleray.broker.transactions.question_text import QUESTION_VERSION, QuestionText
from eagleray.broker.transactions.resolver import (
    LEAST_WAIT_MS,
    LONGEST_WAIT_MS,
    MOST_ATTEMPTS,
    ResolverKind,
    ResolverName,
    problem_of,
)
from eagleray.client import validation
from eagleray.client.errors import InvalidArgument
from eagleray.client.producer.prepared import PreparedTransaction

Exhausted = Literal["keep", "abort"]

_ASSUMED_NAMESPACE: Final = "?"


class Outcome(enum.Enum):
    """How a prepared transaction has to end, in the words of a resolver."""

    COMMIT = "commit"
    ABORT = "abort"
    UNKNOWN = "unknown"
    """It cannot be told yet: the resolver is asked again later."""


class Question(msgspec.Struct, frozen=True):
    """A question to a resolver: how does this transaction have to end?"""

    prepared: PreparedTransaction
    context: bytes
    """What the producer said when it prepared."""

    attempt: int
    """The number of the question, from 1. One question may be asked more than once."""

    prepared_at_ms: int

    @classmethod
    def parse(cls, text: bytes | str) -> Self:
        """Read the value of a record in a topic of questions; raises InvalidArgument for every other text."""
        try:
            read = msgspec.json.decode(text, type=QuestionText)
        except (msgspec.MsgspecError, TypeError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"this is no question to a resolver: {error}.") from error
        if read.version != QUESTION_VERSION:
            raise InvalidArgument(
                f"the question has version {read.version}; this eagleray reads version {QUESTION_VERSION}."
            )
        return cls(PreparedTransaction.parse(read.prepared), read.context, read.attempt, read.prepared_at_ms)


class Resolver(msgspec.Struct, frozen=True):
    """Who is asked how a prepared transaction has to end. It consists of names, and is never code.

        with producer.transaction(resolver=Resolver.actor("orders")):
            producer.send("orders", b"order 42")
            producer.prepare(context=b"42")
            pay(42)

    The first question comes when the producer has had the prepared transaction for `first_after_ms`, or at once when
    another producer asks for its transactional id. From then on the producer can do nothing more in it. Between two
    questions `interval_ms` pass, doubled with each question up to eight intervals. After `attempts` of them the
    transaction stays prepared (`exhausted="keep"`), or is aborted.
    """

    kind: ResolverKind
    name: str
    namespace: str | None
    method: str
    first_after_ms: int
    interval_ms: int
    attempts: int
    exhausted: Exhausted

    @classmethod
    def actor(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        method: str = "resolve",
        first_after_ms: int = 60_000,
        interval_ms: int = 60_000,
        attempts: int = 15,
        exhausted: Exhausted = "keep",
    ) -> Self:
        """Name a Ray actor: its method is called with a `Question` and returns an `Outcome`.

        Without a namespace it is that of the Ray job which prepares the transaction.
        """
        return cls(ResolverKind.ACTOR, name, namespace, method, first_after_ms, interval_ms, attempts, exhausted)

    @classmethod
    def topic(
        cls,
        questions: str,
        *,
        first_after_ms: int = 60_000,
        interval_ms: int = 60_000,
        attempts: int = 15,
        exhausted: Exhausted = "keep",
    ) -> Self:
        """Name a topic to which each question is written; its readers answer with `cluster.complete`.

        The key of a record is the transactional id, and `Question.parse` reads its value. A question may be there
        more than once.
        """
        return cls(ResolverKind.TOPIC, questions, "", "", first_after_ms, interval_ms, attempts, exhausted)

    def __post_init__(self) -> None:
        if self.kind is ResolverKind.TOPIC:
            validation.topic_to_use(self.name)
        else:
            validation.text("the name of the actor", self.name)
            validation.text("method", self.method)
        if self.namespace is not None and self.kind is ResolverKind.ACTOR:
            validation.text("namespace", self.namespace)
        validation.integer("first_after_ms", self.first_after_ms, LEAST_WAIT_MS, LONGEST_WAIT_MS)
        validation.integer("interval_ms", self.interval_ms, LEAST_WAIT_MS, LONGEST_WAIT_MS)
        validation.integer("attempts", self.attempts, 1, MOST_ATTEMPTS)
        if self.exhausted not in get_args(Exhausted):
            raise InvalidArgument(f"exhausted is {self.exhausted!r}; expected one of {get_args(Exhausted)}.")
        problem = problem_of(self.named_in(_ASSUMED_NAMESPACE if self.namespace is None else self.namespace))
        if problem is not None:
            raise InvalidArgument(f"{problem}.")

    def named_in(self, namespace: str) -> ResolverName:
        """Return what the coordinator is told, where the actor is in this namespace of Ray."""
        waits = self.first_after_ms, self.interval_ms, self.attempts
        return ResolverName(self.kind, self.name, namespace, self.method, *waits, self.exhausted == "abort")


def resolver_name(resolver: Resolver | None, ray_namespace: str) -> ResolverName | None:
    """Return what the coordinator is told of a resolver, for a program in this namespace of Ray, if it is in Ray."""
    if resolver is None:
        return None
    if not isinstance(resolver, Resolver):
        raise InvalidArgument(f"resolver is {resolver!r}; expected Resolver.actor(...) or Resolver.topic(...).")
    namespace = ray_namespace if resolver.namespace is None else resolver.namespace
    if resolver.kind is ResolverKind.ACTOR and not namespace:
        raise InvalidArgument(
            f"the resolver {resolver.name!r} has no namespace, and this program has no Ray job whose it could be; "
            'name it: Resolver.actor("orders", namespace="shop").'
        )
    return resolver.named_in(namespace)
