"""WriteTxnMarkers: key 27, versions 1 to 2.

Admins send it to the leader of a partition, to end a transaction that hangs there: whose coordinator knows nothing of
it. Our own coordinators have markers written by the marker channel manager, on another lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, TypeAlias

from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.messages import WriteGroupMarkers
from eagleray.actors.wire.asking import AdminCall
from eagleray.broker.controller.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import WriteMarkers
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_OLDEST_VERSION: Final = 1

Outcomes: TypeAlias = dict[tuple[int, TopicPartition], ErrorCode]
"""By the place of a marker in the request, and the partition."""


async def handle(request: WriteTxnMarkersRequest, call: AdminCall) -> WriteTxnMarkersResponse:
    """Have markers written to partitions that this node leads."""
    outcomes: Outcomes = {}
    for place, marker in enumerate(request.markers):
        outcomes |= {(place, partition): _where(partition, call) for partition in _partitions_of(marker)}
    here = [wanted for wanted, error_code in outcomes.items() if error_code is ErrorCode.NONE]
    of_groups = [wanted for wanted in here if wanted[1].topic == CONSUMER_OFFSETS]
    of_leaders = [wanted for wanted in here if wanted[1].topic != CONSUMER_OFFSETS]
    written = await asyncio.gather(
        _write(WriteMarkers, of_leaders, request, call), _write(WriteGroupMarkers, of_groups, request, call)
    )
    for some in written:
        outcomes |= some
    results = (_result(place, marker, outcomes) for place, marker in enumerate(request.markers))
    return WriteTxnMarkersResponse(tuple(results))


def _partitions_of(marker: WritableTxnMarker) -> Iterator[TopicPartition]:
    for topic in marker.topics:
        for number in topic.partition_indexes:
            yield TopicPartition(topic.name, number)


def _where(partition: TopicPartition, call: AdminCall) -> ErrorCode:
    """Tell whether a partition can be written to here."""
    found = call.host.image.find(partition)
    if found is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if found.leader != call.host.spec.node_id or partition.topic == TRANSACTION_STATE:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


async def _write(
    message_type: type[WriteMarkers | WriteGroupMarkers],
    wanted: list[tuple[int, TopicPartition]],
    request: WriteTxnMarkersRequest,
    call: AdminCall,
) -> Outcomes:
    if not wanted:
        return {}
    markers = tuple(_marker(request.markers[place], partition) for place, partition in wanted)
    try:
        reply = await call.host.peers.call(call.host.spec.node_id, message_type, markers)
    except Unanswered:
        # Written or not, writing it again is safe; the client looks for the leader and does so.
        return dict.fromkeys(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    error_codes = reply.error_codes or (ErrorCode.NONE,) * len(wanted)
    return dict(zip(wanted, error_codes, strict=True))


def _marker(wanted: WritableTxnMarker, partition: TopicPartition) -> Marker:
    return Marker(
        ProducerIdentity(wanted.producer_id, wanted.producer_epoch),
        wanted.transaction_result,
        wanted.coordinator_epoch,
        max(wanted.transaction_version, _OLDEST_VERSION),
        (partition,),
    )


def _result(place: int, marker: WritableTxnMarker, outcomes: Outcomes) -> WritableTxnMarkerResult:
    topics = (
        WritableTxnMarkerTopicResult(
            topic.name,
            tuple(
                WritableTxnMarkerPartitionResult(number, outcomes[place, TopicPartition(topic.name, number)])
                for number in topic.partition_indexes
            ),
        )
        for topic in marker.topics
    )
    return WritableTxnMarkerResult(marker.producer_id, tuple(topics))
