"""The partitions that one actor leads, as a core does in a shard-per-core broker."""

from __future__ import annotations

from collections.abc import Sequence

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import NewMarker, PartitionLog
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import (
    Effect,
    Event,
    Fetch,
    MarkersAnswered,
    Produce,
    Produced,
    Tick,
    TransactionVerified,
    WriteMarkers,
)
from eagleray.broker.partitions.fetching import Fetches
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.protocol.errors import ErrorCode


class PartitionLeaders:
    """Takes the events of one turn together, so that each partition that they touch is written once.

    Owns: the leaders, each with its log, and the fetches that wait. What order the events have for one partition, its
    log has too.
    """

    def __init__(self) -> None:
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._fetches = Fetches(self._leaders)
        self._touched: set[TopicPartition] = set()

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._leaders

    def lead(self, partition: TopicPartition, log: PartitionLog, leader_epoch: int) -> None:
        """Begin to lead a partition whose log is open."""
        self._leaders[partition] = PartitionLeader(partition, log, leader_epoch)

    def resign(self, partition: TopicPartition) -> tuple[PartitionLog, list[Effect]]:
        """Stop leading a partition; return its log, and answers to everybody who waits on it."""
        leader = self._leaders.pop(partition)
        effects: list[Effect] = [*leader.resign(), *self._fetches.moved({partition})]
        return leader.log, effects

    def handle(self, events: Sequence[Event], now_ms: int) -> list[Effect]:
        """Take the events of one turn and return what they make necessary."""
        effects: list[Effect] = []
        for event in events:
            self._take(event, now_ms, effects)
        for partition in self._touched:
            effects += self._leaders[partition].write(now_ms)
        effects += self._fetches.moved(self._touched)
        self._touched = set()
        return effects

    def _take(self, event: Event, now_ms: int, effects: list[Effect]) -> None:
        match event:
            case Produce():
                self._on_produce(event, effects)
            case TransactionVerified():
                self._on_verified(event, effects)
            case WriteMarkers():
                self._on_markers(event, now_ms, effects)
            case Fetch():
                fetched = self._fetches.fetch(event, now_ms)
                if fetched is not None:
                    effects.append(fetched)
            case Tick():
                effects += self._fetches.expire(now_ms)

    def _on_produce(self, event: Produce, effects: list[Effect]) -> None:
        leader = self._leaders.get(event.partition)
        if leader is None:
            effects.append(Produced(event.request_id, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        effects += leader.produce(event)
        self._touched.add(event.partition)

    def _on_verified(self, event: TransactionVerified, effects: list[Effect]) -> None:
        leader = self._leaders.get(event.partition)
        if leader is not None:
            effects += leader.verified(event)
            self._touched.add(event.partition)

    def _on_markers(self, event: WriteMarkers, now_ms: int, effects: list[Effect]) -> None:
        """Write the markers of a request partition by partition, each partition's with one write."""
        wanted = [(marker, partition) for marker in event.markers for partition in marker.partitions]
        outcomes = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(wanted)
        places: dict[TopicPartition, list[int]] = {}
        for place, (_, partition) in enumerate(wanted):
            places.setdefault(partition, []).append(place)
        for partition in places.keys() & self._leaders.keys():
            markers = [_new_marker(wanted[place][0]) for place in places[partition]]
            errors, answers = self._leaders[partition].write_markers(markers, now_ms)
            for place, error in zip(places[partition], errors, strict=True):
                outcomes[place] = error
            effects += answers
            self._touched.add(partition)
        all_written = all(outcome is ErrorCode.NONE for outcome in outcomes)
        effects.append(MarkersAnswered(event.request_id, () if all_written else tuple(outcomes)))


def _new_marker(marker: Marker) -> NewMarker:
    return NewMarker(
        marker.producer.producer_id,
        marker.producer.epoch,
        marker.commit,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
