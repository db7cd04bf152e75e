"""What all requests to a controller, and all of its answers, have in common."""

from __future__ import annotations

from typing import Generic, TypeVar

from eagleray.broker.messages import Message, RequestOf
from eagleray.protocol.errors import ErrorCode

_Reply_co = TypeVar("_Reply_co", bound="ControllerReply", covariant=True)


class ControllerReply(Message, frozen=True):
    """An answer of a controller, or of a node that is taken for it."""

    request_id: int

    def says(self, error_code: ErrorCode) -> bool:
        """Whether this is the answer to the request as a whole."""
        raise NotImplementedError


class CodedReply(ControllerReply, frozen=True):
    """An answer with one code."""

    error_code: ErrorCode

    def says(self, error_code: ErrorCode) -> bool:
        """Whether this is its code."""
        return self.error_code is error_code


class ControllerRequest(RequestOf[_Reply_co], Generic[_Reply_co], frozen=True):
    """A question to the controller, which knows how it is answered where the controller does not look at it."""

    def refused(self, error_code: ErrorCode, message: str | None = None) -> _Reply_co:
        """Return the answer that refuses all of it."""
        raise NotImplementedError
