"""Records of `__consumer_offsets`: a group and a partition as the key, an offset as the value, in Kafka's own format.

Keys and the values that are written today have one shape, which is packed and unpacked here in one go, because every
commit writes one of each and a recovery reads all there are; the codec reads the versions that others have left.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Packing
from typing import Final

from msgspec.structs import replace

from eagleray.broker.groups.events import OffsetToCommit
from eagleray.broker.groups.state import NO_TIME, OffsetsState, StoredOffset
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.codec import decode_message, decode_versioned, read_prefix
from eagleray.protocol.messages.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from eagleray.protocol.records import Record, RecordBatch

VALUE_VERSION: Final = 3
"""The newest version that every reader of today knows."""

_KEY_TYPE: Final = OffsetCommitKey.wire.record_type
_OFFSET_KEYS: Final = frozenset({0, 1})
"""Kafka has given keys of the same shape two numbers."""

_KEY_HEAD = Packing(">hh")
_LENGTH = Packing(">h")
_PARTITION = Packing(">i")
_VALUE_HEAD = Packing(">hqih")
_TIME = Packing(">q")


def encode_key(group: str, partition: TopicPartition) -> bytes:
    """Give the key under which a group's offset for a partition is kept. Raises struct.error for what does not fit."""
    name, topic = group.encode(), partition.topic.encode()
    head = _KEY_HEAD.pack(_KEY_TYPE, len(name))
    return b"".join((head, name, _LENGTH.pack(len(topic)), topic, _PARTITION.pack(partition.partition)))


def decode_key(key: bytes) -> tuple[str, TopicPartition] | None:
    """Read a group and a partition, or None from a key that is about something else.

    Raises MalformedMessage.
    """
    if read_prefix(key) not in _OFFSET_KEYS:
        return None
    message = decode_message(OffsetCommitKey, 0, key[_LENGTH.size :])
    return message.group, TopicPartition(message.topic, message.partition)


def encode_value(offset: OffsetToCommit, now_ms: int) -> bytes:
    """Give the value that keeps an offset. Raises struct.error for what does not fit."""
    metadata = offset.metadata.encode()
    head = _VALUE_HEAD.pack(VALUE_VERSION, offset.offset, offset.leader_epoch, len(metadata))
    return head + metadata + _TIME.pack(now_ms)


def decode_value(value: bytes, position: int) -> StoredOffset:
    """Read an offset that stands at a position of the log. Raises UnsupportedVersion or MalformedMessage."""
    size = _VALUE_HEAD.size
    if len(value) == size + _TIME.size:
        version, offset, leader_epoch, length = _VALUE_HEAD.unpack_from(value)
        if version == VALUE_VERSION and not length:
            return StoredOffset(offset, leader_epoch, "", _TIME.unpack_from(value, size)[0], position)
    message = decode_versioned(OffsetCommitValue, value)
    return StoredOffset(
        message.offset,
        message.leader_epoch,
        message.metadata,
        message.commit_timestamp,
        position,
        message.expire_timestamp,
    )


def replay(batches: Iterable[RecordBatch], state: OffsetsState | None = None) -> OffsetsState:
    """Give what a log comes to, read from its beginning to its end, uncommitted transactions and markers included.

    Offsets whose marker is not there are pending in what comes out. Keys that are not about offsets go to the
    protocol that is registered for their type in the state to begin with; others are skipped, for a newer version has
    left them.
    """
    state = OffsetsState() if state is None else state
    for batch in batches:
        if batch.header.is_control:
            _replay_marker(state, batch)
        else:
            _replay_records(state, batch)
        state.next_position = batch.header.next_offset
    return state


def _replay_marker(state: OffsetsState, batch: RecordBatch) -> None:
    header = batch.header
    # Compaction leaves a marker's batch empty once nothing is left of the transaction that it ended.
    marker = batch.end_transaction_marker() if header.record_count else None
    if marker is not None:
        state.end_transaction(header.producer_id, commit=marker.commit)


def _replay_records(state: OffsetsState, batch: RecordBatch) -> None:
    producer_id = batch.header.producer_id if batch.header.is_transactional else None
    for record in batch.records():
        apply_record(state, producer_id, record)


def apply_record(state: OffsetsState, producer_id: int | None, record: Record) -> None:
    """Take one record that is in the log, written in a producer's transaction or outside of any."""
    if record.key is None:
        return
    place = decode_key(record.key)
    if place is None:
        apply_members(state, record.key, record.value)
    else:
        offset = None if record.value is None else decode_value(record.value, record.offset)
        if offset is not None and state.time_set_by_ms:
            offset = _by_running_time(offset, state.time_set_by_ms)
        apply_change(state, producer_id, *place, offset)


def _by_running_time(offset: StoredOffset, set_by_ms: int) -> StoredOffset:
    expires_ms = offset.expires_ms if offset.expires_ms == NO_TIME else offset.expires_ms - set_by_ms
    return replace(offset, committed_ms=offset.committed_ms - set_by_ms, expires_ms=expires_ms)


def apply_members(state: OffsetsState, key: bytes, value: bytes | None) -> None:
    """Take a record about members that is in the log; the live coordinator does it by this as well."""
    members = state.members.get(read_prefix(key))
    if members is not None:
        members.apply(key, value)


def apply_change(
    state: OffsetsState,
    producer_id: int | None,
    group: str,
    partition: TopicPartition,
    offset: StoredOffset | None,
) -> None:
    """Take an offset, or for None a tombstone, that is in the log; the live coordinator does it by this as well."""
    if offset is None:
        state.remove(group, partition)
    elif producer_id is None:
        state.commit(group, partition, offset)
    else:
        state.commit_in_transaction(producer_id, group, partition, offset)
