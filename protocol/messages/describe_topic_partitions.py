"""DescribeTopicPartitions: pages through the partitions of topics."""

from eagleray.protocol.messages.annotations import ZERO_UUID, Int16, Int32, Message, Uuid, Wire, WireStruct


class TopicRequest(WireStruct, frozen=True):
    """A topic to page through."""

    name: str = ""


class Cursor(WireStruct, frozen=True):
    """Where a page begins."""

    topic_name: str = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(Message, frozen=True):
    """Topics, and where the page begins."""

    wire = Wire(api_key=75, versions=(0, 0), flexible_since=0)

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(WireStruct, frozen=True):
    """A partition with its leader and replicas."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    eligible_leader_replicas: tuple[Int32, ...] | None = None
    last_known_elr: tuple[Int32, ...] | None = None
    offline_replicas: tuple[Int32, ...] = ()


class DescribeTopicPartitionsResponseTopic(WireStruct, frozen=True):
    """A topic and its partitions."""

    error_code: Int16 = 0
    name: str | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = -0x80000000


class DescribeTopicPartitionsResponse(Message, frozen=True):
    """One page, and where the next begins."""

    wire = Wire(api_key=75, versions=(0, 0), flexible_since=0)

    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Cursor | None = None
