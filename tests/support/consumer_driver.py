"""Members of KIP-848 groups at a coordinator with a real log, for tests: what they send, and what they are told."""

from __future__ import annotations

from eagleray.broker.groups.consumer.events import (
    ConsumerGroupDescribed,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswered,
    DescribeConsumerGroup,
    PartitionsOfTopic,
    TopicsKnown,
)
from eagleray.broker.groups.events import FetchOffsets
from eagleray.protocol.errors import ErrorCode
from tests.support.classic_groups import ClassicDriver
from tests.support.consumer_groups import REBALANCE_TIMEOUT_MS, topic_id
from tests.support.groups import GROUP

SESSION_MS = 45_000


def held(topic: str, *numbers: int) -> tuple[PartitionsOfTopic, ...]:
    """Partitions of one topic, as heartbeats have them."""
    return (PartitionsOfTopic(topic_id(topic), numbers),)


class ConsumerDriver(ClassicDriver):
    """A coordinator to which members of groups come, by either protocol."""

    def __init__(self, *args: object, **fields: object) -> None:
        self.topics = {"orders": 4}
        super().__init__(*args, **fields)

    def restart(self) -> None:
        super().restart()
        self.tell_topics(**self.topics)

    def tell_topics(self, **counts: int) -> None:
        self.topics = counts
        self.send(TopicsKnown({name: (topic_id(name), count) for name, count in counts.items()}, self.now_ms))

    # Members

    def enter(self, member_id: str, *topics: str, group: str = GROUP, **fields: object) -> int:
        """Send the heartbeat of a member that joins."""
        plausible = {
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "subscribed_topic_names": topics or ("orders",),
            "owned": (),
        }
        return self.stay(member_id, 0, group=group, **(plausible | fields))

    def stay(self, member_id: str, epoch: int, *, group: str = GROUP, **fields: object) -> int:
        client = {"client_id": "client", "client_host": "/127.0.0.1"}
        return self.request(ConsumerHeartbeat, group, member_id, epoch, **(client | fields))

    def leave_consumers(self, member_id: str, *, group: str = GROUP) -> int:
        return self.stay(member_id, -1, group=group)

    def entered(self, member_id: str, *topics: str, **fields: object) -> ConsumerHeartbeatAnswered:
        """Let a member join, with all that comes of it."""
        return self.settled(self.enter(member_id, *topics, **fields))

    def stayed(self, member_id: str, epoch: int, **fields: object) -> ConsumerHeartbeatAnswered:
        return self.settled(self.stay(member_id, epoch, **fields))

    def settled(self, request_id: int) -> ConsumerHeartbeatAnswered:
        self.settle()
        answer = self.replies[request_id]
        assert isinstance(answer, ConsumerHeartbeatAnswered)
        return answer

    # Questions

    def describe_consumers(self, group: str = GROUP) -> ConsumerGroupDescribed:
        answer = self.answer_to(self.request(DescribeConsumerGroup, group))
        assert isinstance(answer, ConsumerGroupDescribed)
        return answer

    def consumers(self, group: str = GROUP) -> dict[str, int]:
        """The members, and the epoch of each."""
        return {member.member_id: member.member_epoch for member in self.describe_consumers(group).members}

    def fetch_as(self, member_id: str | None, epoch: int) -> ErrorCode:
        return self.answer_to(self.request(FetchOffsets, GROUP, None, False, member_id, epoch)).error_code
