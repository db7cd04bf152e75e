"""ConsumerGroupHeartbeat: key 68, versions 0 to 1.

A member of a KIP-848 group joins, stays, reports what it owns or leaves, and learns what it is to own. From version 1
on it generates its id itself, and may subscribe by a regular expression.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.broker.groups.consumer.events import ConsumerHeartbeat, ConsumerHeartbeatAnswered, PartitionsOfTopic
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

API = ServedApi(68, 0, 1)

_OWN_ID_SINCE: Final = 1


def handle(request: ConsumerGroupHeartbeatRequest, call: Call) -> None:
    """Pass the heartbeat to the group's coordinator."""
    if not call.has_role(ProcessRole.GROUPS):
        call.answer(_refusal(ErrorCode.NOT_COORDINATOR))
        return

    def answer(reply: ConsumerHeartbeatAnswered | None) -> None:
        call.answer(_refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE) if reply is None else _response(reply))

    owned = request.topic_partitions
    call.ask_here(
        answer,
        ConsumerHeartbeat,
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
        None if owned is None else tuple(PartitionsOfTopic(topic.topic_id, topic.partitions) for topic in owned),
        call.client_id or "",
        f"/{call.client_host}",
        call.api_version >= _OWN_ID_SINCE,
    )


def _refusal(error_code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error_code, error_message=error_code.message)


def _response(reply: ConsumerHeartbeatAnswered) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=reply.error_code,
        error_message=reply.message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None if reply.assignment is None else _assignment(reply.assignment),
    )


def _assignment(topics: tuple[PartitionsOfTopic, ...]) -> Assignment:
    return Assignment(topic_partitions=tuple(TopicPartitions(topic.topic_id, topic.partitions) for topic in topics))
