"""The controller against a small model, which resigns and dies with appends under way; nodes come and go."""

from __future__ import annotations

from collections import deque

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    Answer,
    CreateTopics,
    Decidable,
    DeleteTopics,
    FollowMetadata,
    GrowTopic,
    MetadataFollowed,
    NewTopic,
    NodeRegistered,
    PlanAnswered,
    PlanNodes,
    RegisterNode,
    StartNodes,
    TopicsAnswered,
)
from eagleray.broker.controller.metadata_queries import follow
from eagleray.broker.controller.placement import role_for
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.log_records import encode_changes
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import PLAN, SMALL, ControllerDriver, registration

NAMES = ("a.b", "a_b", "c")
FOLLOWERS = 2
CONFIG = msgspec.structs.replace(SMALL, metadata_changes_kept=4, queued_requests_limit=3, dedicated_nodes_limit=5)

names = st.sampled_from(NAMES)
counts = st.integers(1, 3)
settings = st.dictionaries(st.sampled_from(["retention.ms", "segment.ms"]), st.sampled_from(["1", "2", "x", None]))
roles = st.sampled_from([("leader",), ("coordinator",), ("groups",), ("leader", "coordinator", "groups")])
plans = st.dictionaries(st.integers(1, 4), roles, min_size=1)


class TopicsModel:
    """What topics there are, as far as requests that took effect can tell."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[int, dict[str, str]]] = {}

    def carry_out(self, request: Decidable) -> None:
        if isinstance(request, CreateTopics):
            (topic,) = request.topics
            assert topic.name not in self.topics
            self.topics[topic.name] = (topic.partitions, topic.configs)
        elif isinstance(request, DeleteTopics):
            del self.topics[request.names[0]]
        elif isinstance(request, GrowTopic):
            count, configs = self.topics[request.name]
            assert request.partitions > count
            self.topics[request.name] = (request.partitions, configs)
        elif isinstance(request, AlterTopicConfigs):
            count, configs = self.topics[request.name]
            changed = {key: text for key, text in (configs | request.changes).items() if text is not None}
            self.topics[request.name] = (count, changed)

    def explain(self, request: Decidable, code: ErrorCode) -> bool:
        """Whether a refusal has its reason in what there is."""
        if code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return request.topics[0].name in self.topics
        if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
            return request.topics[0].name != "c" and bool({"a.b", "a_b"} & set(self.topics))
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            name = request.names[0] if isinstance(request, DeleteTopics) else request.name
            return name not in self.topics
        if code is ErrorCode.INVALID_PARTITIONS:
            return request.partitions <= self.topics[request.name][0]
        return True


class ControllerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = ControllerDriver(CONFIG)
        self.driver.holds_appends = True
        self.model = TopicsModel()
        self.unanswered: dict[int, Decidable] = {}
        self.appended: deque[Decidable] = deque()
        """The requests whose changes are in the log and not committed, in the order of what the driver holds."""
        self.incarnations = 0
        self.history: dict[int, MetadataImage] = {0: EMPTY_IMAGE}
        self.followers = [EMPTY_IMAGE] * FOLLOWERS
        self.asking: dict[int, int] = {}
        self.leads_since: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        self.running: set[int] = set()
        self.is_supervised = False

    # What is sent, and what comes back

    def send(self, kind: type, *fields: object) -> None:
        request_id, appends = self.driver.next_request_id, len(self.driver.held)
        request = self.unanswered[request_id] = kind(request_id, *fields)
        self.driver.send(kind, *fields)
        self.appended += [request] * (len(self.driver.held) - appends)
        self.take_in()

    def take_in(self) -> None:
        """Let the model, supervision and the followers see everything that the controller has said since."""
        self.history.setdefault(self.driver.image.version, self.driver.image)
        for told in self.driver.supervision:
            if isinstance(told, StartNodes):
                self.running |= {node.node_id for node in told.nodes}
            else:
                self.running -= set(told.node_ids)
        self.driver.supervision.clear()
        answers, self.driver.answers = self.driver.answers, {}
        for request_id, answer in answers.items():
            if isinstance(answer, MetadataFollowed):
                self.see_followed(self.asking.pop(request_id), answer)
            else:
                self.see_answered(self.unanswered.pop(request_id), answer)

    def see_followed(self, follower: int, answer: MetadataFollowed) -> None:
        self.followers[follower] = follow(self.followers[follower], answer)
        assert self.followers[follower].version == answer.version
        assert self.followers[follower] == self.history[answer.version]

    def see_answered(self, request: Decidable, answer: Answer) -> None:
        code = answer.results[0].error_code if isinstance(answer, TopicsAnswered) else answer.error_code
        if code is ErrorCode.NONE:
            self.model.carry_out(request)
        else:
            assert code.is_retriable or self.model.explain(request, code)
        if isinstance(answer, NodeRegistered) and code is ErrorCode.NONE:
            assert answer.image.nodes[request.node.node_id] == request.node
            assert answer.image == self.history[answer.image.version], "a node sees what is committed"
        if isinstance(answer, PlanAnswered) and code is ErrorCode.NONE:
            self.running = {node.node_id for node in answer.nodes if node.dedicated_to is not None}
            self.is_supervised = True

    # Requests

    @rule(nodes=plans)
    def plan(self, nodes: dict[int, tuple[str, ...]]) -> None:
        self.send(PlanNodes, tuple(PlannedNode(node_id, roles) for node_id, roles in nodes.items()))

    @rule()
    def plan_as_usual(self) -> None:
        self.send(PlanNodes, PLAN)

    @precondition(lambda self: self.driver.image.plan)
    @rule(data=st.data(), is_new=st.booleans())
    def register(self, data: st.DataObject, is_new: bool) -> None:
        node = data.draw(st.sampled_from(sorted(self.driver.image.plan.values(), key=lambda node: node.node_id)))
        self.incarnations += is_new
        self.send(RegisterNode, registration(node, self.incarnations))

    @rule(name=names, count=counts, is_dedicated=st.booleans())
    def create(self, name: str, count: int, is_dedicated: bool) -> None:
        configs = {"leader.placement": "dedicated"} if is_dedicated else {}
        self.send(CreateTopics, (NewTopic(name, count, 1, configs),))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.send(DeleteTopics, (name,))

    @rule(name=names, count=counts)
    def grow(self, name: str, count: int) -> None:
        self.send(GrowTopic, name, count)

    @rule(name=names, changes=settings)
    def alter(self, name: str, changes: dict[str, str | None]) -> None:
        self.send(AlterTopicConfigs, name, changes)

    @rule(follower=st.integers(0, FOLLOWERS - 1), max_wait_ms=st.sampled_from([0, 100]))
    def follow_on(self, follower: int, max_wait_ms: int) -> None:
        if follower not in self.asking.values():
            self.asking[self.driver.next_request_id] = follower
            self.driver.send(FollowMetadata, self.followers[follower].version, max_wait_ms)
            self.take_in()

    # What happens to the controller

    @precondition(lambda self: self.driver.held)
    @rule()
    def committed(self) -> None:
        self.driver.commit_held()
        self.appended.popleft()
        self.take_in()

    @rule()
    def resigned(self) -> None:
        self.driver.lose_held()
        self.take_in()
        assert not self.unanswered, "all who waited are answered"
        assert not self.asking, "and all followers"
        self.appended.clear()
        self.is_supervised = False

    @rule()
    def time_passes(self) -> None:
        self.driver.tick(100)
        assert not self.asking.keys() - self.driver.answers.keys(), "nobody waits beyond the time"
        self.take_in()

    @rule(reaching=st.integers(0, 3))
    def controller_dies(self, reaching: int) -> None:
        """Of what is under way, so many appends come to be committed."""
        for append, request in [*zip(self.driver.held, self.appended, strict=True)][:reaching]:
            self.driver.batches.append(encode_changes(append.changes))
            self.model.carry_out(request)
        self.appended.clear()
        self.unanswered.clear()
        self.asking.clear()
        self.driver.restart()
        self.is_supervised = False
        self.take_in()

    # What is always so

    @invariant()
    def the_log_is_the_state(self) -> None:
        assert self.driver.replayed() == self.driver.image
        assert self.driver.image.version == max(self.history)
        held = (change for append in self.driver.held for change in append.changes)
        assert self.driver.image.apply(held) == self.driver.controller.latest_image

    @invariant()
    def topics_are_those_of_the_model(self) -> None:
        topics = self.driver.image.topics.values()
        known = {topic.name: (len(topic.partitions), topic.configs) for topic in topics if not topic.is_internal}
        assert known == self.model.topics
        for name, count in ((TRANSACTION_STATE, 4), (CONSUMER_OFFSETS, 3)):
            if name in self.driver.image.topics:
                assert len(self.driver.image.topics[name].partitions) == count

    @invariant()
    def every_partition_has_a_planned_leader_of_the_right_role(self) -> None:
        image, dedicated = self.driver.image, set()
        for partition in partitions_of(image):
            node = image.plan[image.leader_of(partition)]
            assert role_for(partition.topic) in node.roles
            is_dedicated = image.topics[partition.topic].configs.get("leader.placement") == "dedicated"
            assert node.dedicated_to == (partition if is_dedicated else None)
            dedicated |= {node.node_id} if is_dedicated else set()
        assert dedicated == {node.node_id for node in image.plan.values() if node.dedicated_to is not None}
        if self.is_supervised:
            assert self.running == dedicated

    @invariant()
    def epochs_and_versions_never_fall(self) -> None:
        versions = sorted(self.history)[-2:]
        before, after = self.history[versions[0]], self.history[versions[-1]]
        for partition in partitions_of(after):
            if before.topic_id(partition.topic) == after.topic_id(partition.topic) and before.find(partition):
                old, new = before.find(partition), after.find(partition)
                assert new.leader_epoch >= old.leader_epoch
                assert new.partition_epoch >= old.partition_epoch
                assert (new.leader == old.leader) or new.leader_epoch > old.leader_epoch

    @invariant()
    def an_epoch_has_one_leader_in_one_life_of_it(self) -> None:
        image = self.driver.image
        for partition in partitions_of(image):
            found = image.find(partition)
            if found.leader in image.nodes:
                claim = (image.topic_id(partition.topic), partition.partition, found.leader_epoch)
                leader = (found.leader, image.nodes[found.leader].incarnation)
                assert self.leads_since.setdefault(claim, leader) == leader


def partitions_of(image: MetadataImage) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, number) for topic in image.topics.values() for number in range(len(topic.partitions))
    ]


TestController = ControllerMachine.TestCase
