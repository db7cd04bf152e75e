"""Groups of the new protocol with a log, a clock that one sets, and consumers that do what clients do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from eagleray.broker.groups.consumer.config import ConsumerGroupConfig
from eagleray.broker.groups.consumer.decisions import GroupDecision
from eagleray.broker.groups.consumer.group_table import ConsumerGroupTable
from eagleray.broker.groups.consumer.heartbeats import Client
from eagleray.broker.groups.consumer.member import Member
from eagleray.broker.groups.consumer.partitions import TopicIdPartition, by_topic, from_topics
from eagleray.broker.groups.consumer.records import Record
from eagleray.broker.groups.consumer.state import GroupState
from eagleray.broker.groups.consumer.topics import Topics
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GROUP = "billing"
CLIENT = Client("client-1", "/127.0.0.1")
START_MS = 1_000_000
REBALANCE_TIMEOUT_MS = 60_000
FENCING = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
"""After these a client has nothing any more, and all but the last make it join again."""


def topic_id(name: str, incarnation: int = 0) -> bytes:
    """Make up the id of a topic, which is another when it is created again."""
    return f"{name}#{incarnation}".encode().ljust(16, b".")[:16]


def parts(name: str, *numbers: int, incarnation: int = 0) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic_id(name, incarnation), number) for number in numbers)


def wire(partitions: Iterable[TopicIdPartition]) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id=topic, partitions=numbers) for topic, numbers in by_topic(partitions))


class GroupWorld:
    """The groups of one partition, and their log, which has everything unless it is told to lose something."""

    def __init__(self, topics: Mapping[str, int] | None = None, **config: object) -> None:
        self.config = ConsumerGroupConfig(**config)
        self.ids = (f"made-{number}" for number in count(1))
        self.groups = self.empty_groups()
        self.log: list[Record] = []
        self.now_ms = START_MS
        self.topics: dict[str, tuple[bytes, int]] = {}
        self.set_topics({"orders": 4} if topics is None else topics)

    def empty_groups(self) -> ConsumerGroupTable:
        return ConsumerGroupTable(self.config, lambda: next(self.ids))

    def set_topics(self, counts: Mapping[str, int], *, incarnation: int = 0) -> None:
        self.topics = {name: (topic_id(name, incarnation), partitions) for name, partitions in counts.items()}
        self.groups.take_topics(Topics(self.topics, self.now_ms))

    def restart(self) -> None:
        """Let a successor take over, with nothing but the log."""
        self.groups = self.empty_groups()
        self.groups.take_topics(Topics(self.topics, self.now_ms))
        self.groups.apply(self.log, self.now_ms)

    def settle(self, decision: GroupDecision) -> GroupDecision:
        self.log.extend(decision.records)
        self.groups.apply(decision.records, self.now_ms)
        return decision

    def decide(self, version: int = 1, **fields: object) -> GroupDecision:
        """Send a heartbeat, and leave what is to be logged to the caller."""
        request = ConsumerGroupHeartbeatRequest(**({"group_id": GROUP} | fields))
        return self.groups.heartbeat(request, version, CLIENT, self.now_ms)

    def send(self, version: int = 1, **fields: object) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, have what comes of it logged, and return the answer."""
        response = self.settle(self.decide(version, **fields)).response
        assert response is not None
        return response

    def join(self, member_id: str, /, *names: str, **fields: object) -> ConsumerGroupHeartbeatResponse:
        full = {
            "member_id": member_id,
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "subscribed_topic_names": names or ("orders",),
            "topic_partitions": (),
        }
        return self.send(**(full | fields))

    def pass_time(self, elapsed_ms: int) -> list[GroupDecision]:
        self.now_ms += elapsed_ms
        decisions = [self.groups.expire(group_id, self.now_ms) for group_id in [*self.groups.groups]]
        return [self.settle(decision) for decision in decisions if decision is not None]

    @property
    def state(self) -> GroupState:
        return self.groups.groups[GROUP].state

    def member(self, member_id: str) -> Member:
        return self.state.members[member_id]


class Consumer:
    """A client: it adopts what it is told, gives up what it is told to, and says so with its next heartbeat."""

    def __init__(self, world: GroupWorld, member_id: str, *names: str, **fields: object) -> None:
        self.world = world
        self.member_id = member_id
        self.fields = {"subscribed_topic_names": names or ("orders",)} | fields
        self.epoch = 0
        self.owned: frozenset[TopicIdPartition] = frozenset()
        self.to_give_up: frozenset[TopicIdPartition] = frozenset()
        self.is_full = True

    @property
    def held(self) -> frozenset[TopicIdPartition]:
        """All that it may be reading."""
        return self.owned | self.to_give_up

    def beat(self, *, loses_answer: bool = False, gives_up: bool = True) -> ErrorCode:
        """Send a heartbeat; it tells what it owns whenever that may be news."""
        fields: dict[str, object] = {"member_id": self.member_id, "member_epoch": self.epoch}
        if "instance_id" in self.fields:
            fields["instance_id"] = self.fields["instance_id"]
        if self.is_full:
            fields |= self.fields | {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS}
        if gives_up:
            self.to_give_up = frozenset()
        fields["topic_partitions"] = wire(self.held)
        response = self.world.send(**fields)
        # One that gets no answer, or a refusal, tells everything again: it cannot know what has arrived.
        self.is_full = loses_answer or response.error_code != ErrorCode.NONE
        if not loses_answer:
            self._take(response)
        return ErrorCode(response.error_code)

    def _take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code in FENCING:
            self.abandon()
        elif response.error_code == ErrorCode.NONE:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                told = from_topics(response.assignment.topic_partitions)
                self.to_give_up |= self.owned - told
                self.owned = told

    def subscribe(self, **fields: object) -> None:
        """Tell the coordinator something else with the next heartbeat."""
        self.fields |= fields
        self.is_full = True

    def abandon(self) -> None:
        """Begin again from nothing, as a fenced member does."""
        self.epoch = 0
        self.owned = self.to_give_up = frozenset()
        self.is_full = True

    def leave(self, epoch: int = -1) -> ErrorCode:
        fields = {"instance_id": self.fields.get("instance_id")}
        response = self.world.send(member_id=self.member_id, member_epoch=epoch, **fields)
        self.abandon()
        return ErrorCode(response.error_code)


def settle(*consumers: Consumer, rounds: int = 6) -> None:
    """Let every member heartbeat until nothing more comes of it."""
    for _ in range(rounds):
        for consumer in consumers:
            assert consumer.beat() is ErrorCode.NONE
