"""Requests for transaction markers (WriteTxnMarkers): split by partition, and joined again for the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import MarkersAnswered, WriteMarkers
from eagleray.protocol.errors import ErrorCode


class MarkerRequest:
    """One request of a coordinator, with an outcome for each partition of each marker.

    Owns: the outcomes, and which partitions have not replicated theirs yet. A marker that has no outcome by the time of
    the answer is for a partition that another node leads.
    """

    __slots__ = ("_event", "_outcomes", "_places", "unsettled")

    def __init__(self, event: WriteMarkers) -> None:
        self._event = event
        self._places: dict[TopicPartition, list[tuple[int, Marker]]] = {}
        self.unsettled: dict[TopicPartition, int] = {}
        """The partitions whose outcomes are not certain, each with the offset up to which it has to be replicated."""
        place = 0
        for marker in event.markers:
            for partition in marker.partitions:
                self._places.setdefault(partition, []).append((place, marker))
                place += 1
        self._outcomes = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * place

    def by_partition(self) -> Iterator[tuple[TopicPartition, list[Marker]]]:
        """The markers of each partition, in their order."""
        for partition, places in self._places.items():
            yield partition, [marker for _, marker in places]

    def written(self, partition: TopicPartition, outcomes: Sequence[ErrorCode], end_offset: int) -> None:
        """Note the outcomes of one partition's markers, which are certain once everything before an offset is
        replicated.

        That goes for a refusal too: the coordinator may conclude from it that the partition needs no marker any more,
        while the marker that caused the refusal is not replicated yet.
        """
        for (place, _), outcome in zip(self._places[partition], outcomes, strict=True):
            self._outcomes[place] = outcome
        self.unsettled[partition] = end_offset

    def refused(self, partition: TopicPartition, error_code: ErrorCode) -> None:
        """Note that nothing was written to one partition, or that it is unknown what was."""
        for place, _ in self._places[partition]:
            self._outcomes[place] = error_code

    def settled(self, partition: TopicPartition, error_code: ErrorCode) -> None:
        """Note that the outcomes of one partition are replicated, or that it is unknown whether they will be."""
        del self.unsettled[partition]
        if error_code is not ErrorCode.NONE:
            self.refused(partition, error_code)

    def answers(self) -> Sequence[MarkersAnswered]:
        """The answer, once the outcomes of all partitions are certain."""
        if self.unsettled:
            return ()
        return (MarkersAnswered(self._event.request_id, tuple(self._outcomes) if any(self._outcomes) else ()),)
