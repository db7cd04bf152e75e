"""Blocks of producer ids: what a coordinator asks the producer-id allocator for."""

from __future__ import annotations

from typing import Final

from eagleray.broker.messages import Message, RequestOf
from eagleray.protocol.errors import ErrorCode

BLOCK_SIZE: Final = 1000


class AllocateBlock(RequestOf["BlockAllocated"], frozen=True, tag="AllocateBlock"):
    """A coordinator needs a block; answered by `BlockAllocated`."""


class BlockAllocated(Message, frozen=True, tag="BlockAllocated"):
    """The answer to `AllocateBlock`: a block that no other coordinator ever gets, or none, with the reason."""

    request_id: int
    error_code: ErrorCode
    first_id: int = -1
    count: int = 0
