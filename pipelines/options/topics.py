"""Which partitions a query reads."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import INTERNAL_TOPICS
from eagleray.pipelines.options.errors import OptionError


class Subscribe(msgspec.Struct, frozen=True):
    """All partitions of some topics."""

    topics: tuple[str, ...]

    def choose(self, partition_counts: Mapping[str, int]) -> list[TopicPartition]:
        """Return the partitions to read of those topics that exist, in order."""
        return _all_partitions(partition_counts, [topic for topic in self.topics if topic in partition_counts])

    def missing(self, partition_counts: Mapping[str, int]) -> list[str]:
        """Return the names of what is to be read and does not exist."""
        return [topic for topic in self.topics if topic not in partition_counts]


class SubscribePattern(msgspec.Struct, frozen=True):
    """All partitions of all topics whose whole name matches, of those that come later, too.

    No pattern matches the broker's own, as with Kafka's consumers; `subscribe` and `assign` may name them.
    """

    pattern: str

    def choose(self, partition_counts: Mapping[str, int]) -> list[TopicPartition]:
        """Return the partitions to read of those topics that exist, in order."""
        matching = re.compile(self.pattern).fullmatch
        return _all_partitions(
            partition_counts, [topic for topic in partition_counts if matching(topic) and topic not in INTERNAL_TOPICS]
        )

    def missing(self, partition_counts: Mapping[str, int]) -> list[str]:  # noqa: ARG002
        """Return nothing: topics that match may come later."""
        return []


class Assign(msgspec.Struct, frozen=True):
    """Certain partitions."""

    partitions: tuple[TopicPartition, ...]

    def choose(self, partition_counts: Mapping[str, int]) -> list[TopicPartition]:
        """Return the partitions to read of those that exist, in order."""
        return sorted(each for each in self.partitions if each.partition < partition_counts.get(each.topic, 0))

    def missing(self, partition_counts: Mapping[str, int]) -> list[str]:
        """Return the names of what is to be read and does not exist."""
        return [str(each) for each in self.partitions if each.partition >= partition_counts.get(each.topic, 0)]


Selection = Subscribe | SubscribePattern | Assign


def partitions_to_read(selection: Selection, partition_counts: Mapping[str, int]) -> list[TopicPartition]:
    """Return the partitions that a query begins with, in order; raises OptionError for any that does not exist.

    A query that has begun asks `choose` instead: what is gone since then is a loss rather than a wrong option.
    """
    option = "assign" if isinstance(selection, Assign) else "subscribe"
    missing = selection.missing(partition_counts)
    if missing:
        existing = _all_partitions(partition_counts, list(partition_counts))
        known = [str(each) for each in existing] if isinstance(selection, Assign) else list(partition_counts)
        raise unknown_topic(option, missing, known)
    return selection.choose(partition_counts)


def unknown_topic(option: str, missing: Collection[str], known: Collection[str]) -> OptionError:
    """Return the error for an option that names what does not exist."""
    near = {name: difflib.get_close_matches(name, known, 1) for name in missing}
    hints = "".join(f" Did you mean {match[0]} by {name}?" for name, match in near.items() if match)
    return OptionError(
        f"{option} names {', '.join(missing)}, which the cluster does not have.{hints} Create it first, such as with "
        "`eagleray topic create`, or correct the option."
    )


def _all_partitions(partition_counts: Mapping[str, int], topics: list[str]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in sorted(topics) for number in range(partition_counts[topic])]
