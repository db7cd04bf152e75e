"""How handlers of admin and query APIs ask the roles that know: the controller, leaders and coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Concatenate, Final, Protocol, TypeVar

from eagleray.actors.lanes.link import Fields, Reply, RequestType
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.shell import Host
from eagleray.broker.controller.nodes import NodeRegistration, Role
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import RequestOf
from eagleray.protocol.errors import ErrorCode

_NONE: Final = ErrorCode.NONE
_DEFAULT_TIMEOUT_MS: Final = 30_000
_SEEN_WITHIN_S: Final = 1.0
_LOOK_EVERY_S: Final = 0.005


class WithErrorCode(Protocol):
    """An answer that says how it went as a whole."""

    @property
    def error_code(self) -> ErrorCode:
        """NONE, or why not."""


Answer = TypeVar("Answer", bound=WithErrorCode)


class Brokers(Protocol):
    """Who is a broker to Kafka's clients."""

    @property
    def brokers(self) -> dict[int, NodeRegistration]:
        """The brokers that have come, by their node ids."""

    @property
    def controller_id(self) -> int:
        """The broker that clients take for the controller."""


class AdminCall(Protocol):
    """What a handler of an admin or query API needs to know beside the request itself."""

    @property
    def api_version(self) -> int:
        """The version that the request came in."""

    @property
    def host(self) -> Host:
        """The node that the request came to."""

    @property
    def advertised(self) -> Brokers:
        """Who is in Metadata."""


async def ask_controller(
    call: AdminCall,
    timeout_ms: int,
    message_type: RequestType[Fields, Reply],
    *fields: Fields.args,
    **named: Fields.kwargs,
) -> Reply | None:
    """Have the controller decide; None where it does not answer in time, and has done it or not.

    A client that allows no time at all wants the answer at once: there is none before the decision is in the log, which
    takes milliseconds, so it gets the default.
    """
    try:
        async with asyncio.timeout(allowed_s(timeout_ms)):
            return await call.host.controller.call(message_type, *fields, **named)
    except (Unanswered, TimeoutError):
        return None


def allowed_s(timeout_ms: int) -> float:
    """How long a request may take for which its client allows so much."""
    return (timeout_ms if timeout_ms > 0 else _DEFAULT_TIMEOUT_MS) / 1000


async def ask_leader(
    call: AdminCall,
    partition: TopicPartition,
    message_type: Callable[Concatenate[int, TopicPartition, Fields], RequestOf[Answer]],
    *fields: Fields.args,
    **named: Fields.kwargs,
) -> Answer | ErrorCode:
    """Ask the leader of a partition on this node; an error code where it is led elsewhere, or says so itself."""
    found = call.host.image.find(partition)
    if found is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if found.leader != call.host.spec.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    try:
        reply = await call.host.peers.call(call.host.spec.node_id, message_type, partition, *fields, **named)
    except Unanswered:
        # The client looks for the leader again, and repeats what may be repeated.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return reply if reply.error_code is _NONE else reply.error_code


async def ask_coordinator(
    call: AdminCall,
    role: Role,
    message_type: RequestType[Fields, Answer],
    *fields: Fields.args,
    **named: Fields.kwargs,
) -> Answer | ErrorCode:
    """Ask a coordinator on this node; an error code where there is none here, or where it gives one itself."""
    if role not in call.host.spec.roles:
        return ErrorCode.NOT_COORDINATOR
    try:
        reply = await call.host.peers.call(call.host.spec.node_id, message_type, *fields, **named)
    except Unanswered:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return reply if reply.error_code is _NONE else reply.error_code


async def until_seen(is_so: Callable[[], bool], within_s: float = _SEEN_WITHIN_S) -> None:
    """Wait until this node's metadata shows what the controller has decided, so that the client finds it so.

    Not for long, unless it takes long: other nodes may be later still, and clients know that.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while not is_so() and loop.time() < deadline_s:
        await asyncio.sleep(_LOOK_EVERY_S)
