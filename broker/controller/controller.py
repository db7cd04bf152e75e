"""The controller: what it decides about nodes, topics and who leads their partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from eagleray.broker.controller.altering import alter_configs, delete_topics, grow_topic
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.creating import create_topics
from eagleray.broker.controller.decisions import Decision, refusal_of
from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    ChangesLogged,
    ChangesLost,
    CreateTopics,
    Decidable,
    DeleteTopics,
    DescribeConfigs,
    Effect,
    Event,
    FollowMetadata,
    GetMetadata,
    GrowTopic,
    LogChanges,
    PlanNodes,
    RegisterNode,
    Tick,
)
from eagleray.broker.controller.followers import Followers
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.metadata import answer_metadata, describe_configs
from eagleray.broker.controller.planning import check_internal_topics, plan_nodes
from eagleray.broker.controller.registering import register_node
from eagleray.protocol.errors import ErrorCode


class _Append(NamedTuple):
    """What is on its way to the log, and who asked for it."""

    token: int
    request: Decidable
    decision: Decision


class Controller:
    """Decides over the nodes of a cluster, its topics, and the leaders of their partitions.

    Owns: the `MetadataImage` that replaying the metadata log gives. Persists: nothing itself; every decision is one
    `LogChanges`, and takes effect, is answered and has consequences only when `ChangesLogged` comes back.
    On failure (`ChangesLost`): the image is as before; whoever asked for the append, and whoever waited behind it, is
    told to try again. After a restart: the replayed image is the state. Nodes and followers ask again, and supervision
    learns from the answer to `PlanNodes` which dedicated nodes it has to start.

    One append is under way at a time. A request that may change something waits behind it, in order, and is decided
    upon when the outcome is known, so that it never sees half of another's; there is a bound, and who comes beyond it
    is told to try again. Questions never wait: they are answered from the image as the log has it.
    """

    def __init__(self, config: ControllerConfig, image: MetadataImage, new_topic_id: Callable[[], bytes]) -> None:
        """Begin with what the log says; `new_topic_id` gives 16 random bytes. `InvalidConfig` says what cannot be."""
        check_internal_topics(config, image)
        self._config = config
        self._image = image
        self._followers = Followers(config)
        self._appends = 0
        self._pending: _Append | None = None
        self._queue: deque[Decidable] = deque()
        self._deciders: dict[type, Callable[[Any], Decision]] = {
            PlanNodes: lambda request: plan_nodes(request, self._image, config, new_topic_id),
            RegisterNode: lambda request: register_node(request, self._image),
            CreateTopics: lambda request: create_topics(request, self._image, config, new_topic_id),
            DeleteTopics: lambda request: delete_topics(request, self._image),
            GrowTopic: lambda request: grow_topic(request, self._image, config),
            AlterTopicConfigs: lambda request: alter_configs(request, self._image),
        }
        self._handlers: dict[type, Callable[[Any, int], list[Effect]]] = {
            FollowMetadata: self._on_follow,
            GetMetadata: self._on_get_metadata,
            DescribeConfigs: self._on_describe_configs,
            ChangesLogged: self._on_logged,
            ChangesLost: self._on_lost,
            Tick: self._on_tick,
        }

    @property
    def image(self) -> MetadataImage:
        """The metadata as the log has it."""
        return self._image

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event and return what it makes necessary, in order."""
        if isinstance(event, Decidable):
            return self._on_request(event)
        return self._handlers[type(event)](event, now_ms)

    # Requests that may change something

    def _on_request(self, request: Decidable) -> list[Effect]:
        if self._pending is None:
            return self._decide(request)
        if len(self._queue) < self._config.queued_requests_limit:
            self._queue.append(request)
            return []
        return [refusal_of(request, ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many requests wait already; try again")]

    def _decide(self, request: Decidable) -> list[Effect]:
        decision = self._deciders[type(request)](request)
        if not decision.changes:
            return [decision.answer(self._image)]
        self._appends += 1
        self._pending = _Append(self._appends, request, decision)
        return [LogChanges(self._appends, decision.changes)]

    # The log's answers

    def _on_logged(self, event: ChangesLogged, now_ms: int) -> list[Effect]:  # noqa: ARG002 - all handlers take the time
        decision = self._take_pending(event).decision
        self._image = self._image.apply(decision.changes)
        effects: list[Effect] = [*decision.consequences, *self._followers.tell(decision.changes, self._image)]
        effects.append(decision.answer(self._image))
        while self._queue and self._pending is None:
            effects += self._decide(self._queue.popleft())
        return effects

    def _on_lost(self, event: ChangesLost, now_ms: int) -> list[Effect]:  # noqa: ARG002
        # What waited would most likely be lost as well, one append after another.
        lost = [self._take_pending(event).request, *self._queue]
        self._queue.clear()
        code = event.error_code if event.error_code.is_retriable else ErrorCode.KAFKA_STORAGE_ERROR
        return [refusal_of(request, code, "the metadata log could not be written; try again") for request in lost]

    def _take_pending(self, event: ChangesLogged | ChangesLost) -> _Append:
        pending, self._pending = self._pending, None
        assert pending is not None
        assert pending.token == event.token
        return pending

    # Questions

    def _on_follow(self, request: FollowMetadata, now_ms: int) -> list[Effect]:
        return [*self._followers.ask(request, self._image, now_ms)]

    def _on_get_metadata(self, request: GetMetadata, now_ms: int) -> list[Effect]:  # noqa: ARG002
        return [answer_metadata(self._image, request)]

    def _on_describe_configs(self, request: DescribeConfigs, now_ms: int) -> list[Effect]:  # noqa: ARG002
        return [describe_configs(self._image, request)]

    def _on_tick(self, event: Tick, now_ms: int) -> list[Effect]:  # noqa: ARG002
        return [*self._followers.expire(self._image, now_ms)]
