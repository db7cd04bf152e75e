"""Carries the questions of a transaction coordinator to resolvers, and their answers back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.partitions.events import Produce, Produced
from eagleray.broker.transactions.question_text import question_text
from eagleray.broker.transactions.resolver import ResolverKind
from eagleray.broker.transactions.resolver_events import AskResolver, ResolverAnswered
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import build_keyed_batch

if TYPE_CHECKING:
    from eagleray.actors.lanes.peers import Peers
    from eagleray.actors.roles.resolver_calls import ResolverVerdict
    from eagleray.actors.roles.role import Supervisor
    from eagleray.broker.metadata.image import MetadataImage

_log = logging.getLogger(__name__)


class OutcomeQueryContext(Protocol):
    """What outcome queries use of their node."""

    image: MetadataImage
    peers: Peers
    supervisor: Supervisor

    def now_ms(self) -> int:
        """The time of day."""


class OutcomeQueryCarrier:
    """Asks actors through the supervisor of the node, and topics through the leaders of their partitions.

    Keeps no question: one without an answer is asked again by the coordinator, which has it in its log.
    """

    def __init__(self, context: OutcomeQueryContext, answered: Callable[[ResolverAnswered], None]) -> None:
        self._context = context
        self._answered = answered

    def ask(self, question: AskResolver) -> None:
        """Ask a resolver; this returns at once."""
        if question.resolver.kind is ResolverKind.TOPIC:
            self._write(question)
        else:
            self._context.supervisor.ask_resolver(question, lambda verdict: self._take(question, verdict))

    def _take(self, question: AskResolver, verdict: ResolverVerdict) -> None:
        if verdict.commit is None:
            self._give_up(question, verdict.why)
        else:
            self._tell(question, commit=verdict.commit)

    def _tell(self, question: AskResolver, *, commit: bool | None) -> None:
        self._answered(ResolverAnswered(question.transactional_id, question.prepared, question.attempt, commit))

    def _give_up(self, question: AskResolver, why: str) -> None:
        _log.warning(
            "question %s about the prepared transaction of %r to %s: %s",
            question.attempt,
            question.transactional_id,
            question.resolver,
            why,
        )
        self._tell(question, commit=None)

    # A topic of questions

    def _write(self, question: AskResolver) -> None:
        """Write a question; its answer is the completion of the transaction, and no concern of this question's."""

        def on_reply(reply: Produced | None) -> None:
            if reply is None:
                self._give_up(question, "its leader has not answered")
            elif reply.error_code is not ErrorCode.NONE:
                self._give_up(question, f"its leader has answered {reply.error_code.name}")
            else:
                self._tell(question, commit=None)

        context, name = self._context, question.resolver.name
        topic = context.image.topics.get(name)
        if topic is None:
            self._give_up(question, "there is no such topic")
            return
        number = partition_for_name(question.transactional_id, len(topic.partitions))
        leader = context.image.leader_of(TopicPartition(name, number))
        if leader == NO_NODE:
            self._give_up(question, f"partition {number} has no leader")
            return
        record = question.transactional_id.encode(), question_text(question)
        batch = build_keyed_batch([record], timestamp_ms=context.now_ms(), base_offset=0, leader_epoch=-1)
        context.peers.ask(leader, on_reply, Produce, TopicPartition(name, number), batch)
