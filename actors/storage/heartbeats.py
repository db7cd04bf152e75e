"""The heartbeats of a node to the controller, and the lease that its leaders get for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from eagleray.broker.controller.replica_events import NodeBeat, NodeBeatAnswered
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import BrokerHeartbeat, Resigned
from eagleray.broker.replication.lease import Lease
from eagleray.broker.runtime.deadlines import NEVER_MS

if TYPE_CHECKING:
    from eagleray.actors.storage.context import StorageContext

_log = logging.getLogger(__name__)


class Heartbeats:
    """Shows the controller that this incarnation of its node is alive, as long as another node could take over.

    Owns: the lease, one for each incarnation. When the controller has fenced this incarnation, the node starts another.
    With an answer the controller may ask for partitions to be handed over; `hand_over` is called with them.
    """

    def __init__(
        self, context: StorageContext, config: ReplicationConfig, hand_over: Callable[[Resigned], None]
    ) -> None:
        self._context = context
        self._config = config
        self._hand_over = hand_over
        self.lease = Lease(config)
        self.are_needed = False
        """Whether there is another machine: on a single one no node has to show that it is alive."""
        self._next_ms = 0

    def start_incarnation(self) -> None:
        """Start without a lease."""
        self.lease = Lease(self._config)
        self.hurry()

    def hurry(self) -> None:
        """Make the next heartbeat due at once: it has something to tell."""
        self._next_ms = 0

    @property
    def next_due_ms(self) -> int:
        """When the next heartbeat is due."""
        return self._next_ms if self.are_needed and self._context.is_registered else NEVER_MS

    def beat(self, steady_ms: int, resigned: Callable[[], Sequence[Resigned]]) -> None:
        """Send a heartbeat, if one is due; `resigned` gives the leaderships that the node resigned and no other took
        yet.
        """
        context = self._context
        if steady_ms < self.next_due_ms:
            return
        self._next_ms = steady_ms + self._config.broker_heartbeat_interval_ms
        heartbeat = BrokerHeartbeat(context.spec.node_id, context.incarnation, steady_ms, tuple(resigned()))
        on_reply = partial(self._on_reply, self.lease)
        # A node that waits for long on a controller that is gone would lose the lease before it asks another.
        context.controller.ask_within(self._config.leader_lease_ms / 4000, on_reply, NodeBeat, heartbeat)

    def _on_reply(self, lease: Lease, reply: NodeBeatAnswered | None) -> None:
        if reply is None or lease is not self.lease:
            return
        lease.answered(reply.answer)
        if lease.is_over:
            _log.warning(
                "the controller has fenced node %s; it registers again as another incarnation",
                self._context.spec.node_id,
            )
            self._context.start_incarnation()
            return
        for asked in reply.answer.resign:
            self._hand_over(asked)
