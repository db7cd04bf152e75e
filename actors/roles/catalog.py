"""The class of each role."""

from __future__ import annotations

from typing import Final

from eagleray.actors.roles.controller import ControllerRole
from eagleray.actors.roles.group_coordinator import GroupCoordinatorRole
from eagleray.actors.roles.marker_channel_manager import MarkerChannelManagerRole
from eagleray.actors.roles.partition_leader import PartitionLeaderRole
from eagleray.actors.roles.producer_id_allocator import ProducerIdAllocatorRole
from eagleray.actors.roles.role import Role
from eagleray.actors.roles.transaction_coordinator import TransactionCoordinatorRole

ROLES: Final[dict[str, type[Role]]] = {
    role.process_role: role
    for role in (
        ControllerRole,
        ProducerIdAllocatorRole,
        TransactionCoordinatorRole,
        MarkerChannelManagerRole,
        GroupCoordinatorRole,
        PartitionLeaderRole,
    )
}
