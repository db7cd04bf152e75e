"""What programs that have just committed read back: all of it, also where the markers are still on their way.

A commit is acknowledged when it is decided. Its records become visible when the marker is in each partition, a moment
later; until then the last stable offset, which is the end of a `read_committed` consumer, lies before them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from eagleray.api import Cluster
from eagleray.broker.identities import TopicPartition
from eagleray.client.types import ConsumerRecord

_POLL_MS: Final = 500
_STANDSTILL_S: Final = 120.0


def committed_records(cluster: Cluster, topic: str, *numbers: int) -> Iterator[ConsumerRecord]:
    """The committed records of a topic, or of these partitions of it, up to where the logs end now.

    Transactions that are open or being decided below that end are waited for; TimeoutError says where one stands still.
    """
    with cluster.consumer(isolation="read_uncommitted") as writers_view:
        wanted = [TopicPartition(topic, number) for number in numbers or _numbers(cluster, topic)]
        ends = writers_view.end_offsets(*wanted)
    with cluster.consumer(isolation="read_committed") as consumer:
        consumer.assign(wanted)
        consumer.seek_to_beginning(*wanted)
        came, gives_up_at_s = -1, 0.0
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            position = sum(consumer.position(partition) for partition in wanted)
            if position > came:
                came, gives_up_at_s = position, time.monotonic() + _STANDSTILL_S
            elif time.monotonic() > gives_up_at_s:
                raise TimeoutError(_standstill(topic, consumer.positions(), ends))
            yield from consumer.poll(_POLL_MS)


def _numbers(cluster: Cluster, topic: str) -> range:
    return range(len(cluster.admin.describe_topic(topic).partitions))


def _standstill(topic: str, positions: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> str:
    behind = ", ".join(
        f"partition {partition.partition} at {positions.get(partition, 0)} of {end}"
        for partition, end in sorted(ends.items())
        if positions.get(partition, 0) < end
    )
    return (
        f"Reading {topic} stands still for {_STANDSTILL_S:.0f} s: {behind}. A transaction may hold it back; "
        f"`eagleray txn blocking {topic}` names it, and the command that ends it."
    )
