"""Questions that are asked until a node answers them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeAlias

import msgspec

from eagleray.actors.lanes.link import Fields, Reply, RequestType
from eagleray.actors.lanes.messages import Malformed
from eagleray.broker.messages import RequestOf
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.client.errors import EaglerayError, InvalidArgument, NodeUnreachable, NotConnected, error_for
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime, settle
from eagleray.protocol.errors import ErrorCode, ErrorKind

FindNode: TypeAlias = Callable[[], int]
Then: TypeAlias = Callable[[Reply | EaglerayError], None]
"""Takes the answer, or why there is none."""


def first_error(reply: object) -> ErrorCode:
    """Return the error of a reply as a whole."""
    error_code: ErrorCode = getattr(reply, "error_code", ErrorCode.NONE)
    return error_code


def error_in(error_code: ErrorCode, doing: str, reply: object) -> EaglerayError:
    """Return the exception for a reply, with what it says about it."""
    return error_for(error_code, doing, getattr(reply, "message", None))


def is_only_busy(error_code: ErrorCode | None) -> bool:
    """Whether the right node was asked, only too early."""
    return error_code is not None and error_code.kind is ErrorKind.RETRIABLE


class Question(Generic[Reply]):
    """What is asked: the type of a request, and its fields behind the request id."""

    __slots__ = ("fields", "message_type", "named")

    def __init__(
        self, message_type: RequestType[Fields, Reply], /, *fields: Fields.args, **named: Fields.kwargs
    ) -> None:
        self.message_type: Callable[..., RequestOf[Reply]] = message_type
        self.fields: tuple[object, ...] = fields
        self.named: dict[str, object] = named


class RepeatedCall(msgspec.Struct, Generic[Reply], eq=False):
    """A question to whichever node is responsible, until the answer is more than "try again".

    Only for what may be repeated. No answer, and errors that a retry can mend, are followed by another attempt, after
    a pause that grows and with fresh metadata, until the time of the policy is over. Owns: the attempt that is under
    way, or the pause before the next. It knows no loop: peers call it with replies, the runtime after a pause, and
    its owner tells it the time by `tick`. `then` is called once for each `ask`, unless `cancel` comes before.
    """

    _runtime: ClientRuntime
    _find_node: FindNode
    doing: str
    _then: Then[Reply]
    retry_policy: RetryPolicy
    error_of: Callable[[Reply], ErrorCode] = first_error
    exception_for: Callable[[ErrorCode, str, Reply], EaglerayError] = error_in
    is_watched: bool = False
    _question: Question[Reply] | None = None
    _attempt: int = 0
    _node_id: int = NO_NODE
    _failures: int = 0
    _deadline_ms: int = NEVER_MS
    _due_ms: int = NEVER_MS
    """When all of it is over, and when the attempt that is under way is."""

    def ask(self, question: Question[Reply]) -> None:
        """Begin to ask; what was asked before is given up."""
        self._question = question
        self._failures = 0
        now_ms = self._runtime.now_ms()
        self._deadline_ms = now_ms + self.retry_policy.total_ms
        self._try(question, now_ms)

    def cancel(self) -> None:
        """Ask no more, and tell no outcome."""
        self._question = None
        self._attempt += 1

    def tick(self, now_ms: int) -> bool:
        """Take an attempt that was not answered in time as one that failed; return whether this is under way."""
        if self._question is not None and now_ms >= self._due_ms:
            self._again(self._unanswered())
        return self._question is not None

    def _try(self, question: Question[Reply], now_ms: int) -> None:
        self._attempt += 1
        self._node_id = node_id = self._find_node()
        if node_id == NO_NODE:
            self._again(NotConnected(f"{self.doing}: no node is known to be responsible."))
            return
        self._due_ms = min(now_ms + self.retry_policy.request_ms, self._deadline_ms)
        on_reply = partial(self._on_reply, self._attempt)
        self._runtime.ask(node_id, on_reply, question.message_type, *question.fields, **question.named)

    def _on_reply(self, attempt: int, reply: Reply | Malformed | None) -> None:
        if attempt != self._attempt:
            return
        if reply is None:
            self._again(self._unanswered())
        elif isinstance(reply, Malformed):
            self._settle(InvalidArgument(f"{self.doing}: {reply.message}.", reply.error_code))
        elif (error_code := self.error_of(reply)) is ErrorCode.NONE:
            self._settle(reply)
        else:
            problem = self.exception_for(error_code, self.doing, reply)
            if error_code.is_retriable:
                self._again(problem)
            else:
                self._settle(problem)

    def _unanswered(self) -> NotConnected:
        """Return the exception for a node that did not answer, which says so where its port is the reason."""
        why = self._runtime.peers.why_unreachable(self._node_id)
        if why is not None:
            return NodeUnreachable(f"{self.doing}: {why}.")
        return NotConnected(f"{self.doing}: node {self._node_id} did not answer.")

    def _again(self, problem: EaglerayError) -> None:
        self._attempt += 1
        self._due_ms = NEVER_MS
        left_ms = self._deadline_ms - self._runtime.now_ms()
        if left_ms <= 0:
            self._settle(problem)
            return
        if not is_only_busy(problem.error_code):
            self._runtime.view.refresh()
        pause_ms = min(self.retry_policy.pause_ms(self._failures), left_ms)
        self._failures += 1
        self._runtime.later(pause_ms, partial(self._after_pause, self._attempt))

    def _after_pause(self, attempt: int) -> None:
        if attempt == self._attempt and self._question is not None:
            self._try(self._question, self._runtime.now_ms())

    def _settle(self, outcome: Reply | EaglerayError) -> None:
        self._question = None
        self._attempt += 1
        self._then(outcome)


async def call_with_retries(
    runtime: ClientRuntime,
    find_node: FindNode,
    doing: str,
    question: Question[Reply],
    *,
    retry_policy: RetryPolicy,
    error_of: Callable[[Reply], ErrorCode] = first_error,
    exception_for: Callable[[ErrorCode, str, Reply], EaglerayError] = error_in,
) -> Reply:
    """Ask by a `RepeatedCall` and wait for the outcome; raise why there is no answer."""
    outcome: asyncio.Future[Reply | EaglerayError] = runtime.loop.create_future()
    call = RepeatedCall(
        runtime,
        find_node,
        doing,
        partial(settle, outcome),
        retry_policy=retry_policy,
        error_of=error_of,
        exception_for=exception_for,
    )
    runtime.watch(call)
    call.ask(question)
    try:
        found = await outcome
    finally:
        call.cancel()
    if isinstance(found, EaglerayError):
        raise found
    return found


async def pause(runtime: ClientRuntime, pause_ms: float) -> None:
    """Wait."""
    done: asyncio.Future[None] = runtime.loop.create_future()
    timer = runtime.later(pause_ms, partial(settle, done, None))
    try:
        await done
    finally:
        timer.cancel()
