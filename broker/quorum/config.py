"""Settings of the quorum, under Kafka's own names where Kafka has one."""

from __future__ import annotations

import msgspec

from eagleray.broker.replication.config import LARGEST_DRIFT_PERCENT, ReplicationConfig


class QuorumConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How long voters wait for a leader, and how long a leader may go on without them.

    The lease is checked against the election timeout when this is built: a leader must have stopped answering, by its
    own clock, before those who last heard from it, by theirs, vote for another.
    """

    controller_quorum_election_timeout_ms: int = 1000
    """For how long after hearing from a leader a voter votes for nobody; it stands itself after up to twice that."""

    controller_quorum_lease_ms: int = 800
    """How long after sending what a majority has answered a leader may answer others."""

    controller_quorum_heartbeat_interval_ms: int = 150
    """After how long without anything to tell a leader tells its followers that it is there."""

    controller_quorum_push_timeout_ms: int = 400
    """After how long a push is taken for lost and sent again."""

    controller_quorum_push_max_bytes: int = 1024**2

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name.replace('_', '.')} is {getattr(self, name)}; expected 1 or more")
        timeout_ms = self.controller_quorum_election_timeout_ms
        longest_lease_ms = timeout_ms * (100 - LARGEST_DRIFT_PERCENT) // (100 + LARGEST_DRIFT_PERCENT)
        if self.controller_quorum_lease_ms > longest_lease_ms:
            raise ValueError(
                f"controller.quorum.lease.ms is {self.controller_quorum_lease_ms}; expected at most "
                f"{longest_lease_ms}, so that a leader stops before the voters, after "
                f"controller.quorum.election.timeout.ms ({timeout_ms}), choose another, whichever clock runs faster"
            )
        if self.controller_quorum_heartbeat_interval_ms >= self.controller_quorum_lease_ms:
            raise ValueError(
                f"controller.quorum.heartbeat.interval.ms is {self.controller_quorum_heartbeat_interval_ms}; expected "
                f"less than the lease of {self.controller_quorum_lease_ms} ms, which each heartbeat renews"
            )

    @property
    def replication(self) -> ReplicationConfig:
        """The same, for what pushes."""
        return ReplicationConfig(
            replica_push_max_bytes=self.controller_quorum_push_max_bytes,
            replica_push_timeout_ms=self.controller_quorum_push_timeout_ms,
        )
