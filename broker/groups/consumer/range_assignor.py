"""The range assignor: neighbouring partitions of each topic go to one member.

Topics with equally many partitions and the same subscribers are cut at the same places, so that a member gets the same
numbers of each of them: what a join of two topics needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eagleray.broker.groups.consumer.partitions import Partitions, TopicIdPartition
from eagleray.broker.groups.consumer.subscriptions import Subscriber


def assign_ranges(members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Cut every topic into as many ranges as it has subscribers; the first of them are one longer where need be."""
    assigned: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    in_order = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    for topic_id, count in partition_counts.items():
        subscribers = [member_id for member_id in in_order if topic_id in members[member_id].topic_ids]
        for member_id, numbers in zip(subscribers, _ranges(count, len(subscribers)), strict=True):
            assigned[member_id].update(TopicIdPartition(topic_id, number) for number in numbers)
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _rank(member_id: str, member: Subscriber) -> tuple[bool, str]:
    """Put static members first, by the id that they keep over restarts, so that they keep their ranges as well."""
    return member.instance_id is None, member.instance_id or member_id


def _ranges(count: int, pieces: int) -> Iterator[range]:
    start = 0
    for piece in range(pieces):
        end = start + count // pieces + (piece < count % pieces)
        yield range(start, end)
        start = end
