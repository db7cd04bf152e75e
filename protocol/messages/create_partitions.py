"""CreatePartitions: gives topics more partitions."""

from eagleray.protocol.messages.annotations import Int16, Int32, Message, Wire, WireStruct


class CreatePartitionsAssignment(WireStruct, frozen=True):
    """Where the replicas of one new partition go."""

    broker_ids: tuple[Int32, ...] = ()


class CreatePartitionsTopic(WireStruct, frozen=True):
    """A topic and how many partitions it shall have."""

    name: str = ""
    count: Int32 = 0
    assignments: tuple[CreatePartitionsAssignment, ...] | None = ()


class CreatePartitionsRequest(Message, frozen=True):
    """Topics to extend."""

    wire = Wire(api_key=37, versions=(0, 3), flexible_since=2)

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: Int32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(WireStruct, frozen=True):
    """The outcome for one topic."""

    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message, frozen=True):
    """The outcome for every topic."""

    wire = Wire(api_key=37, versions=(0, 3), flexible_since=2)

    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()
