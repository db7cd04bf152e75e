"""How handlers of admin and query APIs ask the roles that know: the controller, leaders and coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Concatenate, Final, Protocol, TypeVar

from eagleray.actors.common.controller_channel import ControllerAnswer
from eagleray.actors.kafka_server.context import ListenerContext
from eagleray.actors.lanes.link import Fields, RequestType
from eagleray.actors.lanes.peers import Unanswered
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import RequestOf
from eagleray.broker.metadata.nodes import NodeRegistration, ProcessRole
from eagleray.protocol.errors import ErrorCode

_NONE: Final = ErrorCode.NONE
_DEFAULT_TIMEOUT_MS: Final = 30_000
_SEEN_WITHIN_S: Final = 1.0
_LOOK_EVERY_S: Final = 0.005


class WithErrorCode(Protocol):
    """A reply with an error code for the whole request."""

    @property
    def error_code(self) -> ErrorCode:
        """NONE, or why the request failed."""


Answer = TypeVar("Answer", bound=WithErrorCode)


class Brokers(Protocol):
    """The brokers that Kafka's clients see."""

    @property
    def brokers(self) -> dict[int, NodeRegistration]:
        """The brokers that have registered, by their node ids."""

    @property
    def controller_id(self) -> int:
        """The broker that clients take for the controller."""


class AdminCall(Protocol):
    """What a handler of an admin or query API needs besides the request itself."""

    @property
    def api_version(self) -> int:
        """The version that the request came in."""

    @property
    def context(self) -> ListenerContext:
        """The node that received the request."""

    @property
    def advertised(self) -> Brokers:
        """The brokers that are in Metadata."""


async def ask_controller(
    call: AdminCall,
    timeout_ms: int,
    message_type: RequestType[Fields, ControllerAnswer],
    *fields: Fields.args,
    **named: Fields.kwargs,
) -> ControllerAnswer | None:
    """Have the controller decide; None where it does not answer in time, and has done it or not.

    A client that allows no time wants the answer at once. There is none before the decision is in the log, which takes
    milliseconds, so the default applies.
    """
    try:
        async with asyncio.timeout(allowed_s(timeout_ms)):
            return await call.context.controller.call(message_type, *fields, **named)
    except (Unanswered, TimeoutError):
        return None


def allowed_s(timeout_ms: int) -> float:
    """How long a request may take, given the timeout of its client."""
    return (timeout_ms if timeout_ms > 0 else _DEFAULT_TIMEOUT_MS) / 1000


async def ask_leader(
    call: AdminCall,
    partition: TopicPartition,
    message_type: Callable[Concatenate[int, TopicPartition, Fields], RequestOf[Answer]],
    *fields: Fields.args,
    **named: Fields.kwargs,
) -> Answer | ErrorCode:
    """Ask the leader of a partition on this node; an error code where it is led elsewhere, or returns one."""
    found = call.context.image.find(partition)
    if found is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if found.leader != call.context.spec.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    try:
        reply = await call.context.peers.call(call.context.spec.node_id, message_type, partition, *fields, **named)
    except Unanswered:
        # The client looks for the leader again, and repeats what may be repeated.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return reply if reply.error_code is _NONE else reply.error_code


async def ask_coordinator(
    call: AdminCall,
    role: ProcessRole,
    message_type: RequestType[Fields, Answer],
    *fields: Fields.args,
    **named: Fields.kwargs,
) -> Answer | ErrorCode:
    """Ask a coordinator on this node; an error code where there is none here, or the coordinator returns one."""
    if role not in call.context.spec.roles:
        return ErrorCode.NOT_COORDINATOR
    try:
        reply = await call.context.peers.call(call.context.spec.node_id, message_type, *fields, **named)
    except Unanswered:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return reply if reply.error_code is _NONE else reply.error_code


async def until_seen(is_so: Callable[[], bool], within_s: float = _SEEN_WITHIN_S) -> None:
    """Wait until this node's metadata shows what the controller has decided, so that the client sees it too.

    Not for long: other nodes may be later still, and clients know that.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while not is_so() and loop.time() < deadline_s:
        await asyncio.sleep(_LOOK_EVERY_S)
