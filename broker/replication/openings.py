"""Which logs of a node are to be opened off the loop: in which order, and how many at a time."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from eagleray.broker.identities import TopicPartition


class Urgency(enum.IntEnum):
    """What waits for a log; the smaller number goes first."""

    ASKED_FOR = enum.auto()
    """A client or a coordinator has asked for the partition."""

    LED = enum.auto()
    """This node leads the partition, so that a client may ask for it at any time."""

    FOLLOWED = enum.auto()
    """Another node leads the partition."""


class NextOpening(NamedTuple):
    """A log that is to be opened now."""

    partition: TopicPartition
    topic_id: bytes


class Openings:
    """The logs that wait to be opened, and those that are being opened.

    Owns: for each the id of the topic that it is opened for. No log is opened twice at a time: where a topic was
    deleted, and another one has its name, the log of the new one waits until the opening of the old one has ended. An
    opening under way cannot be stopped; whether there is still use for its log is asked when it ends.
    """

    def __init__(self, most_at_once: int) -> None:
        self._most_at_once = most_at_once
        self._waiting: dict[Urgency, dict[TopicPartition, bytes]] = {urgency: {} for urgency in Urgency}
        self._under_way: dict[TopicPartition, bytes] = {}
        self._is_closed = False

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._under_way or self._urgency_of(partition) is not None

    def __len__(self) -> int:
        return len(self._under_way) + sum(map(len, self._waiting.values()))

    def want(self, partition: TopicPartition, topic_id: bytes, urgency: Urgency) -> None:
        """Have a log opened as soon as others that are more urgent are open; one that waits becomes no less urgent."""
        if self._is_closed or self._under_way.get(partition) == topic_id:
            return
        known = self._urgency_of(partition)
        if known is not None:
            urgency = min(urgency, known)
            if urgency is not known:
                del self._waiting[known][partition]
        self._waiting[urgency][partition] = topic_id

    def asked_for(self, partition: TopicPartition) -> None:
        """Open a log before others, if it waits."""
        urgency = self._urgency_of(partition)
        if urgency is not None:
            self.want(partition, self._waiting[urgency][partition], Urgency.ASKED_FOR)

    def keep_only(self, topic_ids: Mapping[TopicPartition, bytes]) -> None:
        """Forget the logs that wait and that the node keeps no longer, or keeps for another topic of the same name."""
        for urgency, waiting in self._waiting.items():
            self._waiting[urgency] = {
                partition: topic_id for partition, topic_id in waiting.items() if topic_ids.get(partition) == topic_id
            }

    def take(self) -> NextOpening | None:
        """Begin with the most urgent log; None where none waits that may be opened now."""
        if len(self._under_way) >= self._most_at_once:
            return None
        for waiting in self._waiting.values():
            for partition, topic_id in waiting.items():
                if partition not in self._under_way:
                    self._under_way[partition] = waiting.pop(partition)
                    return NextOpening(partition, topic_id)
        return None

    def is_of_use(self, partition: TopicPartition, topic_id: bytes | None) -> bool:
        """Whether there is use for a log that was being opened, where the node keeps it now for this topic, or none."""
        return not self._is_closed and topic_id is not None and self._under_way[partition] == topic_id

    def ended(self, partition: TopicPartition) -> None:
        """Note that an opening has ended, whatever has come of it, and that nothing of it is open any more or its log
        has an owner.
        """
        del self._under_way[partition]

    def close(self) -> None:
        """Open nothing more."""
        self._is_closed = True
        for waiting in self._waiting.values():
            waiting.clear()

    def _urgency_of(self, partition: TopicPartition) -> Urgency | None:
        return next((urgency for urgency, waiting in self._waiting.items() if partition in waiting), None)
