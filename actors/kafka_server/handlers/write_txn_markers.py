"""WriteTxnMarkers: key 27, versions 1 to 2.

Kafka's brokers send it to each other; here coordinators have markers written by the marker channel manager, on another
lane. Of clients, admins send it to the leader of a partition, to abort a hanging transaction there, which its
coordinator does not know. All else is refused to clients, as Kafka's authorizer would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.hanging_transactions import AbortAsked, known_transactions, marker_for
from eagleray.actors.lanes.messages import WriteGroupMarkers
from eagleray.actors.lanes.peers import Unanswered
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
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

API = ServedApi(27, 1, 2)

Wanted: TypeAlias = tuple[int, TopicPartition]
"""The index of a marker in the request, and the partition."""

Outcomes: TypeAlias = dict[Wanted, ErrorCode]


async def handle(request: WriteTxnMarkersRequest, call: AdminCall) -> WriteTxnMarkersResponse:
    """Abort hanging transactions in partitions that this node leads."""
    outcomes: Outcomes = {}
    for place, marker in enumerate(request.markers):
        outcomes |= {(place, partition): _where(partition, marker, call) for partition in _partitions_of(marker)}
    asked = {
        (place, partition): _abort_of(request.markers[place], partition)
        for (place, partition), error_code in outcomes.items()
        if error_code is ErrorCode.NONE
    }
    outcomes |= await _abort(asked, call)
    results = (_result(place, marker, outcomes) for place, marker in enumerate(request.markers))
    return WriteTxnMarkersResponse(tuple(results))


def refuse(request: WriteTxnMarkersRequest, version: int, error_code: ErrorCode) -> WriteTxnMarkersResponse:  # noqa: ARG001 - all have it
    """Refuse every marker."""
    outcomes: Outcomes = {}
    for place, marker in enumerate(request.markers):
        outcomes |= {(place, partition): error_code for partition in _partitions_of(marker)}
    results = (_result(place, marker, outcomes) for place, marker in enumerate(request.markers))
    return WriteTxnMarkersResponse(tuple(results))


def _partitions_of(marker: WritableTxnMarker) -> Iterator[TopicPartition]:
    for topic in marker.topics:
        for number in topic.partition_indexes:
            yield TopicPartition(topic.name, number)


def _abort_of(marker: WritableTxnMarker, partition: TopicPartition) -> AbortAsked:
    producer = ProducerIdentity(marker.producer_id, marker.producer_epoch)
    return AbortAsked(partition, producer, marker.coordinator_epoch)


def _where(partition: TopicPartition, marker: WritableTxnMarker, call: AdminCall) -> ErrorCode:
    """Return NONE where something may be aborted here, else why not."""
    if marker.transaction_result:
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    found = call.context.image.find(partition)
    if found is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if found.leader != call.context.spec.node_id or partition.topic == TRANSACTION_STATE:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


async def _abort(asked: Mapping[Wanted, AbortAsked], call: AdminCall) -> Outcomes:
    """Write the markers of those transactions that hang, and say what has become of all that were asked for."""
    if not asked:
        return {}
    known = await known_transactions(call, (each.producer.producer_id for each in asked.values()))
    if isinstance(known, ErrorCode):
        return dict.fromkeys(asked, known)
    outcomes: Outcomes = {}
    markers: dict[Wanted, Marker] = {}
    for wanted, abort in asked.items():
        marker = await marker_for(call, abort, known)
        if isinstance(marker, ErrorCode):
            outcomes[wanted] = marker
        else:
            markers[wanted] = marker
    of_groups = {wanted: marker for wanted, marker in markers.items() if wanted[1].topic == CONSUMER_OFFSETS}
    of_leaders = {wanted: marker for wanted, marker in markers.items() if wanted not in of_groups}
    written = await asyncio.gather(_write(WriteMarkers, of_leaders, call), _write(WriteGroupMarkers, of_groups, call))
    for some in written:
        outcomes |= some
    return outcomes


async def _write(
    message_type: type[WriteMarkers | WriteGroupMarkers], markers: Mapping[Wanted, Marker], call: AdminCall
) -> Outcomes:
    if not markers:
        return {}
    try:
        reply = await call.context.peers.call(call.context.spec.node_id, message_type, tuple(markers.values()))
    except Unanswered:
        # Written or not, asking again is safe; the client looks for the leader and does so.
        return dict.fromkeys(markers, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    error_codes = reply.error_codes or (ErrorCode.NONE,) * len(markers)
    return dict(zip(markers, error_codes, strict=True))


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
