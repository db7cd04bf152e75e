"""Records of classic groups in `__consumer_offsets`: a group's name as the key, its last generation as the value."""

from __future__ import annotations

from typing import Final

from eagleray.broker.groups.classic.events import MemberProtocol
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.members import Member
from eagleray.broker.groups.classic.states import GroupState
from eagleray.broker.groups.membership import LogRecord
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import MembersState
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.protocol.codec import decode_versioned, encode_versioned
from eagleray.protocol.messages.consumer_offsets import GroupMetadataKey, GroupMetadataValue, MemberMetadata

VALUE_VERSION: Final = 3
"""The newest version that every reader of today knows."""

RECORD_TYPE: Final = 2
assert GroupMetadataKey.wire.record_type == RECORD_TYPE


class ClassicState(MembersState):
    """What the log says of classic groups: the last generation of each."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupMetadataValue] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take one record. Raises UnsupportedVersion or MalformedMessage."""
        name = decode_versioned(GroupMetadataKey, key).group
        if value is None:
            self.groups.pop(name, None)
        else:
            self.groups[name] = decode_versioned(GroupMetadataValue, value)


def encode_group(group: ClassicGroup) -> LogRecord:
    """Give the record that keeps a generation with the assignments of its members. Raises UnencodableMessage."""
    members = tuple(_metadata_of(member, group.protocol_name) for member in group.members.values())
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms + group.shard.state.time_set_by_ms,
        members=members,
    )
    return encode_versioned(GroupMetadataKey(group=group.name)), encode_versioned(value, VALUE_VERSION)


def _metadata_of(member: Member, protocol: str | None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol) or b"",
        assignment=member.assignment,
    )


def revive(name: str, value: GroupMetadataValue, shard: Shard, deadlines: Deadlines[str], now_ms: int) -> ClassicGroup:
    """Make a live group of what the log says of it; the sessions of its members begin now."""
    group = ClassicGroup(name, shard, deadlines)
    group.is_logged = True
    group.generation = value.generation
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    group.state_since_ms = value.current_state_timestamp - shard.state.time_set_by_ms
    if value.members:
        group.state = group.previous_state = GroupState.STABLE
        group.leader = value.leader
    for metadata in value.members:
        member = _member_of(metadata, value.protocol or "")
        group.add(member, value.protocol_type)
        group.heard_of(member, now_ms)
    if group.members and group.leader not in group.members:
        group.leader = next(iter(group.members))
    return group


def _member_of(metadata: MemberMetadata, protocol: str) -> Member:
    # The oldest version of the value has no rebalance timeout, and means the session's.
    rebalance_timeout_ms = metadata.rebalance_timeout if metadata.rebalance_timeout >= 0 else metadata.session_timeout
    return Member(
        metadata.member_id,
        metadata.group_instance_id,
        metadata.client_id,
        metadata.client_host,
        (MemberProtocol(protocol, bytes(metadata.subscription)),),
        metadata.session_timeout,
        rebalance_timeout_ms,
        bytes(metadata.assignment),
    )
