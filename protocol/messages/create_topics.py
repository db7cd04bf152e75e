"""CreateTopics: creates topics."""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int8,
    Int16,
    Int32,
    Message,
    Since,
    Tagged,
    Uuid,
    Wire,
    WireStruct,
)


class CreatableReplicaAssignment(WireStruct, frozen=True):
    """Where the replicas of one partition go."""

    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


class CreatableTopicConfig(WireStruct, frozen=True):
    """A setting of the new topic."""

    name: str = ""
    value: str | None = ""


class CreatableTopic(WireStruct, frozen=True):
    """A topic to create."""

    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreateTopicsRequest(Message, frozen=True):
    """Topics to create."""

    wire = Wire(api_key=19, versions=(2, 7), flexible_since=5)

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: bool = False


class CreatableTopicConfigs(WireStruct, frozen=True):
    """A setting of the created topic and where it comes from."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(WireStruct, frozen=True):
    """The outcome for one topic."""

    name: str = ""
    topic_id: Annotated[Uuid, Since(7), Ignorable()] = ZERO_UUID
    error_code: Int16 = 0
    error_message: str | None = ""
    topic_config_error_code: Annotated[Int16, Since(5), Tagged(0), Ignorable()] = 0
    num_partitions: Annotated[Int32, Since(5), Ignorable()] = -1
    replication_factor: Annotated[Int16, Since(5), Ignorable()] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, Since(5), Ignorable()] = ()


class CreateTopicsResponse(Message, frozen=True):
    """The outcome for every topic."""

    wire = Wire(api_key=19, versions=(2, 7), flexible_since=5)

    throttle_time_ms: Int32 = 0
    topics: tuple[CreatableTopicResult, ...] = ()
