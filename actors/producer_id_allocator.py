"""The producer-id allocator: hands out blocks of producer ids, persisted before they are handed out."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from eagleray.actors.shell import Host, Shell
from eagleray.broker.controller.nodes import Role
from eagleray.broker.filesystem import LocalFileSystem, write_atomically
from eagleray.broker.transactions.producer_ids import (
    NextIdLost,
    NextIdPersisted,
    PersistNextId,
    ProducerIdAllocator,
)
from eagleray.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)


class ProducerIdAllocatorShell(Shell):
    """Keeps the next id that was never given away in a file of its own, flushed, so that no id is given twice."""

    role: ClassVar = Role.ALLOCATOR

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._file_system = LocalFileSystem()
        self._path = f"{host.spec.data_dir}/producer-ids"
        self._file_system.make_directories(host.spec.data_dir)
        self._machine = ProducerIdAllocator(self._read())

    def _read(self) -> int:
        return int(self._file_system.read_bytes(self._path)) if self._file_system.exists(self._path) else 0

    def handle(self, events: list[Any]) -> None:
        """Allocate blocks; all who ask in a turn share one write."""
        for event in events:
            self._tell(event)

    def _tell(self, event: Any) -> None:  # noqa: ANN401 - an event of the allocator
        for effect in self._machine.handle(event):
            if isinstance(effect, PersistNextId):
                self._tell(self._persist(effect.next_id))
            else:
                self.host.answer(effect)

    def _persist(self, next_id: int) -> NextIdPersisted | NextIdLost:
        try:
            write_atomically(self._file_system, self._path, str(next_id).encode())
        except OSError as error:
            _log.error("the next producer id could not be written: %s", error)
            return NextIdLost(next_id, ErrorCode.KAFKA_STORAGE_ERROR)
        return NextIdPersisted(next_id)
