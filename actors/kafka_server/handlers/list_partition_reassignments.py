"""ListPartitionReassignments: key 46, version 0.

Answered by the controller, so that a client finds the reassignments that it has just started.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_controller
from eagleray.actors.kafka_server.partitions import by_topic
from eagleray.broker.controller.replica_events import ListReassignments, Reassignment
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

API = ServedApi(46, 0, 0)


async def handle(request: ListPartitionReassignmentsRequest, call: AdminCall) -> ListPartitionReassignmentsResponse:
    """Return the partitions that are being reassigned; those that do not exist are not."""
    wanted = None
    if request.topics is not None:
        wanted = tuple(TopicPartition(topic.name, each) for topic in request.topics for each in topic.partition_indexes)
    answer = await ask_controller(call, request.timeout_ms, ListReassignments, wanted)
    if answer is None:
        text = "the controller has not answered in time"
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=text)
    if answer.error_code is not ErrorCode.NONE:
        return ListPartitionReassignmentsResponse(error_code=answer.error_code, error_message=None)
    moving: tuple[Reassignment, ...] = answer.reassignments
    topics = (
        OngoingTopicReassignment(topic, tuple(map(_ongoing, found)))
        for topic, found in by_topic(moving, lambda each: each.partition.topic)
    )
    return ListPartitionReassignmentsResponse(error_message=None, topics=tuple(topics))


def _ongoing(moving: Reassignment) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(moving.partition.partition, moving.replicas, moving.adding, moving.removing)
