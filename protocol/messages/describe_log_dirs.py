"""DescribeLogDirs: shows the directories of a broker and how much each partition takes in them."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Int64, Message, Since, Wire, WireStruct


class DescribableLogDirTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class DescribeLogDirsRequest(Message, frozen=True):
    """Partitions to look for; null means all."""

    wire = Wire(api_key=35, versions=(1, 5), flexible_since=2)

    topics: tuple[DescribableLogDirTopic, ...] | None = ()


class DescribeLogDirsPartition(WireStruct, frozen=True):
    """How much one partition takes."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(WireStruct, frozen=True):
    """The partitions of one topic in a directory."""

    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(WireStruct, frozen=True):
    """One directory and the volume that it is on."""

    error_code: Int16 = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[Int64, Since(4), Ignorable()] = -1
    usable_bytes: Annotated[Int64, Since(4), Ignorable()] = -1
    is_cordoned: Annotated[bool, Since(5), Ignorable()] = False


class DescribeLogDirsResponse(Message, frozen=True):
    """The directories."""

    wire = Wire(api_key=35, versions=(1, 5), flexible_since=2)

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(3), Ignorable()] = 0
    results: tuple[DescribeLogDirsResult, ...] = ()
