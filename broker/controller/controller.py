"""The controller: what it decides about nodes, topics, replicas, and who leads their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from eagleray.broker.controller.altering import alter_configs, delete_topics, grow_topic
from eagleray.broker.controller.balancing import LeaderBalance, elect_leaders
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.creating import create_topics
from eagleray.broker.controller.credential_events import AlterCredentials
from eagleray.broker.controller.credentials import alter_credentials
from eagleray.broker.controller.decisions import Decision
from eagleray.broker.controller.draining import drain_nodes
from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    ChangesCommitted,
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
    Request,
    ReserveProducerIds,
    Respond,
    StartNodes,
    StopNodes,
    StopRuling,
)
from eagleray.broker.controller.followers import Followers
from eagleray.broker.controller.metadata_queries import answer_metadata, describe_configs
from eagleray.broker.controller.node_requests import change_isr, register_node, reserve_producer_ids, take_beat
from eagleray.broker.controller.planning import check_internal_topics, plan_nodes
from eagleray.broker.controller.reassignment import list_reassignments, reassign_partitions
from eagleray.broker.controller.replica_events import (
    ChangeIsr,
    DrainNodes,
    ElectLeaders,
    ListReassignments,
    NodeBeat,
    ReassignPartitions,
)
from eagleray.broker.controller.replication_control import ReplicationControl
from eagleray.broker.metadata.changes import Change, TermBegan
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.machines import has_several_machines
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.runtime.coordinator_runtime import CoordinatorRuntime, CoordinatorShard
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.failures import RequestFailed
from eagleray.protocol.errors import ErrorCode

_NONE: Final = ErrorCode.NONE
_METADATA_LOG: Final = 0
_NO_KEY: Final = ""


class _Publish(NamedTuple):
    """Let the followers of the metadata know of changes, and the image that they have led to."""

    changes: tuple[Change, ...]
    image: MetadataImage


_Said: TypeAlias = Respond | StartNodes | StopNodes | StopRuling | RequestFailed | _Publish
_Shard: TypeAlias = CoordinatorShard[str, Change, _Said]


class Controller:
    """Decides over the nodes of a cluster, its topics, their replicas, and the leaders of their partitions.

    Owns: the image that replaying the metadata log gives, and the nodes' sessions. Persists: nothing itself; the
    changes of a turn are one `LogChanges`. A change takes effect when it is decided, so that the next request, of the
    same turn even, is decided upon what it leaves. What is said because of it, or from what it has changed, waits for
    `ChangesCommitted` (see `CoordinatorRuntime`): answers, nodes to start and stop, and what followers of the metadata
    see. Questions about the metadata, and followers, are answered at once from what is committed.
    On failure: where the log does not take an append, and where another node is the controller, the state is thrown
    away (`resign`), and all requests that wait are told to try again. After a restart: the replayed image is the state,
    and every registered node has as much of a session before it as a lease may still last. Nodes and followers ask
    again, and supervision learns from the answer to `PlanNodes` which dedicated nodes it has to start.

    There is a bound to the appends that are under way; requests beyond it, except heartbeats, are told to try again. A
    node whose session has ended is given up at once. On a single machine sessions do not end: no node could take over.

    All times are of one monotonic clock, that of the process: how long sessions last and followers wait is of no
    concern to others, and the time of day may jump. Only when a topic was deleted is noted by the time of day.
    """

    def __init__(
        self,
        config: ControllerConfig,
        image: MetadataImage,
        new_topic_id: Callable[[], bytes],
        *,
        now_ms: int,
        time_of_day_ms: Callable[[], int],
        may_expire: Callable[[], bool] = lambda: True,
        term: int = 0,
        replication: ReplicationConfig | None = None,
        is_only_voter: bool = False,
    ) -> None:
        """Begin with what the log says; `new_topic_id` gives 16 random bytes. `InvalidConfig` says what cannot be."""
        self._time_of_day_ms = time_of_day_ms
        self._may_expire = may_expire
        self._term = term
        self._is_only_voter = is_only_voter
        self._ahead: set[int] = set()
        """Nodes that know what this controller's log has lost."""
        check_internal_topics(config, image)
        self._config = config
        self.image = image
        """The metadata as they are committed."""
        self.latest_image = image
        """The metadata with what is decided and not committed yet: what all that is in the log leads to."""
        self._followers = Followers(config)
        self._replication = ReplicationControl(replication or ReplicationConfig(), image, now_ms)
        self._balance = LeaderBalance(config, now_ms)
        self._minds_sessions = has_several_machines(image)
        self._shard: _Shard = CoordinatorShard(_METADATA_LOG, 0)
        self._runtime: CoordinatorRuntime[_Shard, str, Change, _Said] = CoordinatorRuntime(self._check_append, _refused)
        self._runtime.open(self._shard)
        self._deciders = self._make_deciders(new_topic_id)
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            **dict.fromkeys(self._deciders, self._on_request),
            NodeBeat: self._decide,
            FollowMetadata: self._on_follow,
            GetMetadata: lambda request, _: self._say(Respond(request, answer_metadata(self.image, request))),
            DescribeConfigs: lambda request, _: self._say(Respond(request, describe_configs(self.image, request))),
            ListReassignments: lambda request, _: self._say(Respond(request, list_reassignments(request, self.image))),
            ChangesCommitted: lambda event, _: self._runtime.committed(self._shard, event.position),
            Tick: self._on_tick,
        }

    def _make_deciders(self, new_id: Callable[[], bytes]) -> dict[type, Callable[[Any, int], Decision]]:
        config, replication = self._config, self._replication
        return {
            PlanNodes: lambda request, _: plan_nodes(request, self.latest_image, config, new_id),
            RegisterNode: lambda request, now_ms: register_node(request, self.latest_image, replication, now_ms),
            NodeBeat: lambda request, now_ms: take_beat(request, self.latest_image, replication, now_ms),
            ChangeIsr: lambda request, _: change_isr(request, self.latest_image),
            ReserveProducerIds: lambda request, _: reserve_producer_ids(request, self.latest_image),
            CreateTopics: lambda request, _: create_topics(request, self.latest_image, config, new_id),
            DeleteTopics: lambda request, _: delete_topics(
                request, self.latest_image, config, self._time_of_day_ms(), may_forget=self._may_expire()
            ),
            GrowTopic: lambda request, _: grow_topic(request, self.latest_image, config),
            AlterTopicConfigs: lambda request, _: alter_configs(request, self.latest_image),
            ReassignPartitions: lambda request, _: reassign_partitions(request, self.latest_image),
            DrainNodes: lambda request, _: drain_nodes(request, self.latest_image),
            AlterCredentials: lambda request, _: alter_credentials(request, self.latest_image, config),
            ElectLeaders: lambda request, _: elect_leaders(request, self.latest_image, replication),
        }

    @property
    def next_due_ms(self) -> int:
        """When there is something to do though nothing happens; now or earlier means as soon as others were served."""
        due_ms = min(self._balance.next_due_ms, self._followers.next_due_ms)
        return min(due_ms, self._replication.next_due_ms(self.latest_image)) if self._minds_sessions else due_ms

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event and return what it makes necessary, in order."""
        return self.handle_all((event,), now_ms)

    def handle_all(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        """Take the events of a turn, one after the other, and return what they make necessary, in order."""
        for event in events:
            try:
                self._handlers[type(event)](event, now_ms)
            except Exception as error:
                if not isinstance(event, GetMetadata | DescribeConfigs | ListReassignments):
                    raise
                self._fail(event, error)
        return self._end_turn()

    def _fail(self, request: Request, error: Exception) -> None:
        """Answer a request that has failed unexpectedly and has changed nothing, and have it noted."""
        self._say(RequestFailed(request, error))
        self._say(Respond(request, request.refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller failed at it")))

    def resign(self, error_code: ErrorCode) -> list[Effect]:
        """Answer all requests that wait: this controller decides no more, and what it decided may come to be."""
        for request in self._followers.take_waiting():
            self._say(Respond(request, request.refused(error_code)))
        self._runtime.close(self._shard, _outcome_unknown(error_code))
        return self._end_turn()

    def _end_turn(self) -> list[Effect]:
        said, appends = self._runtime.end_turn()
        effects = self._publish([each for each in said if isinstance(each, _Publish)])
        effects += [each for each in said if not isinstance(each, _Publish)]
        for append in appends:
            effects.append(LogChanges(append.position, tuple(change for _, change in append.records)))
        return effects

    def _publish(self, published: list[_Publish]) -> list[Effect]:
        if not published:
            return []
        self.image = published[-1].image
        return [*self._followers.tell([change for each in published for change in each.changes], self.image)]

    # Requests that may change something

    def _check_append(self, partition: int, epoch: int) -> ErrorCode:  # noqa: ARG002 - there is one log
        is_full = len(self._shard.held_back) > self._config.queued_requests_limit
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_full else _NONE

    def _on_request(self, request: Decidable, now_ms: int) -> None:
        refusal = self._runtime.refusal(self._shard)
        if refusal is _NONE:
            self._decide(request, now_ms)
        else:
            self._say(Respond(request, request.refused(refusal, "too many changes are under way; try again")))

    def _decide(self, request: Decidable, now_ms: int) -> None:
        if self._term > self.latest_image.term and not isinstance(request, RegisterNode):
            # On its own, so that what is decided next knows which version it leads to.
            self._change((), now_ms)
        if isinstance(request, RegisterNode | NodeBeat):
            self._carry(request, self._deciders[type(request)](request, now_ms), now_ms)
            return
        try:
            decision = self._deciders[type(request)](request, now_ms)
            decision.answer(self.latest_image.apply(decision.changes))
        except Exception as error:  # noqa: BLE001 - what clients ask for is decided without a change
            self._fail(request, error)
        else:
            self._carry(request, decision, now_ms)

    def _carry(self, request: Decidable, decision: Decision, now_ms: int) -> None:
        """Change what is decided, and answer when that is committed."""
        if isinstance(request, RegisterNode):
            self._look_for_those_ahead(request)
        if decision.changes:
            self._change(decision.changes, now_ms)
        for consequence in decision.consequences:
            self._runtime.say(self._shard, consequence)
        self._runtime.say(self._shard, Respond(request, decision.answer(self.latest_image)))

    def _look_for_those_ahead(self, request: RegisterNode) -> None:
        """Rule no more where a node knows more and no other voter can have it, or where most of the planned nodes do:
        what is decided here would undo what they know.
        """
        node_id, image = request.node.node_id, self.latest_image
        is_same_cluster = request.position.cluster_id in ("", image.cluster_id)
        if not is_same_cluster or image.includes(request.position):
            self._ahead.discard(node_id)
            return
        self._ahead.add(node_id)
        ahead = ", ".join(map(str, sorted(self._ahead)))
        if self._is_only_voter:
            who = f"node {node_id} knows"
        elif 2 * len(self._ahead) > len(image.plan):
            who = f"nodes {ahead}, most of those that are planned, know"
        else:
            return
        self._say(
            StopRuling(
                f"{who} more of the metadata than this log, which ends at {image.position}; it has lost some. Nothing "
                "is decided, and nothing was changed. Restore the metadata log from where it is whole, or stop the "
                "cluster and have `eagleray storage restore-metadata` make it again"
            )
        )

    def _change(self, changes: tuple[Change, ...], now_ms: int) -> None:
        if self._term > self.latest_image.term:
            changes = (TermBegan(self._term), *changes)
        if not self._minds_sessions:
            # Where another machine joins, the sessions of the nodes that are there begin with it.
            self._replication.renew_sessions(now_ms)
        for change in changes:
            self._runtime.append(self._shard, _NO_KEY, change)
        self.latest_image = self.latest_image.apply(changes)
        self._minds_sessions = has_several_machines(self.latest_image)
        self._replication.apply(changes, now_ms)
        self._runtime.say(self._shard, _Publish(changes, self.latest_image))

    def _say(self, said: _Said) -> None:
        self._runtime.say_at_once(said)

    # Followers, and time

    def _on_follow(self, request: FollowMetadata, now_ms: int) -> None:
        followed = self._followers.ask(request, self.image, now_ms)
        if followed is not None:
            self._say(followed)

    def _on_tick(self, event: Tick, now_ms: int) -> None:  # noqa: ARG002 - all handlers take their event
        self._balance.restore(self.latest_image, self._replication, now_ms)
        for expired in self._followers.expire(self.image, now_ms):
            self._say(expired)
        if not self._minds_sessions:
            self._replication.renew_sessions(now_ms)
            return
        ended = self._replication.tick(self.latest_image, now_ms)
        if ended:
            self._change(ended, now_ms)


def _outcome_unknown(error_code: ErrorCode) -> ErrorCode:
    """Return what to tell a request that was decided: NOT_CONTROLLER would say that nothing has been done."""
    return ErrorCode.REQUEST_TIMED_OUT if error_code is ErrorCode.NOT_CONTROLLER else error_code


def _refused(said: _Said, error_code: ErrorCode) -> _Said | None:
    """What takes the place of something that rests on changes which may be lost."""
    if not isinstance(said, Respond):
        return None
    return Respond(said.request, said.request.refused(error_code, "the metadata log may not have it; try again"))
