"""The controller: what it decides about nodes, topics, replicas, and who leads their partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from eagleray.broker.controller.altering import alter_configs, delete_topics, grow_topic
from eagleray.broker.controller.balancing import LeaderBalance, elect_leaders
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.creating import create_topics
from eagleray.broker.controller.decisions import Decision, refusal_of
from eagleray.broker.controller.draining import drain_nodes
from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    ChangeIsr,
    ChangesLogged,
    ChangesLost,
    CreateTopics,
    Decidable,
    DeleteTopics,
    DescribeConfigs,
    DrainNodes,
    Effect,
    ElectLeaders,
    Event,
    FollowMetadata,
    GetMetadata,
    GrowTopic,
    ListReassignments,
    LogChanges,
    NodeBeat,
    PlanNodes,
    ReassignPartitions,
    RegisterNode,
    ReserveProducerIds,
    Tick,
)
from eagleray.broker.controller.followers import Followers
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.machines import has_several_machines
from eagleray.broker.controller.metadata import answer_metadata, describe_configs
from eagleray.broker.controller.planning import check_internal_topics, plan_nodes
from eagleray.broker.controller.producer_ids import reserve_producer_ids
from eagleray.broker.controller.reassignments import list_reassignments, reassign_partitions
from eagleray.broker.controller.registering import register_node
from eagleray.broker.controller.replicating import EndSessions, change_isr, end_sessions, sign_of_life, take_beat
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.controlling import ReplicationController
from eagleray.protocol.errors import ErrorCode

_Request: TypeAlias = Decidable | EndSessions


class _Append(NamedTuple):
    """What is on its way to the log, and who asked for it."""

    token: int
    request: _Request
    decision: Decision


class Controller:
    """Decides over the nodes of a cluster, its topics, their replicas, and the leaders of their partitions.

    Owns: the `MetadataImage` that replaying the metadata log gives, and the nodes' sessions. Persists: nothing itself;
    every decision is one `LogChanges`, and takes effect, is answered and has consequences only when `ChangesLogged`
    comes back. On failure (`ChangesLost`): the image is as before; whoever asked for the append, and whoever waited
    behind it, is told to try again. After a restart: the replayed image is the state, and every registered node has as
    much of a session before it as a lease may still last. Nodes and followers ask again, and supervision learns from
    the answer to `PlanNodes` which dedicated nodes it has to start.

    One append is under way at a time. A request that may change something waits behind it, in order, and is decided
    upon when the outcome is known, so that it never sees half of another's; there is a bound, and who comes beyond it
    is told to try again. Questions never wait, nor do heartbeats that tell of nothing but life: they are answered from
    the image as the log has it. A node whose session has ended is refused at once, and the log is told of it before
    anything else that waits, as often as it takes. On a single machine sessions do not end: nobody could take over.

    All times are of one monotonic clock, that of the process: how long sessions last and followers wait is nobody
    else's business, and the time of day may jump.
    """

    def __init__(
        self,
        config: ControllerConfig,
        image: MetadataImage,
        new_topic_id: Callable[[], bytes],
        *,
        now_ms: int,
        replication: ReplicationConfig | None = None,
    ) -> None:
        """Begin with what the log says; `new_topic_id` gives 16 random bytes. `InvalidConfig` says what cannot be."""
        check_internal_topics(config, image)
        self._config = config
        self._image = image
        self._followers = Followers(config)
        self._replication = ReplicationController(replication or ReplicationConfig(), image, now_ms)
        self._balance = LeaderBalance(config, now_ms)
        self._minds_sessions = has_several_machines(image)
        self._appends = 0
        self._pending: _Append | None = None
        self._queue: deque[_Request] = deque()
        self._deciders = self._make_deciders(new_topic_id)
        self._handlers: dict[type, Callable[[Any, int], list[Effect]]] = {
            NodeBeat: self._on_beat,
            FollowMetadata: self._on_follow,
            GetMetadata: lambda request, _: [answer_metadata(self._image, request)],
            DescribeConfigs: lambda request, _: [describe_configs(self._image, request)],
            ListReassignments: lambda request, _: [list_reassignments(request, self._image)],
            ChangesLogged: self._on_logged,
            ChangesLost: self._on_lost,
            Tick: self._on_tick,
        }

    def _make_deciders(self, new_id: Callable[[], bytes]) -> dict[type, Callable[[Any, int], Decision]]:
        config, replication = self._config, self._replication
        return {
            PlanNodes: lambda request, _: plan_nodes(request, self._image, config, new_id),
            RegisterNode: lambda request, now_ms: register_node(request, self._image, replication, now_ms),
            NodeBeat: lambda request, now_ms: take_beat(request, self._image, replication, now_ms),
            ChangeIsr: lambda request, _: change_isr(request, self._image, replication),
            EndSessions: lambda _, now_ms: end_sessions(self._image, replication, now_ms),
            ReserveProducerIds: lambda request, _: reserve_producer_ids(request, self._image),
            CreateTopics: lambda request, _: create_topics(request, self._image, config, new_id),
            DeleteTopics: lambda request, _: delete_topics(request, self._image),
            GrowTopic: lambda request, _: grow_topic(request, self._image, config),
            AlterTopicConfigs: lambda request, _: alter_configs(request, self._image),
            ReassignPartitions: lambda request, _: reassign_partitions(request, self._image),
            DrainNodes: lambda request, _: drain_nodes(request, self._image),
            ElectLeaders: lambda request, _: elect_leaders(request, self._image, replication),
        }

    @property
    def image(self) -> MetadataImage:
        """The metadata as the log has it."""
        return self._image

    @property
    def next_due_ms(self) -> int:
        """When there is something to do though nothing happens; now or earlier means as soon as others were served."""
        due_ms = min(self._balance.next_due_ms, self._followers.next_due_ms)
        return min(due_ms, self._replication.next_due_ms(self._image)) if self._minds_sessions else due_ms

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event and return what it makes necessary, in order."""
        handler = self._handlers.get(type(event))
        return self._on_request(event, now_ms) if handler is None else handler(event, now_ms)

    # Requests that may change something

    def _on_request(self, request: Any, now_ms: int) -> list[Effect]:  # noqa: ANN401 - what no handler is for
        if self._pending is None:
            return self._decide(request, now_ms)
        if len(self._queue) < self._config.queued_requests_limit:
            self._queue.append(request)
            return []
        code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return self._refuse(request, code, "too many requests wait already; try again", now_ms)

    def _on_beat(self, request: NodeBeat, now_ms: int) -> list[Effect]:
        is_alive = self._replication.hear(request.heartbeat, self._image, now_ms)
        if is_alive and request.heartbeat.resigned:
            return self._on_request(request, now_ms)
        return self._answer_beat(request, now_ms)

    def _answer_beat(self, request: NodeBeat, now_ms: int) -> list[Effect]:
        """Answer a heartbeat by itself, from the image as the log has it."""
        return self._conclude(take_beat(sign_of_life(request), self._image, self._replication, now_ms))

    def _decide(self, request: _Request, now_ms: int) -> list[Effect]:
        decision = self._deciders[type(request)](request, now_ms)
        if not decision.changes:
            return self._conclude(decision)
        self._appends += 1
        self._pending = _Append(self._appends, request, decision)
        return [LogChanges(self._appends, decision.changes)]

    def _conclude(self, decision: Decision) -> list[Effect]:
        return [] if decision.answer is None else [decision.answer(self._image)]

    def _refuse(self, request: _Request, code: ErrorCode, message: str, now_ms: int) -> list[Effect]:
        if isinstance(request, EndSessions):
            return []
        return (
            self._answer_beat(request, now_ms)
            if isinstance(request, NodeBeat)
            else [refusal_of(request, code, message)]
        )

    # The log's answers

    def _on_logged(self, event: ChangesLogged, now_ms: int) -> list[Effect]:
        decision = self._take_pending(event).decision
        if not self._minds_sessions:
            # Where another machine joins, the sessions of those who are there begin with it.
            self._replication.renew_sessions(now_ms)
        self._image = self._image.apply(decision.changes)
        self._minds_sessions = has_several_machines(self._image)
        self._replication.logged(decision.changes, now_ms)
        effects: list[Effect] = [*decision.consequences, *self._followers.tell(decision.changes, self._image)]
        effects += self._conclude(decision)
        while self._queue and self._pending is None:
            effects += self._decide(self._queue.popleft(), now_ms)
        return effects

    def _on_lost(self, event: ChangesLost, now_ms: int) -> list[Effect]:
        # What waited would most likely be lost as well, one append after another.
        lost = [self._take_pending(event).request, *self._queue]
        self._queue.clear()
        code = event.error_code if event.error_code.is_retriable else ErrorCode.KAFKA_STORAGE_ERROR
        message = "the metadata log could not be written; try again"
        return [effect for request in lost for effect in self._refuse(request, code, message, now_ms)]

    def _take_pending(self, event: ChangesLogged | ChangesLost) -> _Append:
        pending, self._pending = self._pending, None
        assert pending is not None
        assert pending.token == event.token
        return pending

    # Followers, and time

    def _on_follow(self, request: FollowMetadata, now_ms: int) -> list[Effect]:
        return [*self._followers.ask(request, self._image, now_ms)]

    def _on_tick(self, event: Tick, now_ms: int) -> list[Effect]:  # noqa: ARG002 - all handlers take their event
        self._balance.restore(self._image, self._replication, now_ms)
        effects: list[Effect] = [*self._followers.expire(self._image, now_ms)]
        if not self._minds_sessions:
            self._replication.renew_sessions(now_ms)
            return effects
        self._replication.end_sessions(now_ms)
        if not self._replication.departed(self._image):
            return effects
        if self._pending is None:
            return [*effects, *self._decide(EndSessions(), now_ms)]
        if EndSessions() not in self._queue:
            self._queue.appendleft(EndSessions())
        return effects
