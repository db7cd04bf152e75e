"""Markers: the end of a transaction decides over the offsets that it holds."""

from __future__ import annotations

from eagleray.broker.groups.context import GroupContext
from eagleray.broker.groups.events import OFFSETS_TOPIC, LogMarkers
from eagleray.broker.groups.shards import MarkersAppend, MarkersRequest, Shard
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION, Marker, last_epoch_ended_by
from eagleray.broker.partitions.events import WriteMarkers
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class MarkerServer:
    """Has the markers of a request logged, those of one partition together, and answers when all have an outcome.

    A marker that what is in the log forbids is refused here; the log itself has the last word, because it also knows of
    what is under way.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    def write(self, event: WriteMarkers) -> None:
        """Take a transaction coordinator's markers."""
        wanted = [(marker, partition) for marker in event.markers for partition in marker.partitions]
        request = MarkersRequest(event.request_id, [_NONE] * len(wanted))
        places: dict[int, list[int]] = {}
        for place, (marker, partition) in enumerate(wanted):
            shard = self._find_shard(partition)
            refusal = shard if isinstance(shard, ErrorCode) else _refusal_of(shard, marker)
            request.outcomes[place] = refusal
            if refusal is _NONE:
                places.setdefault(partition.partition, []).append(place)
        request.appends_left = len(places)
        for offsets_partition, of_partition in places.items():
            markers = tuple(wanted[place][0] for place in of_partition)
            self._log(self._context.shards.by_partition[offsets_partition], request, markers, of_partition)
        if not places:
            self._context.answer_markers(request.request_id, request.outcomes)

    def _find_shard(self, partition: TopicPartition) -> Shard | ErrorCode:
        shard = self._context.shards.by_partition.get(partition.partition)
        if shard is None or partition.topic != OFFSETS_TOPIC:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _log(self, shard: Shard, request: MarkersRequest, markers: tuple[Marker, ...], places: list[int]) -> None:
        for marker in markers:
            producer_id = marker.producer.producer_id
            last_epoch = last_epoch_ended_by(marker.producer.epoch, marker.transaction_version)
            # Whatever the answer will be, it was about a transaction that is over.
            if shard.confirmed.get(producer_id, last_epoch + 1) <= last_epoch:
                del shard.confirmed[producer_id]
            for waiting in shard.verifications.void_up_to(producer_id, last_epoch):
                self._context.reply(waiting.request_id, ErrorCode.INVALID_TXN_STATE)
        token = self._context.next_token
        self._context.track(MarkersAppend(shard, token, request, markers, places))
        self._context.emit(LogMarkers(shard.offsets_partition, shard.epoch, token, markers))


def _refusal_of(shard: Shard, marker: Marker) -> ErrorCode:
    """Say why a marker must not be written, by the rules of a partition's log."""
    known = shard.state.producers.get(marker.producer.producer_id)
    if known is None:
        return _NONE
    epoch = marker.producer.epoch
    # In version 2 a marker carries the epoch after the transaction's own. One with the very epoch of an open
    # transaction is a late marker of the transaction before, and must not end this one.
    is_late = marker.transaction_version >= IMPLICIT_VERSION and epoch == known.epoch and known.is_open
    if epoch < known.epoch or is_late:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if marker.coordinator_epoch < known.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return _NONE
