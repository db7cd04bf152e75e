"""How a node that could be the controller, and is not, answers those who take it for it."""

from __future__ import annotations

from typing import Any

from eagleray.broker.controller.decisions import refusal_of
from eagleray.broker.controller.events import (
    DescribeConfigs,
    FollowMetadata,
    GetMetadata,
    IsrChanged,
    ListReassignments,
    MetadataAnswered,
    MetadataFollowed,
    NodeBeat,
    NodeBeatAnswered,
    ReassignmentsListed,
    TopicsAnswered,
)
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.metadata import answer_metadata, describe_configs
from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.messages import Message
from eagleray.broker.replication.events import BrokerHeartbeatAnswered
from eagleray.protocol.errors import ErrorCode

_CODE = ErrorCode.NOT_CONTROLLER


def not_controller(request: Any, image: MetadataImage, leader: int) -> Message:  # noqa: ANN401 - what a controller takes
    """Return the answer that sends a client to the controller; `image` is what this node follows.

    Questions about the metadata are answered as any node does it, but a client that wants the controller's word can
    tell.
    """
    if isinstance(request, DescribeConfigs):
        return describe_configs(image, request)
    if isinstance(request, GetMetadata):
        return MetadataAnswered(request.request_id, _CODE, answer_metadata(image, request).image)
    return _refusal(request, leader)


def _refusal(request: Any, leader: int) -> Message:  # noqa: ANN401 - what a controller takes
    match request:
        case FollowMetadata():
            return MetadataFollowed(request.request_id, _CODE, request.version)
        case NodeBeat(heartbeat=beat):
            answer = BrokerHeartbeatAnswered(beat.node_id, beat.incarnation, beat.sent_ms, _CODE)
            return NodeBeatAnswered(request.request_id, answer)
        case ListReassignments():
            return ReassignmentsListed(request.request_id, _CODE)
        case _:
            return refusal_of(request, _CODE, _hint(leader))


def _hint(leader: int) -> str:
    if leader == NO_NODE:
        return "this node is not the controller, and does not know which is; try again"
    return f"this node is not the controller; node {leader} is"


def says_not_controller(reply: Any) -> bool:  # noqa: ANN401 - any answer of a controller
    """Whether an answer says that another node has to be asked."""
    if isinstance(reply, TopicsAnswered):
        return any(result.error_code is _CODE for result in reply.results)
    answer = reply.answer if isinstance(reply, NodeBeatAnswered | IsrChanged) else reply
    return getattr(answer, "error_code", ErrorCode.NONE) is _CODE
