"""ListPartitionReassignments: lists the partitions whose replicas are being moved."""

from eagleray.protocol.messages.annotations import Int16, Int32, Message, Wire, WireStruct


class ListPartitionReassignmentsTopics(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class ListPartitionReassignmentsRequest(Message, frozen=True):
    """Partitions to look at; null means all."""

    wire = Wire(api_key=46, versions=(0, 0), flexible_since=0)

    timeout_ms: Int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class OngoingPartitionReassignment(WireStruct, frozen=True):
    """A partition on the move: its replicas now, those to come and those to go."""

    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


class OngoingTopicReassignment(WireStruct, frozen=True):
    """The partitions of one topic that are on the move."""

    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(Message, frozen=True):
    """Everything that is on the move."""

    wire = Wire(api_key=46, versions=(0, 0), flexible_since=0)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()
