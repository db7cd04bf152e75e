"""Which resolver a prepared transaction has, and when it is asked: by names and numbers, never by code."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from eagleray.broker.limits import Int64, Text
from eagleray.broker.metadata.topic_names import problem_with
from eagleray.broker.metadata.topics import INTERNAL_TOPICS

LONGEST_NAME: Final = 249
"""As long as the name of a topic may be."""

OUR_NAMESPACES: Final = "eagleray-"
"""How the names of the namespaces begin in which the actors of clusters are: those are no resolvers."""

LEAST_WAIT_MS: Final = 1
LONGEST_WAIT_MS: Final = 7 * 24 * 60 * 60 * 1000
MOST_ATTEMPTS: Final = 1000

_MOST_INTERVALS: Final = 8
_FIRST_HURRIED_MS: Final = 1000


class ResolverKind(enum.IntEnum):
    """How a resolver is asked. The numbers are in the log."""

    ACTOR = 0
    """A method of a named Ray actor is called, and returns the outcome."""

    TOPIC = 1
    """A record is written to a topic, and one of its readers completes the transaction by its token."""


class ResolverName(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A resolver as the log and the lanes have it.

    New fields go to the end, with defaults: records that lack them stay readable, and so do records that have more.
    """

    kind: ResolverKind
    name: Text
    """Of the actor, or of the topic."""

    namespace: Text
    """Of Ray, that the actor is in; empty for a topic."""

    method: Text
    """Of the actor; empty for a topic."""

    first_after_ms: Int64
    """How long a producer may have the prepared transaction before the first question."""

    interval_ms: Int64
    """How long after the first question the second comes; see `wait_ms`."""

    attempts: Int64
    """How many questions there are, unless a producer asks for the transactional id afterwards."""

    aborts_when_exhausted: bool
    """Whether the transaction is aborted when the last question has had no answer; it stays prepared otherwise."""

    def __str__(self) -> str:
        if self.kind is ResolverKind.TOPIC:
            return f"topic {self.name!r}"
        return f"{self.method!r} of actor {self.name!r} in namespace {self.namespace!r}"


def problem_of(resolver: ResolverName) -> str | None:
    """Say what is wrong with a resolver, or None where it may be logged."""
    if resolver.kind is ResolverKind.TOPIC:
        problem = problem_with(resolver.name)
        if problem is None and resolver.name in INTERNAL_TOPICS:
            problem = f"{resolver.name} is the cluster's own topic; expected one of yours"
        if problem is not None:
            return problem
    else:
        for what, name in (("name", resolver.name), ("namespace", resolver.namespace), ("method", resolver.method)):
            if not 0 < len(name) <= LONGEST_NAME:
                return f"the {what} of the resolver's actor is {name!r}; expected 1 to {LONGEST_NAME} characters"
        if resolver.namespace.startswith(OUR_NAMESPACES):
            return f"namespace {resolver.namespace!r} is that of a cluster's own actors; expected one of yours"
        if not resolver.method.isidentifier() or resolver.method.startswith("_"):
            return f"the method of the resolver is {resolver.method!r}; expected the name of a public method"
    for what, number, most in (
        ("first_after_ms", resolver.first_after_ms, LONGEST_WAIT_MS),
        ("interval_ms", resolver.interval_ms, LONGEST_WAIT_MS),
        ("attempts", resolver.attempts, MOST_ATTEMPTS),
    ):
        if not LEAST_WAIT_MS <= number <= most:
            return f"{what} of the resolver is {number}; expected {LEAST_WAIT_MS} to {most}"
    return None


def wait_ms(resolver: ResolverName, questions: int) -> int:
    """Say how long to wait after so many questions: the interval, doubled with each, up to eight intervals."""
    return min(resolver.interval_ms << min(questions - 1, _MOST_INTERVALS), resolver.interval_ms * _MOST_INTERVALS)


def hurried_wait_ms(resolver: ResolverName, questions: int) -> int:
    """Say how long to wait after so many questions while a producer waits for the transactional id."""
    return min(_FIRST_HURRIED_MS << min(questions - 1, 2 * _MOST_INTERVALS), wait_ms(resolver, questions))
