"""Whether a partition's directory is that of the topic that it is opened for, by the two copies of what it says.

`partition.metadata` is Kafka's file, and has no checksum. The checkpoint has one, and two generations.
"""

from __future__ import annotations

import enum
from collections.abc import Container

import msgspec

from eagleray.broker.log.partition_metadata import decode_partition_metadata, encode_partition_metadata


class Claim(enum.Enum):
    """What is done with a directory that a partition is to be opened in."""

    OWN = enum.auto()
    REPAIR = enum.auto()
    """It is the partition's by its checkpoint, and the disk has changed `partition.metadata`, which is written anew."""

    DELETED = enum.auto()
    """It is that of a topic which the metadata log has deleted."""

    STRAY = enum.auto()
    """It is another's, or nothing says for certain whose it is. It is left as it is."""


class NotedIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint says of its directory."""

    topic_id: bytes
    """Empty where an earlier release has written it."""

    partition: int
    """-1 where an earlier release has written it."""

    is_certain: bool
    """Whether no generation of the checkpoint is damaged."""


def judge_claim(
    found: bytes | None,
    noted: NotedIdentity | None,
    topic_id: bytes,
    partition: int,
    deleted: Container[bytes],
) -> Claim:
    """Judge a directory by the bytes of its `partition.metadata`, where it has one, and by its checkpoint."""
    named = None if found is None else decode_partition_metadata(found)
    if noted is None or not noted.topic_id:
        return _by_name_alone(named, topic_id, deleted)
    is_of_partition = noted.partition in (partition, -1)
    if named is not None and named == noted.topic_id:
        if named == topic_id:
            return Claim.OWN if is_of_partition else Claim.STRAY
        return Claim.DELETED if named in deleted else Claim.STRAY
    is_ours = noted.topic_id == topic_id and noted.is_certain and is_of_partition
    # An id that differs in more than the disk changes by itself is that of another directory.
    is_rot = named is None or _differ_in_one_byte(found, encode_partition_metadata(topic_id))
    return Claim.REPAIR if is_ours and is_rot else Claim.STRAY


def _by_name_alone(named: bytes | None, topic_id: bytes, deleted: Container[bytes]) -> Claim:
    if named == topic_id:
        return Claim.OWN
    return Claim.DELETED if named is not None and named in deleted else Claim.STRAY


def _differ_in_one_byte(found: bytes | None, expected: bytes) -> bool:
    if found is None or len(found) != len(expected):
        return False
    return sum(one != other for one, other in zip(found, expected, strict=True)) == 1
