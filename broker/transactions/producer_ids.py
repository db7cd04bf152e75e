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


class IdsReserved(Message, frozen=True, tag=True):
    """These ids are the allocator's for good."""

    token: int
    first_id: int


class IdsNotReserved(Message, frozen=True, tag=True):
    """No ids came; some may be reserved that nobody will ever use."""

    token: int
    error_code: ErrorCode


class ReserveIds(Message, frozen=True, tag=True):
    """Have the controller reserve as many ids as nobody ever had; answered by `IdsReserved` or `IdsNotReserved`."""

    token: int
    count: int


class BlockAllocated(Message, frozen=True, tag=True):
    """Answer a request: a block that nobody else ever gets, or none, with the reason."""

    request_id: int
    error_code: ErrorCode
    first_id: int = -1
    count: int = 0


AllocatorEvent: TypeAlias = AllocateBlock | IdsReserved | IdsNotReserved
AllocatorEffect: TypeAlias = ReserveIds | BlockAllocated


class ProducerIdAllocator:
    """Hands out blocks of producer ids.

    Owns: who waits for a block. Persists: nothing itself; the controller's log says up to where ids were reserved, and
    every id is reserved before it is handed out. Who asks while a reservation is under way shares the next. On failure,
    and after a restart, ids that were reserved but not handed out are skipped: there are enough.
    """

    def __init__(self) -> None:
        self._token = 0
        self._being_reserved: list[int] = []
        self._waiting: list[int] = []

    def handle(self, event: AllocatorEvent) -> list[AllocatorEffect]:
        """Take one event and return what it makes necessary, in order."""
        effects: list[AllocatorEffect] = []
        if isinstance(event, AllocateBlock):
            self._waiting.append(event.request_id)
        elif event.token == self._token:
            effects += self._answer(event)
        if self._waiting and not self._being_reserved:
            effects.append(self._reserve())
        return effects

    def _reserve(self) -> ReserveIds:
        """Have a block reserved for each who waits, at once."""
        self._being_reserved, self._waiting = self._waiting, []
        self._token += 1
        return ReserveIds(self._token, BLOCK_SIZE * len(self._being_reserved))

    def _answer(self, event: IdsReserved | IdsNotReserved) -> list[AllocatorEffect]:
        asked, self._being_reserved = self._being_reserved, []
        if isinstance(event, IdsNotReserved):
            return [BlockAllocated(request_id, event.error_code) for request_id in asked]
        return [
            BlockAllocated(request_id, ErrorCode.NONE, event.first_id + BLOCK_SIZE * place, BLOCK_SIZE)
            for place, request_id in enumerate(asked)
        ]
