"""Requests for markers: taken apart by partition, and put together again for the answer."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import NewMarker
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import MarkersAnswered, WriteMarkers
from eagleray.protocol.errors import ErrorCode


class MarkerRequest:
    """One request of a coordinator, with an outcome for each partition of each marker.

    Owns: the outcomes. What nobody has written by the time of the answer is led elsewhere.
    """

    __slots__ = ("_event", "_outcomes", "_places")

    def __init__(self, event: WriteMarkers) -> None:
        self._event = event
        self._places: dict[TopicPartition, list[tuple[int, NewMarker]]] = {}
        place = 0
        for marker in event.markers:
            new = new_marker(marker)
            for partition in marker.partitions:
                self._places.setdefault(partition, []).append((place, new))
                place += 1
        self._outcomes = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * place

    def by_partition(self) -> Iterator[tuple[TopicPartition, list[NewMarker]]]:
        """The markers of each partition, in their order."""
        for partition, places in self._places.items():
            yield partition, [new for _, new in places]

    def written(self, partition: TopicPartition, outcomes: Sequence[ErrorCode]) -> None:
        """Note what became of the markers of one partition."""
        for (place, _), outcome in zip(self._places[partition], outcomes, strict=True):
            self._outcomes[place] = outcome

    def answer(self, failed: Container[TopicPartition]) -> MarkersAnswered:
        """Answer, with an unknown outcome for what was written to partitions that have `failed` since."""
        for partition in self._places:
            if partition in failed:
                for place, _ in self._places[partition]:
                    self._outcomes[place] = ErrorCode.KAFKA_STORAGE_ERROR
        all_written = all(outcome is ErrorCode.NONE for outcome in self._outcomes)
        return MarkersAnswered(self._event.request_id, () if all_written else tuple(self._outcomes))


def new_marker(marker: Marker) -> NewMarker:
    """What the log is to write for a coordinator's marker."""
    return NewMarker(
        marker.producer.producer_id,
        marker.producer.epoch,
        marker.commit,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
