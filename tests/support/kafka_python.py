"""kafka-python's own messages, and our messages turned into them."""

import uuid
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagleray.protocol.messages.annotations import ZERO_UUID, Message, WireStruct

with warnings.catch_warnings():
    # It reads its definitions in a way that newer Pythons frown upon.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.protocol.admin
    import kafka.protocol.api_header
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl

DEFINITIONS = Path(kafka.__file__).parent / "protocol" / "schemas" / "resources"

_MODULES = (
    kafka.protocol.admin,
    kafka.protocol.api_header,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)

# Fields that kafka-python calls by another name than the definitions, or that it has under an older name.
RENAMED = {
    "MetadataResponse": {"authorized_operations": "cluster_authorized_operations"},
    "MetadataResponseTopic": {"authorized_operations": "topic_authorized_operations"},
    "DescribeClusterResponse": {"authorized_operations": "cluster_authorized_operations"},
    "TxnOffsetCommitRequest": {"generation_id": "generation_id_or_member_epoch"},
}


def class_of(message: type[Message]) -> Any:
    """Give kafka-python's class for a message, or None if it has none."""
    classes = (getattr(module, message.__name__, None) for module in _MODULES)
    return next((candidate for candidate in classes if candidate is not None), None)


def to_theirs(value: WireStruct, data_class: Any, version: int) -> Any:
    """Turn a message into kafka-python's, with all the fields that the version has."""
    fields: Mapping[str, Any] = data_class._struct.fields
    return build(value, data_class, fields, version)


def build(value: WireStruct, data_class: Any, fields: Mapping[str, Any], version: int) -> Any:
    names = RENAMED.get(type(value).__name__, {})
    arguments = {
        name: convert(getattr(value, names.get(name, name)), field, version)
        for name, field in fields.items()
        if field.for_version_q(version)
    }
    return data_class(version=version, **arguments)


def convert(value: Any, field: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_struct_array():
        return [build(element, field.data_class, field.fields, version) for element in value]
    if field.is_struct():
        is_left_out = field.tagged_field_q(version) and value == type(value)()
        return None if is_left_out else build(value, field.data_class, field.fields, version)
    if field.is_array():
        return list(value)
    if field.type_str == "uuid":
        return None if value == ZERO_UUID else uuid.UUID(bytes=value)
    if field.type_str == "bitfield":
        return None if value == -(1 << 31) else {bit for bit in range(32) if value >> bit & 1}
    return value
