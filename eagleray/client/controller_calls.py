"""Questions to the controller, whichever of several nodes it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from eagleray.client.calls import Patience, call_patiently, error_in
from eagleray.client.errors import EaglerayError
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

_CONTROLLER_MS = 5000


def whole_error(reply: Any, is_repeated: bool) -> ErrorCode:  # noqa: ANN401, ARG001 - any reply, first or not
    """Return the error of a reply as a whole."""
    error_code: ErrorCode = reply.error_code
    return error_code


async def ask_controller(
    runtime: ClientRuntime,
    doing: str,
    message_type: type,
    *fields: object,
    patience: Patience,
    error_of: Callable[[Any, bool], ErrorCode] = whole_error,
    exception_for: Callable[[ErrorCode, str, Any], EaglerayError] = error_in,
) -> Any:  # noqa: ANN401 - the reply that belongs to the request
    """Ask until the controller has answered; each attempt tries another node that may be the controller.

    `error_of` is told whether an attempt before this one was left without an answer and may have been carried out.
    """
    view, attempts = runtime.view, 0

    def controller() -> int:
        nonlocal attempts
        if attempts:
            view.try_next_controller()
        attempts += 1
        return view.controller()

    return await call_patiently(
        runtime,
        controller,
        doing,
        message_type,
        *fields,
        patience=_with_controllers(runtime, patience),
        error_of=lambda reply: error_of(reply, attempts > 1),
        exception_for=exception_for,
    )


def _with_controllers(runtime: ClientRuntime, patience: Patience) -> Patience:
    """Where there are several controllers, a silent one is not waited for as long as one alone."""
    if len(runtime.view.controllers) < 2:
        return patience
    return msgspec.structs.replace(patience, request_ms=min(patience.request_ms, _CONTROLLER_MS))
