"""Questions to the controller, whichever of several nodes it is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from eagleray.actors.lanes.link import Reply
from eagleray.client.calls import Question, call_with_retries, error_in, first_error
from eagleray.client.errors import EaglerayError
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

_CONTROLLER_MS = 5000


def whole_error(reply: object, may_be_done: bool) -> ErrorCode:  # noqa: ARG001 - first or not
    """Return the error of a reply as a whole."""
    return first_error(reply)


async def ask_controller(
    runtime: ClientRuntime,
    doing: str,
    question: Question[Reply],
    *,
    retry_policy: RetryPolicy,
    error_of: Callable[[Reply, bool], ErrorCode] = whole_error,
    exception_for: Callable[[ErrorCode, str, Reply], EaglerayError] = error_in,
) -> Reply:
    """Ask until the controller has answered; each attempt tries another node that may be the controller.

    `error_of` is told whether an attempt before this one may have been carried out, because no answer of it came.
    """
    view, attempts, refused = runtime.view, 0, 0

    def controller() -> int:
        nonlocal attempts
        if attempts:
            view.try_next_controller()
        attempts += 1
        return view.controller()

    def error_in_reply(reply: Reply) -> ErrorCode:
        nonlocal refused
        error_code = error_of(reply, attempts - refused > 1)
        # Another controller was asked, which has done nothing; all other errors that pass may leave something done.
        refused += error_code is ErrorCode.NOT_CONTROLLER
        return error_code

    return await call_with_retries(
        runtime,
        controller,
        doing,
        question,
        retry_policy=_with_controllers(runtime, retry_policy),
        error_of=error_in_reply,
        exception_for=exception_for,
    )


def _with_controllers(runtime: ClientRuntime, retry_policy: RetryPolicy) -> RetryPolicy:
    """Where there are several controllers, a silent one is not waited for as long as one alone."""
    if len(runtime.view.controllers) < 2:
        return retry_policy
    return msgspec.structs.replace(retry_policy, request_ms=min(retry_policy.request_ms, _CONTROLLER_MS))
