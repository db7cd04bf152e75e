"""Records of the coordinators' logs as JSON, in the form in which Kafka's DumpLogSegments prints them."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any, Final

import msgspec

from eagleray.broker.groups.consumer import records as consumer_records
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.protocol.codec import decode_message, decode_versioned, read_prefix
from eagleray.protocol.codec.schema import FieldSchema, fields_of
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.messages.annotations import Message, WireStruct
from eagleray.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from eagleray.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from eagleray.protocol.messages.transaction_log import TransactionLogKey, TransactionLogValue

_TOMBSTONE: Final = "<DELETE>"
_OFFSETS: Final[dict[int, tuple[type[Message], type[Message]]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    **consumer_records.MESSAGES,
}
_TRANSACTIONS: Final[dict[int, tuple[type[Message], type[Message]]]] = {0: (TransactionLogKey, TransactionLogValue)}
KINDS: Final = {TRANSACTION_STATE: _TRANSACTIONS, CONSUMER_OFFSETS: _OFFSETS}
"""What the records of an internal topic are, by the number before each key."""

_PREFIX_BYTES: Final = 2


def decoder_for(partition: TopicPartition | None) -> str:
    """The decoder for the records of a partition: the name of its internal topic, or none."""
    topic = "" if partition is None else partition.topic
    return topic if topic in {*KINDS, CLUSTER_METADATA} else ""


def describe_record(topic: str, key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Return key and payload of a record of an internal topic as text."""
    if key is None or len(key) < _PREFIX_BYTES:
        return f"unknown::{_hex(key)}", _hex(value)
    number = read_prefix(key)
    found = KINDS[topic].get(number)
    if found is None:
        return f"unknown::type={number}", _hex(value)
    key_type, value_type = found
    try:
        # Kafka has given keys of the same shape two numbers.
        key_text = _text({"type": str(number), "data": _as_json(decode_message(key_type, 0, key[_PREFIX_BYTES:]), 0)})
        return key_text, _TOMBSTONE if value is None else _describe_value(value_type, value)
    except ProtocolError as error:
        return f"Error at decoding: {error}", _hex(value)


def _describe_value(value_type: type[Message], value: bytes) -> str:
    version = read_prefix(value)
    decoded = decode_versioned(value_type, value)
    data = _as_json(decoded, version)
    if isinstance(decoded, GroupMetadataValue):
        for member, described in zip(decoded.members, data["members"], strict=True):
            _describe_member(described, "subscription", member.subscription, ConsumerProtocolSubscription)
            _describe_member(described, "assignment", member.assignment, ConsumerProtocolAssignment)
    return _text({"version": str(version), "data": data})


def _describe_member(described: dict[str, Any], name: str, data: bytes, kind: type[Message]) -> None:
    """Put what members have told each other in the place of its bytes, where it is in the consumers' protocol."""
    with suppress(ProtocolError):
        described[name] = _as_json(decode_versioned(kind, data), read_prefix(data))


def _as_json(struct: WireStruct, version: int) -> dict[str, Any]:
    """Return the fields that a version has; a tagged one only if it is not what it is where it is absent."""
    return {
        _camel(field.name): _value(field, getattr(struct, field.name), version)
        for field in fields_of(type(struct))
        if field.is_in(version) and (field.tag is None or getattr(struct, field.name) != field.default)
    }


def _value(field: FieldSchema, value: object, version: int) -> object:
    if isinstance(value, tuple | list):
        return [_value(field, each, version) for each in value]
    if isinstance(value, WireStruct):
        return _as_json(value, version)
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    if field.type.name == "uuid":
        return base64.urlsafe_b64encode(bytes(value)).decode().rstrip("=")
    return base64.b64encode(bytes(value)).decode()


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _text(content: dict[str, Any]) -> str:
    return msgspec.json.encode(content).decode()


def _hex(data: bytes | None) -> str:
    return "" if data is None else data.hex()
