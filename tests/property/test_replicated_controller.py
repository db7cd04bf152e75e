"""A controller of three machines: nodes that die and come back, in-sync sets, moves, plans, lost appends."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eagleray.broker.controller.elections import partitions_of
from eagleray.broker.controller.events import (
    CreateTopics,
    DeleteTopics,
    NewTopic,
    NodeRegistered,
    PlanNodes,
    ProducerIdsReserved,
    RegisterNode,
    ReserveProducerIds,
)
from eagleray.broker.controller.placement import role_for
from eagleray.broker.controller.replica_events import (
    ChangeIsr,
    DrainNodes,
    ElectLeaders,
    NodeBeat,
    NodeBeatAnswered,
    PartitionMove,
    ReassignPartitions,
)
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.log_records import encode_changes
from eagleray.broker.metadata.losses import EVERYTHING, NO_LOSS, Loss
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import BrokerHeartbeat, InSyncReplica, ProposeIsr, Resigned
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import MACHINES, SMALL, ControllerDriver, plan_of, registration

CONFIG = msgspec.structs.replace(
    SMALL,
    transaction_state_log_num_partitions=1,
    offsets_topic_num_partitions=1,
    leader_imbalance_check_interval_seconds=5,
    queued_requests_limit=3,
)
SESSION_MS = ReplicationConfig().broker_session_timeout_ms
NODES = [node.node_id for node in plan_of()]

names = st.sampled_from(["a", "b", "c"])
node_ids = st.sampled_from(NODES)
places = st.lists(st.sampled_from([node_id for node_id in NODES if node_id % 100 >= 30]), max_size=3)
plans = st.sampled_from(["abc", "abc", "ab", "bc", "a"])
some = st.lists(st.builds(TopicPartition, names, st.integers(0, 1)), max_size=2, unique=True).map(tuple)
losses = st.sampled_from([NO_LOSS, EVERYTHING]) | st.builds(Loss, some, some, st.booleans())


class ReplicatedController(RuleBasedStateMachine):
    """Whatever is asked and lost: no node leads that may not, and nothing in sync is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ControllerDriver(CONFIG)
        self.incarnations = dict.fromkeys(NODES, 0)
        self.given: list[tuple[int, int]] = []
        self.heard_ms: dict[tuple[int, int], int] = {}
        self.resigned: dict[int, set[Resigned]] = {}
        self.has_resigned: set[Resigned] = set()
        self.last = self.driver.image
        self.sent: dict[int, object] = {}

    @initialize()
    def begin(self) -> None:
        self.driver.plan(plan_of())
        for node_id in NODES:
            self.register(node_id, is_new=True, loss=NO_LOSS)
        self.create("a", 2, 3)
        self.create("b", 2, 2)
        self.create("c", 1, 1)

    def send(self, kind: type, *fields: object) -> None:
        self.sent[self.driver.next_request_id] = kind(self.driver.next_request_id, *fields)
        self.driver.send(kind, *fields)
        self.take_in()

    def take_in(self) -> None:
        answers, self.driver.answers = self.driver.answers, {}
        for request_id, answer in answers.items():
            request = self.sent.pop(request_id, None)
            if isinstance(answer, ProducerIdsReserved) and answer.error_code is ErrorCode.NONE:
                self.given.append((answer.first_id, answer.first_id + answer.count))
            elif isinstance(answer, NodeBeatAnswered):
                self.see_beat(request.heartbeat, answer)
            elif isinstance(answer, NodeRegistered) and answer.error_code is ErrorCode.STALE_BROKER_EPOCH:
                assert answer.known_incarnation >= request.node.incarnation

    def see_beat(self, beat: BrokerHeartbeat, answered: NodeBeatAnswered) -> None:
        answer = answered.answer
        assert (answer.node_id, answer.incarnation, answer.sent_ms) == (beat.node_id, beat.incarnation, beat.sent_ms)
        if answer.error_code is ErrorCode.NONE:
            assert self.driver.image.incarnations[beat.node_id] == beat.incarnation
            self.heard_ms[beat.node_id, beat.incarnation] = beat.sent_ms
            self.resigned[beat.node_id] = set(answer.resign)

    # Nodes

    @rule(node_id=node_ids, is_new=st.booleans(), loss=losses)
    def register(self, node_id: int, is_new: bool, loss: Loss) -> None:
        self.incarnations[node_id] += is_new
        node = next(node for node in plan_of() if node.node_id == node_id)
        self.send(RegisterNode, registration(node, self.incarnations[node_id]), loss)

    @rule(silent=st.sets(node_ids, max_size=4), elapsed_ms=st.sampled_from([500, 1000, SESSION_MS // 2]))
    def time_passes(self, silent: set[int], elapsed_ms: int) -> None:
        """The others are heard just before the time has come."""
        self.driver.now_ms += elapsed_ms
        for node_id in NODES:
            if node_id not in silent:
                self.send(NodeBeat, BrokerHeartbeat(node_id, self.incarnations[node_id], self.driver.now_ms))
        self.driver.tell(Tick())
        self.take_in()

    @rule(node_id=node_ids)
    def resign(self, node_id: int) -> None:
        resigned = tuple(self.resigned.pop(node_id, ()))
        self.has_resigned.update(resigned)
        self.send(NodeBeat, BrokerHeartbeat(node_id, self.incarnations[node_id], self.driver.now_ms, resigned))

    @precondition(lambda self: self.driver.image.topics)
    @rule(data=st.data())
    def propose(self, data: st.DataObject) -> None:
        partition, state, _ = data.draw(st.sampled_from(list(partitions_of(self.driver.image))))
        others = data.draw(st.sets(st.sampled_from(state.replicas)))
        isr = tuple(
            InSyncReplica(node_id, self.incarnations[node_id])
            for node_id in sorted({state.leader, *others} - {NO_NODE})
        )
        self.send(ChangeIsr, ProposeIsr(partition, state.leader, state.leader_epoch, state.partition_epoch, isr))

    # Others

    @rule(name=names, count=st.integers(1, 2), factor=st.integers(1, 3))
    def create(self, name: str, count: int, factor: int) -> None:
        self.send(CreateTopics, (NewTopic(name, count, factor, {"min.insync.replicas": str(min(factor, 2))}),))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.send(DeleteTopics, (name,))

    @rule(name=names, nodes=st.none() | places)
    def move(self, name: str, nodes: list[int] | None) -> None:
        target = None if nodes is None else tuple(nodes)
        self.send(ReassignPartitions, (PartitionMove(TopicPartition(name, 0), target),))

    @rule(machine=st.sampled_from(MACHINES), undo=st.booleans())
    def drain(self, machine: str, undo: bool) -> None:
        self.send(DrainNodes, machine, None, undo)

    @rule(is_unclean=st.booleans())
    def elect(self, is_unclean: bool) -> None:
        self.send(ElectLeaders, None, is_unclean)

    @rule(machines=plans, leaders=st.integers(1, 2))
    def plan(self, machines: str, leaders: int) -> None:
        self.send(PlanNodes, plan_of(machines, leaders))

    @rule(count=st.integers(1, 5))
    def reserve(self, count: int) -> None:
        self.send(ReserveProducerIds, count)

    # The log

    @rule()
    def slow(self) -> None:
        """The log takes its time from now on."""
        self.driver.holds_appends = True

    @precondition(lambda self: not self.driver.held)
    @rule()
    def fast(self) -> None:
        self.driver.holds_appends = False

    @precondition(lambda self: self.driver.held)
    @rule()
    def committed(self) -> None:
        self.driver.commit_held()
        self.take_in()

    @rule()
    def controller_resigns(self) -> None:
        self.driver.lose_held()
        self.take_in()
        assert not self.sent, "every client that waited is answered"

    @rule(reaching=st.integers(0, 3))
    def controller_dies(self, reaching: int) -> None:
        """Of what is under way, so many appends come to be committed."""
        for append in [*self.driver.held][:reaching]:
            self.driver.batches.append(encode_changes(append.changes))
            self.driver.restart()
            self.epochs_never_fall_and_leaders_change_with_them()
        self.sent.clear()
        self.driver.restart()

    # What is always so

    @invariant()
    def the_log_is_the_state(self) -> None:
        assert self.driver.replayed() == self.driver.image
        held = (change for append in self.driver.held for change in append.changes)
        assert self.driver.image.apply(held) == self.driver.controller.latest_image

    @invariant()
    def every_partition_is_sound(self) -> None:
        image = self.driver.image
        for partition, state, _ in partitions_of(image):
            assert state.leader in (*state.isr, NO_NODE)
            assert state.isr
            assert set(state.isr) <= set(state.replicas)
            assert len(set(state.replicas)) == len(state.replicas)
            assert set(state.adding) | set(state.removing) <= set(state.replicas)
            assert not set(state.adding) & set(state.removing)
            assert all(role_for(partition.topic) in image.plan[node_id].roles for node_id in state.replicas)
            machines = {image.plan[node_id].machine for node_id in state.replicas}
            assert len(machines) == len(state.replicas), "one replica to a machine"

    @invariant()
    def epochs_never_fall_and_leaders_change_with_them(self) -> None:
        before, after = self.last, self.driver.image
        self.last = after
        assert after.version >= before.version
        for partition, new, rules in partitions_of(after):
            old = before.find(partition)
            if old is None or before.topic_id(partition.topic) != after.topic_id(partition.topic):
                continue
            assert new.partition_epoch >= old.partition_epoch
            assert new.leader_epoch >= old.leader_epoch
            assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
            assert new.leader == old.leader or self.may_lose_leader(before, partition, old, new)
            least = min(rules.min_insync_replicas, len(new.replicas))
            assert len(new.isr) >= min(least, len(old.isr)) or self.has_changed_hands(before, old, new)

    def may_lose_leader(
        self, before: MetadataImage, partition: TopicPartition, old: PartitionImage, new: PartitionImage
    ) -> bool:
        """Whether a leader has no lease any more, has resigned, or its incarnation or its machine's lock is gone."""
        plan = self.driver.image.plan | before.plan
        if old.leader == NO_NODE or (new.leader != NO_NODE and plan[old.leader].machine == plan[new.leader].machine):
            return True
        incarnation = before.incarnations.get(old.leader)
        heard_ms = self.heard_ms.get((old.leader, incarnation))
        has_lease = heard_ms is not None and self.driver.now_ms - heard_ms < ReplicationConfig().leader_lease_ms
        is_over = self.driver.image.incarnations.get(old.leader, incarnation) != incarnation
        return not has_lease or is_over or Resigned(partition, old.leader_epoch) in self.has_resigned

    def has_changed_hands(self, before: MetadataImage, old: PartitionImage, new: PartitionImage) -> bool:
        """Whether replicas have lost what they had, or are gone for good: then those in sync may be fewer."""
        incarnations = self.driver.image.incarnations
        lost = {node_id for node_id in old.isr if incarnations.get(node_id) != before.incarnations.get(node_id)}
        return set(old.isr) - lost - set(new.isr) <= set(old.replicas) - set(new.replicas)

    @invariant()
    def lives_never_fall_while_a_node_is_planned(self) -> None:
        for node_id, registered in self.driver.image.nodes.items():
            assert self.driver.image.incarnations[node_id] == registered.incarnation
        assert set(self.driver.image.incarnations) <= set(self.driver.image.plan)
        assert set(self.driver.image.draining) <= set(self.driver.image.plan)

    @invariant()
    def producer_ids_are_given_once(self) -> None:
        for (_, end), (first, _) in zip(sorted(self.given), sorted(self.given)[1:], strict=False):
            assert end <= first


TestReplicatedController = ReplicatedController.TestCase
