"""Requests that fail by an error which was not foreseen: how they are answered, and what a coordinator asks for."""

from __future__ import annotations

import sys
from typing import Any, ForwardRef, get_args, get_origin

from eagleray.broker.messages import Message
from eagleray.protocol.errors import ErrorCode


class RequestFailed(Message, frozen=True, tag=True):
    """Note in the node's log, and count, that a request has failed by a mistake of ours."""

    request: Any
    error: Any


class ReloadPartition(Message, frozen=True, tag=True):
    """Load a partition of the log again: its state was thrown away, because a request may have changed it by half.

    `PartitionLoaded` has to follow, at the same epoch, as after `AppendFailed`.
    """

    log_partition: int
    coordinator_epoch: int


def failed_answer(request: Any) -> Any:  # noqa: ANN401 - whatever was asked
    """Give the answer to a request that has failed unexpectedly: UNKNOWN_SERVER_ERROR, in a reply of its own type."""
    if hasattr(request, "refused"):
        return request.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    return reply_type_of(type(request))(request.request_id, ErrorCode.UNKNOWN_SERVER_ERROR)


def reply_type_of(request_type: type) -> type[Any]:
    """Return the type of the replies to a request, which is the parameter of its `RequestOf`."""
    for base in getattr(request_type, "__orig_bases__", ()):
        if get_origin(base) is not None:
            (reply,) = get_args(base)
            named = reply.__forward_arg__ if isinstance(reply, ForwardRef) else reply
            found: type[Any] = getattr(sys.modules[request_type.__module__], named) if isinstance(named, str) else named
            return found
    raise TypeError(f"{request_type.__name__} is no request")
