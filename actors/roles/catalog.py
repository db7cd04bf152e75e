"""The class of each role, and what they use of their node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from eagleray.actors.roles.controller import ControllerContext, ControllerRole
from eagleray.actors.roles.group_coordinator import GroupCoordinatorRole
from eagleray.actors.roles.marker_channel_manager import MarkerChannelManagerContext, MarkerChannelManagerRole
from eagleray.actors.roles.partition_leader import PartitionLeaderContext, PartitionLeaderRole
from eagleray.actors.roles.producer_id_allocator import ProducerIdAllocatorContext, ProducerIdAllocatorRole
from eagleray.actors.roles.role import Role
from eagleray.actors.roles.transaction_coordinator import TransactionCoordinatorContext, TransactionCoordinatorRole


class BrokerContext(
    ControllerContext,
    ProducerIdAllocatorContext,
    TransactionCoordinatorContext,
    MarkerChannelManagerContext,
    PartitionLeaderContext,
    Protocol,
):
    """The node as all of its roles together see it."""


ROLES: Final[dict[str, Callable[[BrokerContext], Role]]] = {
    ControllerRole.process_role: ControllerRole,
    ProducerIdAllocatorRole.process_role: ProducerIdAllocatorRole,
    TransactionCoordinatorRole.process_role: TransactionCoordinatorRole,
    MarkerChannelManagerRole.process_role: MarkerChannelManagerRole,
    GroupCoordinatorRole.process_role: GroupCoordinatorRole,
    PartitionLeaderRole.process_role: PartitionLeaderRole,
}
