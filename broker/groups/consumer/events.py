"""What members of KIP-848 groups tell, what admins ask about them, and what both are answered.

The fields are those of Kafka's requests and responses at their newest versions.
"""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.groups.membership import NO_MEMBER
from eagleray.broker.limits import Int32, PartitionNumber, RecordText
from eagleray.broker.messages import Message, RequestOf
from eagleray.protocol.errors import ErrorCode

NOT_GIVEN_MS = -1


class PartitionsOfTopic(Message, frozen=True):
    """Partitions of the topic with an id."""

    topic_id: bytes
    partitions: tuple[PartitionNumber, ...]


class ConsumerHeartbeat(RequestOf["ConsumerHeartbeatAnswered"], frozen=True, tag="ConsumerHeartbeat"):
    """A member joins with epoch 0, stays, or leaves with -1, or with -2 as a static member that comes back.

    What is None has not changed since its last heartbeat.
    """

    group: RecordText
    member_id: RecordText
    member_epoch: Int32
    instance_id: RecordText | None = None
    rack_id: RecordText | None = None
    rebalance_timeout_ms: Int32 = NOT_GIVEN_MS
    subscribed_topic_names: tuple[RecordText, ...] | None = None
    subscribed_topic_regex: RecordText | None = None
    server_assignor: RecordText | None = None
    owned: tuple[PartitionsOfTopic, ...] | None = None
    client_id: RecordText = ""
    client_host: RecordText = ""
    brings_member_id: bool = True
    """Whether a client that joins has to have made an id for itself; from version 1 on."""


class ConsumerHeartbeatAnswered(Message, frozen=True, tag="ConsumerHeartbeatAnswered"):
    """The answer to `ConsumerHeartbeat`, which counts: the log has all that it tells."""

    request_id: int
    error_code: ErrorCode
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[PartitionsOfTopic, ...] | None = None
    """What the member is to own, where that is news."""


class DescribeConsumerGroup(RequestOf["ConsumerGroupDescribed"], frozen=True, tag="DescribeConsumerGroup"):
    """A client wants to see a group and its members."""

    group: RecordText


class NamedPartitions(Message, frozen=True):
    """Partitions of a topic, with its id and its name."""

    topic_id: bytes
    topic: str
    partitions: tuple[int, ...]


class DescribedConsumer(Message, frozen=True):
    """A member as an admin sees it, with what it has and what it shall have."""

    member_id: str = NO_MEMBER
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: tuple[NamedPartitions, ...] = ()
    target_assignment: tuple[NamedPartitions, ...] = ()
    member_type: int = -1


class ConsumerGroupDescribed(Message, frozen=True, tag="ConsumerGroupDescribed"):
    """The answer to `DescribeConsumerGroup`; a group that is not there, or is of another kind, is not found."""

    request_id: int
    error_code: ErrorCode
    message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


class TopicsKnown(Message, frozen=True, tag=True):
    """These are the topics that there are now, each with its id and how many partitions it has."""

    topics: dict[str, tuple[bytes, int]]
    version: int
    """How new that is; it never falls."""


ConsumerRequest: TypeAlias = ConsumerHeartbeat | DescribeConsumerGroup
ConsumerReply: TypeAlias = ConsumerHeartbeatAnswered | ConsumerGroupDescribed
