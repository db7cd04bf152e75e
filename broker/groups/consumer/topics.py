"""The topics that there are, as far as groups are concerned: ids and how many partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from eagleray.broker.groups.consumer.partitions import TopicIdPartition
from eagleray.broker.identities import TopicPartition
from eagleray.broker.patterns import matching

NO_TOPICS_HASH: Final = 0
_HASH_BYTES = 8


class Topics:
    """What the metadata says at one moment; another moment has another object, so that `is` tells them apart."""

    __slots__ = ("_matching", "_names", "by_name", "version")

    def __init__(self, by_name: Mapping[str, tuple[bytes, int]], version: int = 0) -> None:
        self.by_name = dict(by_name)
        """The id and the number of partitions of each topic."""
        self.version = version
        """How new the metadata are; it is noted beside what regular expressions are found to stand for."""
        self._matching: dict[str, frozenset[str]] = {}
        self._names = {topic_id: name for name, (topic_id, _) in self.by_name.items()}

    def ids_of(self, names: Iterable[str]) -> frozenset[bytes]:
        """Return the ids of those topics that exist."""
        return frozenset(self.by_name[name][0] for name in names if name in self.by_name)

    def identify(self, partition: TopicPartition) -> TopicIdPartition | None:
        """Return a partition by the id of its topic, unless there is no such topic."""
        found = self.by_name.get(partition.topic)
        return None if found is None else TopicIdPartition(found[0], partition.partition)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, unless it is gone."""
        return self._names.get(topic_id)

    def partition_counts(self, names: Iterable[str]) -> dict[bytes, int]:
        """Return how many partitions each of the topics has, leaving out those that do not exist."""
        return dict(self.by_name[name] for name in names if name in self.by_name)

    def matching(self, regex: str) -> frozenset[str]:
        """Return the topics that a regular expression stands for; it is found out once."""
        found = self._matching.get(regex)
        if found is None:
            found = self._matching[regex] = matching(regex, self.by_name)
        return found

    def hash_of(self, names: Iterable[str]) -> int:
        """Give a number that changes when one of these topics is created, grown or deleted.

        It stays in the log, so it may depend on nothing that another process would see in another way. Kafka computes
        another one; all that would come of its reading ours is one rebalance too many.
        """
        existing = sorted(name for name in names if name in self.by_name)
        if not existing:
            return NO_TOPICS_HASH
        digest = blake2b(digest_size=_HASH_BYTES)
        for name in existing:
            topic_id, count = self.by_name[name]
            digest.update(b"%s\0%s%d\0" % (name.encode(), topic_id, count))
        return int.from_bytes(digest.digest(), "big", signed=True)


NO_TOPICS: Final = Topics({})
