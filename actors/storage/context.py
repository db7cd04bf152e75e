"""What the replicas and logs of a node see of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.actors.common.node_timer import NodeTimer
from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.lanes.peers import Peers
from eagleray.actors.lanes.turn import Turn
from eagleray.actors.storage.disk import Disk
from eagleray.actors.storage.disk_guard import DiskGuard
from eagleray.broker.messages import Message
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.runtime.clock_watch import ClockWatch

if TYPE_CHECKING:
    from eagleray.actors.storage.replica_manager import ReplicaManager


class Clock(Protocol):
    """The clock of the node."""

    @property
    def watch(self) -> ClockWatch:
        """What is made of the wall clock and of the steady one."""

    @property
    def may_expire(self) -> bool:
        """Whether anything may expire by the time of day."""


class StorageContext(Protocol):
    """The node as its storage sees it."""

    spec: NodeSpec
    loop: asyncio.AbstractEventLoop
    turn: Turn
    timer: NodeTimer
    peers: Peers
    controller: ControllerChannel
    image: MetadataImage
    is_registered: bool
    replica_manager: ReplicaManager
    disk: Disk
    disk_guard: DiskGuard

    @property
    def incarnation(self) -> int:
        """Which incarnation of the node this is."""

    @property
    def clock(self) -> Clock:
        """What is known of the time of day."""

    def now_ms(self) -> int:
        """The time of day: for what is written down, and for what is old by what was written down."""

    def steady_ms(self) -> int:
        """The time by a clock that is never set; leases and all other durations go by it."""

    def start_incarnation(self) -> None:
        """Give up everything that is led here, and register again as another incarnation, soon.

        The replicas say then what of them others can count on no longer.
        """

    def answer(self, reply: Message) -> None:
        """Send an answer to the session that asked."""

    def request_failed(self, host: str, request: str, error: BaseException) -> None:
        """Log that a request of a host has failed by a mistake of ours, which has changed nothing, and count it."""

    def fail(self, error: BaseException) -> None:
        """End the process: what has happened must not go on. It is started again and recovers from its disk."""
