"""Records of `__consumer_offsets`: the log from which a group coordinator recovers.

Before a key stands its record type, before a value its version, two bytes each. A null value is a tombstone.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int32,
    Int64,
    Message,
    Since,
    Tagged,
    Until,
    Uuid,
    Wire,
    WireStruct,
)


class OffsetCommitKey(Message, frozen=True):
    """The group and partition that an offset is about."""

    wire = Wire(record_type=1, versions=(0, 0))

    group: str = ""
    topic: str = ""
    partition: Int32 = 0


class OffsetCommitValue(Message, frozen=True):
    """A committed offset."""

    wire = Wire(versions=(0, 4), flexible_since=4)

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, Since(3), Ignorable()] = -1
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, Since(1), Until(1), Ignorable()] = -1
    topic_id: Annotated[Uuid, Since(4), Tagged(0), Ignorable()] = ZERO_UUID


class GroupMetadataKey(Message, frozen=True):
    """The group that a generation is about."""

    wire = Wire(record_type=2, versions=(0, 0))

    group: str = ""


class MemberMetadata(WireStruct, frozen=True):
    """A member of the generation."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(3), Ignorable()] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[Int32, Since(1), Ignorable()] = -1
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(Message, frozen=True):
    """A generation of a classic group."""

    wire = Wire(versions=(0, 4), flexible_since=4)

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: Annotated[Int64, Since(2), Ignorable()] = -1
    members: tuple[MemberMetadata, ...] = ()
