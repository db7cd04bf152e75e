"""The uniform assignor: members own equally much, as far as their subscriptions let them, and keep what they have.

Each member keeps what it still wants. A partition without an owner goes to the member that wants it and has least. Then
the member that has most gives to one with at least two less, one partition after the other, until none can: where all
want the same topics no fewer could have moved, and loads differ by one at the most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from eagleray.broker.groups.consumer.partitions import Partitions, TopicIdPartition
from eagleray.broker.groups.consumer.subscriptions import Subscriber


def assign_uniformly(members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Give every partition of a subscribed topic to one subscriber, evenly and with little movement."""
    balance = _Balance(members)
    balance.hand_out(balance.keep(members, partition_counts))
    while balance.even_out():
        # What one member got rid of may have made room for what another could not get rid of.
        continue
    return {member_id: holding.partitions() for member_id, holding in balance.holdings.items()}


class _Holding:
    """What one member has."""

    __slots__ = ("by_topic", "cohort", "size")

    def __init__(self, cohort: _Cohort) -> None:
        self.cohort = cohort
        self.by_topic: dict[bytes, list[int]] = {}
        self.size = 0

    def partitions(self) -> Partitions:
        """Return all of it."""
        return frozenset(
            TopicIdPartition(topic_id, number) for topic_id, numbers in self.by_topic.items() for number in numbers
        )

    def add(self, partition: TopicIdPartition) -> None:
        """Take a partition."""
        self.by_topic.setdefault(partition.topic_id, []).append(partition.partition)
        self.size += 1

    def give(self, wanted: frozenset[bytes]) -> TopicIdPartition | None:
        """Give a partition of the wanted topic that most are left of; None without any."""
        topics = [(len(numbers), topic_id) for topic_id, numbers in self.by_topic.items() if topic_id in wanted]
        if not topics:
            return None
        count, topic_id = max(topics)
        number = self.by_topic[topic_id].pop()
        if count == 1:
            del self.by_topic[topic_id]
        self.size -= 1
        return TopicIdPartition(topic_id, number)


class _Cohort:
    """Members with the same subscription, and who of them has least."""

    __slots__ = ("heap", "members", "topic_ids")

    def __init__(self, topic_ids: frozenset[bytes]) -> None:
        self.topic_ids = topic_ids
        self.members: dict[str, _Holding] = {}
        self.heap: list[tuple[int, str]] = []

    def least(self) -> tuple[int, str]:
        """Return the smallest size and whose it is; what tells of an earlier size is dropped."""
        heap = self.heap
        while heap[0][0] != self.members[heap[0][1]].size:
            heappop(heap)
        return heap[0]


class _Balance:
    """Which member has what while an assignment is being made."""

    def __init__(self, members: Mapping[str, Subscriber]) -> None:
        self.holdings: dict[str, _Holding] = {}
        self._cohorts: dict[frozenset[bytes], _Cohort] = {}
        self._by_topic: dict[bytes, list[_Cohort]] = {}
        for member_id in sorted(members):
            cohort = self._cohort(members[member_id].topic_ids)
            self.holdings[member_id] = cohort.members[member_id] = _Holding(cohort)

    def _cohort(self, topic_ids: frozenset[bytes]) -> _Cohort:
        cohort = self._cohorts.get(topic_ids)
        if cohort is None:
            cohort = self._cohorts[topic_ids] = _Cohort(topic_ids)
            for topic_id in topic_ids:
                self._by_topic.setdefault(topic_id, []).append(cohort)
        return cohort

    def keep(
        self, members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
    ) -> Iterable[TopicIdPartition]:
        """Let members keep what there still is and they still want; return the partitions without an owner.

        The topics that fewest members want come first: members that want more are then filled up with the rest.
        """
        wanted = [topic_id for topic_id in partition_counts if topic_id in self._by_topic]
        wanted.sort(key=lambda topic_id: (sum(len(cohort.members) for cohort in self._by_topic[topic_id]), topic_id))
        left = dict.fromkeys(
            TopicIdPartition(topic_id, number) for topic_id in wanted for number in range(partition_counts[topic_id])
        )
        for member_id, holding in self.holdings.items():
            for partition in sorted(members[member_id].partitions):
                if partition in left and partition.topic_id in holding.cohort.topic_ids:
                    del left[partition]
                    holding.add(partition)
            holding.cohort.heap.append((holding.size, member_id))
        for cohort in self._cohorts.values():
            heapify(cohort.heap)
        return left

    def hand_out(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Give each partition to the one of its subscribers that has least."""
        for partition in partitions:
            _, member_id = min(cohort.least() for cohort in self._by_topic[partition.topic_id])
            self._give(partition, member_id)

    def even_out(self) -> bool:
        """Let those with most give to those with least, and say whether any member gave anything."""
        gave = False
        donors = [(-holding.size, member_id) for member_id, holding in self.holdings.items()]
        heapify(donors)
        while donors:
            size, member_id = heappop(donors)
            holding = self.holdings[member_id]
            if -size == holding.size and self._relieve(member_id, holding):
                gave = True
                heappush(donors, (-holding.size, member_id))
        return gave

    def _relieve(self, donor: str, holding: _Holding) -> bool:
        """Let a member give one partition to another with at least two less."""
        recipients = sorted((cohort.least(), index) for index, cohort in enumerate(self._cohorts.values()))
        cohorts = list(self._cohorts.values())
        for (size, recipient), index in recipients:
            if holding.size - size < 2:
                return False
            partition = holding.give(cohorts[index].topic_ids)
            if partition is not None:
                heappush(holding.cohort.heap, (holding.size, donor))
                self._give(partition, recipient)
                return True
        return False

    def _give(self, partition: TopicIdPartition, member_id: str) -> None:
        holding = self.holdings[member_id]
        holding.add(partition)
        heappush(holding.cohort.heap, (holding.size, member_id))
