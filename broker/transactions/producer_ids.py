"""The producer-id allocator: hands out blocks of producer ids, no id twice, whatever crashes."""

from __future__ import annotations

from typing import Final, TypeAlias

from eagleray.broker.messages import Message
from eagleray.protocol.errors import ErrorCode

BLOCK_SIZE: Final = 1000
LAST_PRODUCER_ID: Final = 2**63 - 1


class AllocateBlock(Message, frozen=True, tag=True):
    """Somebody needs a block."""

    request_id: int


class NextIdPersisted(Message, frozen=True, tag=True):
    """It is on disk that ids below this one may be in use."""

    next_id: int


class NextIdLost(Message, frozen=True, tag=True):
    """It could not be made sure that this is on disk."""

    next_id: int
    error_code: ErrorCode


class PersistNextId(Message, frozen=True, tag=True):
    """Put on disk that ids below this one may be in use; answered by `NextIdPersisted` or `NextIdLost`."""

    next_id: int


class BlockAllocated(Message, frozen=True, tag=True):
    """Answer a request: a block that nobody else ever gets, or none, with the reason."""

    request_id: int
    error_code: ErrorCode
    first_id: int = -1
    count: int = 0


AllocatorEvent: TypeAlias = AllocateBlock | NextIdPersisted | NextIdLost
AllocatorEffect: TypeAlias = PersistNextId | BlockAllocated


class ProducerIdAllocator:
    """Hands out blocks of producer ids.

    Owns: the first id that was never given away. Persists: that number, before a block below it is handed out; who
    asks meanwhile shares the next write. On failure, and after a restart, blocks that were reserved but not handed out
    are skipped: there are enough.
    """

    def __init__(self, next_id: int = 0) -> None:
        """Begin after the number that was last persisted."""
        self._next_id = next_id
        self._being_persisted: list[int] = []
        self._waiting: list[int] = []

    def handle(self, event: AllocatorEvent) -> list[AllocatorEffect]:
        """Take one event and return what it makes necessary, in order."""
        effects: list[AllocatorEffect] = []
        if isinstance(event, AllocateBlock):
            self._waiting.append(event.request_id)
        elif event.next_id == self._next_id:
            effects += self._answer(event)
        if self._waiting and not self._being_persisted:
            effects += self._reserve()
        return effects

    def _reserve(self) -> list[AllocatorEffect]:
        """Have a block for each who waits put on disk, with one write."""
        next_id = self._next_id + BLOCK_SIZE * len(self._waiting)
        if next_id > LAST_PRODUCER_ID:
            refused, self._waiting = self._waiting, []
            return [BlockAllocated(request_id, ErrorCode.UNKNOWN_SERVER_ERROR) for request_id in refused]
        self._being_persisted, self._waiting = self._waiting, []
        self._next_id = next_id
        return [PersistNextId(self._next_id)]

    def _answer(self, event: NextIdPersisted | NextIdLost) -> list[AllocatorEffect]:
        asked, self._being_persisted = self._being_persisted, []
        if isinstance(event, NextIdLost):
            # The write may still have reached the disk, or not; ids that are never given away do no harm either way.
            return [BlockAllocated(request_id, event.error_code) for request_id in asked]
        first_id = self._next_id - BLOCK_SIZE * len(asked)
        return [
            BlockAllocated(request_id, ErrorCode.NONE, first_id + BLOCK_SIZE * place, BLOCK_SIZE)
            for place, request_id in enumerate(asked)
        ]
