"""The controller's side of replication: sessions, elections, in-sync sets and moves."""

from __future__ import annotations

from collections.abc import Iterable

from eagleray.broker.controller.broker_sessions import BrokerSessions
from eagleray.broker.controller.elections import after_coming, after_leaving, after_resigning, wants_preferred
from eagleray.broker.controller.events import RegisterNode
from eagleray.broker.controller.reassignment_progress import waits_for_leader
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import Change, NodeJoined, NodesLeft, NodesUnplanned
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.losses import NO_LOSS, Fate
from eagleray.broker.metadata.nodes import NodeRegistration
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import BrokerHeartbeat, BrokerHeartbeatAnswered, Resigned
from eagleray.broker.runtime.deadlines import AT_ONCE_MS
from eagleray.protocol.errors import ErrorCode


class ReplicationControl:
    """Decides which nodes are alive, which replicas lead, and which are in sync.

    Owns: the sessions, and which leaders it wants to hand over. Persists: nothing itself; what it decides takes effect
    with `apply`, and everything about partitions is decided by the metadata alone.
    A node whose session has ended is refused from that moment on, so that its lease cannot be renewed any more; it
    comes back in a new incarnation. A leader that lives is never replaced: it is asked to resign, and another is
    elected when it has, or when its session ends. After a restart: every registered node has as much of a session
    before it as a lease may last that it got a moment before.
    """

    def __init__(self, config: ReplicationConfig, image: MetadataImage, now_ms: int) -> None:
        self._sessions = BrokerSessions(config, image.nodes, now_ms)
        self._to_elect: set[TopicPartition] = set()
        self._doubtful: dict[int, tuple[int, int]] = {}

    def node_came(self, event: RegisterNode, image: MetadataImage, now_ms: int) -> tuple[Change, ...]:
        """Let a node begin an incarnation, and decide what becomes of its replicas; its session begins with `apply`.

        One that never came before has acknowledged nothing, and so cannot have lost it.
        """
        node_id = event.node.node_id
        if self.is_over(event.node, image) or self.has_to_wait(event, image, now_ms):
            return ()
        known, newest = image.nodes.get(node_id), image.incarnations.get(node_id)
        if newest == event.node.incarnation:
            # The same incarnation, which may listen elsewhere by now.
            self._sessions.hear(node_id, now_ms)
            return () if known == event.node else (NodeJoined(event.node),)
        loss = NO_LOSS if newest is None else event.loss
        self._doubtful.pop(node_id, None)
        return NodeJoined(event.node), *after_coming(image, node_id, loss)

    def has_to_wait(self, event: RegisterNode, image: MetadataImage, now_ms: int) -> bool:
        """Whether a node in doubt has to ask again, because a replica in sync with it is registered and may be dead.

        It is out where another is in that surely has everything, and so it matters who that is. A node that has lost
        its power together with this one, or its disk, looks alive until its session ends or it comes back and says
        what it has lost. So each of them has to be heard after this one has asked first.
        """
        node_id, incarnation = event.node.node_id, event.node.incarnation
        if not event.loss.in_doubt or image.incarnations.get(node_id) in (None, incarnation):
            return False
        asked = self._doubtful.get(node_id)
        if asked is None or asked[0] != incarnation:
            asked = self._doubtful[node_id] = incarnation, now_ms
        return any(
            member in image.nodes and not self._sessions.has_heard(member, asked[1])
            for partition in image.kept_by(node_id)
            if event.loss.of(partition) is Fate.IN_DOUBT and (state := image.find(partition)) and node_id in state.isr
            for member in state.isr
            if member != node_id
        )

    def is_over(self, node: NodeRegistration, image: MetadataImage) -> bool:
        """Whether a node registers in an incarnation that a newer one has replaced, or whose session has ended.

        Its registration may have been on its way for long; by now others lead, or its own next incarnation does.
        """
        newest = image.incarnations.get(node.node_id, node.incarnation - 1)
        if node.incarnation == newest:
            return node.node_id not in image.nodes or node.node_id not in self._sessions
        return node.incarnation < newest

    def apply(self, changes: Iterable[Change], now_ms: int) -> None:
        """Begin the sessions of nodes that are registered from now on, and end those of nodes that are not."""
        for change in changes:
            if isinstance(change, NodeJoined):
                self._sessions.begin(change.node.node_id, now_ms)
            elif isinstance(change, NodesLeft | NodesUnplanned):
                for node_id in change.node_ids:
                    self._sessions.end(node_id)

    def heartbeat(
        self, event: BrokerHeartbeat, image: MetadataImage, now_ms: int
    ) -> tuple[BrokerHeartbeatAnswered, tuple[Change, ...]]:
        """Take a sign of life, and what the node has resigned from; tell it from what it should resign."""
        if not self.hear(event, image, now_ms):
            return self._answer(event, ErrorCode.STALE_BROKER_EPOCH), ()
        changes: list[Change] = []
        for resigned in event.resigned:
            changes += after_resigning(image, resigned.partition, resigned.leader_epoch, event.node_id)
        version, resign = image.version + len(changes), self._to_resign(event.node_id, image)
        return self._answer(event, ErrorCode.NONE, version, resign), tuple(changes)

    def hear(self, event: BrokerHeartbeat, image: MetadataImage, now_ms: int) -> bool:
        """Take a heartbeat for a sign of life, if it is of an incarnation whose session lasts; say whether it is."""
        known = image.nodes.get(event.node_id)
        if event.node_id not in self._sessions or known is None or known.incarnation != event.incarnation:
            return False
        self._sessions.hear(event.node_id, now_ms)
        return True

    def tick(self, image: MetadataImage, now_ms: int) -> tuple[Change, ...]:
        """End the sessions of nodes that are silent, and have others lead what they led."""
        self._sessions.end_overdue(now_ms)
        gone = self._departed(image)
        return (NodesLeft(gone), *after_leaving(image, gone)) if gone else ()

    def next_due_ms(self, image: MetadataImage) -> int:
        """When a session may end; at once where the metadata do not say yet that one has ended."""
        return AT_ONCE_MS if self._departed(image) else self._sessions.next_due_ms

    def renew_sessions(self, now_ms: int) -> None:
        """Take all nodes for alive: there is no node to take over from them."""
        self._sessions.renew(now_ms)

    def _departed(self, image: MetadataImage) -> tuple[int, ...]:
        """Return the nodes whose sessions have ended, which the metadata do not say yet."""
        return tuple(sorted(node_id for node_id in image.nodes if node_id not in self._sessions))

    def elect_preferred(self, partition: TopicPartition, image: MetadataImage) -> ErrorCode:
        """Have the first replica lead a partition, as soon as the present leader has resigned."""
        state = image.find(partition)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if state.leader == state.replicas[0]:
            return ErrorCode.ELECTION_NOT_NEEDED
        if not wants_preferred(state, image.nodes):
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        self._to_elect.add(partition)
        return ErrorCode.NONE

    def _to_resign(self, node_id: int, image: MetadataImage) -> tuple[Resigned, ...]:
        """The partitions that a node leads and should hand over: for an election, or to complete a move."""
        self._to_elect = {
            partition
            for partition in self._to_elect
            if (state := image.find(partition)) is not None and wants_preferred(state, image.nodes)
        }
        handed = []
        for partition in image.led_by(node_id):
            state = image.find(partition)
            assert state is not None
            if partition in self._to_elect or waits_for_leader(state):
                handed.append(Resigned(partition, state.leader_epoch))
        return tuple(handed)

    def _answer(
        self, event: BrokerHeartbeat, error_code: ErrorCode, version: int = -1, resign: tuple[Resigned, ...] = ()
    ) -> BrokerHeartbeatAnswered:
        return BrokerHeartbeatAnswered(event.node_id, event.incarnation, event.sent_ms, error_code, version, resign)
