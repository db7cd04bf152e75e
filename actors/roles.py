"""Which shell plays which role."""

from __future__ import annotations

from typing import Final

from eagleray.actors.controller import ControllerShell
from eagleray.actors.group_coordinator import GroupCoordinatorShell
from eagleray.actors.marker_channel_manager import MarkerChannelManagerShell
from eagleray.actors.partition_leader import PartitionLeaderShell
from eagleray.actors.producer_id_allocator import ProducerIdAllocatorShell
from eagleray.actors.shell import Shell
from eagleray.actors.transaction_coordinator import TransactionCoordinatorShell

SHELLS: Final[dict[str, type[Shell]]] = {
    shell.role: shell
    for shell in (
        ControllerShell,
        ProducerIdAllocatorShell,
        TransactionCoordinatorShell,
        MarkerChannelManagerShell,
        GroupCoordinatorShell,
        PartitionLeaderShell,
    )
}
