"""The lease of a node: how long its leaders may acknowledge without having heard from the controller."""

from __future__ import annotations

from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import BrokerHeartbeatAnswered
from eagleray.protocol.errors import ErrorCode

_NEVER = -1


class Lease:
    """Lets the leaders of one node, in one of its incarnations, acknowledge.

    Owns: until when, by the node's own monotonic clock.
    Persists: nothing; each incarnation begins without a lease. An answered heartbeat extends the lease to
    `leader_lease_ms` after it was *sent*; the controller waits for longer than that, whatever the clocks' speeds, after
    it *came*. An answer counts only once the node knows the metadata as of that answer, because the controller may have
    elected other leaders before it answered. Once the controller has fenced the node, the lease is over for good, and
    the node starts another incarnation by registering.
    """

    def __init__(self, config: ReplicationConfig) -> None:
        self._lease_ms = config.leader_lease_ms
        self._until_ms = _NEVER
        self._known_version = -1
        self._awaited: list[tuple[int, int]] = []
        self.is_over = False

    def holds(self, now_ms: int) -> bool:
        """Whether a leader may acknowledge now."""
        return now_ms < self._until_ms and not self.is_over

    def answered(self, event: BrokerHeartbeatAnswered) -> None:
        """Take the controller's answer to a heartbeat."""
        if event.error_code is ErrorCode.STALE_BROKER_EPOCH:
            self.is_over = True
        elif event.error_code is ErrorCode.NONE:
            self._awaited.append((event.metadata_version, event.sent_ms + self._lease_ms))
            self.knows(self._known_version)

    def knows(self, metadata_version: int) -> None:
        """Note which version of the metadata the node has applied to all of its replicas."""
        self._known_version = max(self._known_version, metadata_version)
        for version, until_ms in self._awaited:
            if version <= self._known_version:
                self._until_ms = max(self._until_ms, until_ms)
        self._awaited = [awaited for awaited in self._awaited if awaited[0] > self._known_version]
