"""AlterPartitionReassignments: key 45, versions 0 to 1.

The controller starts or cancels each reassignment on its own. The response does not wait until replicas have moved.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_controller
from eagleray.actors.kafka_server.partitions import by_topic
from eagleray.broker.controller.replica_events import PartitionMove, PartitionResult, ReassignPartitions
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

API = ServedApi(45, 0, 1)


async def handle(request: AlterPartitionReassignmentsRequest, call: AdminCall) -> AlterPartitionReassignmentsResponse:
    """Start or cancel reassignments."""
    may_change_factor = request.allow_replication_factor_change
    moves = tuple(
        PartitionMove(TopicPartition(topic.name, partition.partition_index), partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    )
    answer = await ask_controller(call, request.timeout_ms, ReassignPartitions, moves, may_change_factor)
    if answer is None:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_change_factor,
            error_code=ErrorCode.REQUEST_TIMED_OUT,
            error_message="the controller has not answered in time; the moves may have been begun or not",
        )
    results: tuple[PartitionResult, ...] = answer.results
    responses = (
        ReassignableTopicResponse(topic, tuple(map(_response, found)))
        for topic, found in by_topic(results, lambda result: result.partition.topic)
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor, error_message=None, responses=tuple(responses)
    )


def _response(result: PartitionResult) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(result.partition.partition, result.error_code, result.message)
