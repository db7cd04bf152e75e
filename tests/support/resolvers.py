"""Resolvers that are a test's own, in place of named actors, for nodes without Ray."""

import msgspec

from eagleray.actors.roles.resolver_calls import ResolverVerdict
from eagleray.broker.transactions.question_text import question_text
from eagleray.broker.transactions.resolver_events import AskResolver
from eagleray.client.producer.resolver import Outcome, Question
from eagleray.testing.local_node import NoActors

_COMMITS = {Outcome.COMMIT: True, Outcome.ABORT: False, Outcome.UNKNOWN: None}


class Resolvers(NoActors):
    """Answers in the stead of every actor as the test says, or not at all."""

    def __init__(self, *outcomes: Outcome | None) -> None:
        self.outcomes = list(outcomes)
        """The next answers; without one, and for None, there is no answer."""
        self.asked: list[Question] = []
        self.names: list[AskResolver] = []

    def ask_resolver(self, question: AskResolver, then) -> None:
        self.names.append(msgspec.msgpack.decode(msgspec.msgpack.encode(question), type=AskResolver))
        self.asked.append(Question.parse(question_text(question)))
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            then(ResolverVerdict(_COMMITS[outcome]))
