"""The producer-id allocator: hands out blocks of producer ids that the controller has reserved."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from eagleray.actors.shell import Host, Shell
from eagleray.broker.controller.events import ReserveProducerIds
from eagleray.broker.controller.nodes import Role
from eagleray.broker.transactions.producer_ids import IdsNotReserved, IdsReserved, ProducerIdAllocator, ReserveIds
from eagleray.protocol.errors import ErrorCode


class ProducerIdAllocatorShell(Shell):
    """Asks the controller for its machine. Every machine may have an allocator; what one has reserved no other gets.

    Clusters of earlier versions kept the next id in a file of the allocator's own; ids below it are never given again.
    """

    role: ClassVar = Role.ALLOCATOR

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._machine = ProducerIdAllocator()
        disk, path = host.disk, f"{host.spec.data_dir}/producer-ids"
        self._at_least = int(disk.read_bytes(path)) if disk.exists(path) else 0

    def handle(self, events: list[Any]) -> None:
        """Allocate blocks; all who ask in a turn share one reservation."""
        for event in events:
            for effect in self._machine.handle(event):
                if isinstance(effect, ReserveIds):
                    on_reply = partial(self._on_reserved, effect.token)
                    self.host.controller.ask(on_reply, ReserveProducerIds, effect.count, self._at_least)
                else:
                    self.host.answer(effect)

    def _on_reserved(self, token: int, reply: Any) -> None:  # noqa: ANN401 - ProducerIdsReserved, or None
        if reply is None:
            self.post(IdsNotReserved(token, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif reply.error_code is not ErrorCode.NONE:
            self.post(IdsNotReserved(token, reply.error_code))
        else:
            self.post(IdsReserved(token, reply.first_id))
