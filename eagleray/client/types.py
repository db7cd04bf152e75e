"""What applications hand to clients and get back from them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from eagleray.broker.groups.events import OffsetToCommit
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.records import Headers


class RecordMetadata(msgspec.Struct, frozen=True, gc=False):
    """Where a record was written. The offset is -1 where it is not known: without acks, or for an old repetition."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that was read, and where it was."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition as a name of its own, as `seek`, `commit` and `send_offsets` take it."""
        return TopicPartition(self.topic, self.partition)


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False):
    """The offset of the next record to read, with a text of the application beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(msgspec.Struct, frozen=True, gc=False):
    """A record that was found by its timestamp."""

    offset: int
    timestamp: int


class ConsumerGroupMetadata(msgspec.Struct, frozen=True):
    """A member of a group, by which the coordinator tells current members from those that it has lost."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def as_offset(offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Accept a number in the place of an offset with metadata."""
    return offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)


def as_bytes(data: bytes | str | bytearray | memoryview | None) -> bytes | None:
    """Accept text in the place of bytes; it is written as UTF-8."""
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"keys and values are bytes, text or None, not {type(data).__name__}")


def offsets_to_commit(offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> tuple[OffsetToCommit, ...]:
    """Put offsets into the words of a request."""
    wanted = ((partition, as_offset(offset)) for partition, offset in offsets.items())
    return tuple(OffsetToCommit(name, offset.offset, offset.leader_epoch, offset.metadata) for name, offset in wanted)
