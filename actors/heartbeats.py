"""The heartbeats of a node, and the lease that its leaders get for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from eagleray.broker.controller.events import NodeBeat
from eagleray.broker.controller.replica_events import NodeBeatAnswered
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import BrokerHeartbeat, Resigned
from eagleray.broker.replication.lease import Lease
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from eagleray.actors.shell import Host

_log = logging.getLogger(__name__)


class Heartbeats:
    """Shows the controller that this life of its node lasts, as long as another node could take over.

    Owns: the lease, one for each life. When the controller has given this life up, the node begins another. With each
    answer the controller may ask for partitions to be handed over, which `hand_over` is told.
    """

    def __init__(self, host: Host, config: ReplicationConfig, hand_over: Callable[[Resigned], None]) -> None:
        self._host = host
        self._config = config
        self._hand_over = hand_over
        self.lease = Lease(config)
        self.are_needed = False
        """Whether there is another machine: on one alone no node has to show that it is alive."""
        self._next_ms = 0

    def begin_life(self) -> None:
        """Begin without a lease."""
        self.lease = Lease(self._config)
        self.hurry()

    def hurry(self) -> None:
        """Let the next heartbeat be due at once: it has something to tell."""
        self._next_ms = 0

    @property
    def next_due_ms(self) -> int:
        """When it is time to beat."""
        return self._next_ms if self.are_needed and self._host.is_registered else NEVER_MS

    def beat(self, steady_ms: int, resigned: Callable[[], Sequence[Resigned]]) -> None:
        """Beat, if it is time; `resigned` gives what the node has stopped to lead without being told of another."""
        host = self._host
        if steady_ms < self.next_due_ms:
            return
        self._next_ms = steady_ms + self._config.broker_heartbeat_interval_ms
        heartbeat = BrokerHeartbeat(host.spec.node_id, host.incarnation, steady_ms, tuple(resigned()))
        on_reply = partial(self._on_reply, self.lease)
        # Who waits for long on a controller that is gone loses the lease before another is asked.
        host.controller.ask_within(self._config.leader_lease_ms / 4000, on_reply, NodeBeat, heartbeat)

    def _on_reply(self, lease: Lease, reply: NodeBeatAnswered | None) -> None:
        if reply is None or lease is not self.lease or reply.answer.error_code is ErrorCode.NOT_CONTROLLER:
            return
        lease.answered(reply.answer)
        if lease.is_over:
            _log.warning("node %s was given up by the controller, and begins anew", self._host.spec.node_id)
            self._host.begin_life()
            return
        for asked in reply.answer.resign:
            self._hand_over(asked)
