"""Questions that are asked until a node answers them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from eagleray.actors.lanes.link import Reply
from eagleray.actors.messages import Malformed
from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.messages import RequestOf
from eagleray.client.errors import EaglerayError, InvalidArgument, NodeUnreachable, NotConnected, error_for
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode, ErrorKind

FindNode = Callable[[], int]


class Backoff:
    """Pauses that grow: the first, then twice as long each time, up to the longest."""

    __slots__ = ("_first_ms", "_longest_ms", "attempts")

    def __init__(self, first_ms: int, longest_ms: int) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self.attempts = 0

    def next_ms(self) -> int:
        """Return the pause before the next try."""
        pause_ms = min(self._first_ms << min(self.attempts, 16), self._longest_ms)
        self.attempts += 1
        return pause_ms


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long, and how often, a client asks a question."""

    total_ms: int = 60_000
    request_ms: int = 30_000
    backoff_ms: int = 20
    backoff_max_ms: int = 200


def first_error(reply: object) -> ErrorCode:
    """Return the error of a reply as a whole."""
    error_code: ErrorCode = getattr(reply, "error_code", ErrorCode.NONE)
    return error_code


def error_in(error_code: ErrorCode, doing: str, reply: object) -> EaglerayError:
    """Return the exception for a reply, with what it says about it."""
    return error_for(error_code, doing, getattr(reply, "message", None))


async def call_with_retries(
    runtime: ClientRuntime,
    find_node: FindNode,
    doing: str,
    message_type: Callable[..., RequestOf[Reply]],
    *fields: object,
    retry_policy: RetryPolicy,
    error_of: Callable[[Reply], ErrorCode] = first_error,
    exception_for: Callable[[ErrorCode, str, Reply], EaglerayError] = error_in,
) -> Reply:
    """Ask the node that is responsible until the answer is more than "try again"; raise what it says otherwise.

    Only for requests that may be repeated. No answer, and errors that a retry can mend, are tried again with growing
    pauses and fresh metadata until `retry_policy.total_ms` are over.
    """
    deadline_ms = runtime.now_ms() + retry_policy.total_ms
    backoff = Backoff(retry_policy.backoff_ms, retry_policy.backoff_max_ms)
    problem: EaglerayError = NotConnected(f"{doing}: no node is known to be responsible.")
    while True:
        node_id = find_node()
        if node_id != NO_NODE:
            left_ms = max(deadline_ms - runtime.now_ms(), 1)
            reply = await runtime.call(node_id, min(left_ms, retry_policy.request_ms), message_type, *fields)
            if isinstance(reply, Malformed):
                raise InvalidArgument(f"{doing}: {reply.message}.", reply.error_code)
            if reply is None:
                problem = unanswered(runtime, doing, node_id)
            else:
                error_code = error_of(reply)
                if error_code is ErrorCode.NONE:
                    return reply
                problem = exception_for(error_code, doing, reply)
                if not error_code.is_retriable:
                    raise problem
        if runtime.now_ms() >= deadline_ms:
            raise problem
        if node_id == NO_NODE or not is_only_busy(problem.error_code):
            runtime.view.refresh()
        await pause(runtime, min(backoff.next_ms(), max(deadline_ms - runtime.now_ms(), 1)))


def unanswered(runtime: ClientRuntime, doing: str, node_id: int) -> NotConnected:
    """Return the exception for a node that did not answer, which says so where its port is the reason."""
    why = runtime.peers.why_unreachable(node_id)
    if why is not None:
        return NodeUnreachable(f"{doing}: {why}.")
    return NotConnected(f"{doing}: node {node_id} did not answer.")


def is_only_busy(error_code: ErrorCode | None) -> bool:
    """Whether the right node was asked, only too early."""
    return error_code is not None and error_code.kind is ErrorKind.RETRIABLE


async def pause(runtime: ClientRuntime, pause_ms: float) -> None:
    """Wait."""
    done = runtime.loop.create_future()
    timer = runtime.later(pause_ms, lambda: None if done.done() else done.set_result(None))
    try:
        await done
    finally:
        timer.cancel()
