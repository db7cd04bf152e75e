"""The producer-id allocator: hands out blocks of producer ids that the controller has reserved."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Protocol

from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.actors.roles.role import Role, RoleContext
from eagleray.broker.controller.events import ProducerIdsReserved, ReserveProducerIds
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.transactions.producer_ids import BLOCK_SIZE, AllocateBlock, BlockAllocated
from eagleray.protocol.errors import ErrorCode


class ProducerIdAllocatorContext(RoleContext, Protocol):
    """What else the producer-id allocator uses of its node: the way to the controller."""

    controller: ControllerChannel


class ProducerIdAllocatorRole(Role):
    """Passes on what coordinators ask, and what the controller answers.

    Owns and persists nothing: the controller's log says up to where ids were reserved, and no id is handed out before
    that. A block whose answer is lost is never used; there are enough.
    """

    process_role: ClassVar = ProcessRole.ALLOCATOR
    context: ProducerIdAllocatorContext

    def __init__(self, context: ProducerIdAllocatorContext) -> None:
        super().__init__(context)

    def handle(self, events: list[AllocateBlock]) -> None:
        """Have the controller reserve a block for each request."""
        for event in events:
            self.context.controller.ask(partial(self._answer, event.request_id), ReserveProducerIds, BLOCK_SIZE)

    def _answer(self, request_id: int, reply: ProducerIdsReserved | None) -> None:
        if reply is None:
            self.context.answer(BlockAllocated(request_id, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self.context.answer(BlockAllocated(request_id, reply.error_code, reply.first_id, reply.count))
