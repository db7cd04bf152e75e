"""Partitions by the id of their topic, as members and assignors see them, and by topic, as messages have them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeAlias


class TopicIdPartition(NamedTuple):
    """One partition of the topic with an id; a topic that is deleted and created again has another."""

    topic_id: bytes
    partition: int


Partitions: TypeAlias = frozenset[TopicIdPartition]
NO_PARTITIONS: Partitions = frozenset()


class OfTopic(Protocol):
    """What every message has that lists partitions by topic."""

    @property
    def topic_id(self) -> bytes:
        """The topic."""

    @property
    def partitions(self) -> tuple[int, ...]:
        """Its partitions."""


def by_topic(partitions: Iterable[TopicIdPartition]) -> list[tuple[bytes, tuple[int, ...]]]:
    """List the partitions of each topic, in an order that depends on nothing but themselves."""
    return [
        (topic_id, tuple(member.partition for member in members))
        for topic_id, members in groupby(sorted(partitions), key=attrgetter("topic_id"))
    ]


def from_topics(topics: Iterable[OfTopic]) -> Partitions:
    """Read the partitions of a message."""
    return frozenset(TopicIdPartition(topic.topic_id, partition) for topic in topics for partition in topic.partitions)
