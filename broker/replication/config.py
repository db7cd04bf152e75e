"""Settings of replication, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Final

import msgspec

LARGEST_DRIFT_PERCENT: Final = 10
"""By how much the clocks of two machines may differ in speed; what they show does not matter."""


class ReplicationConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How far a follower may lag, how much is pushed at once, and how long a leader may go on without the controller.

    The lease is checked against the session when this is built: a leader must have stopped acknowledging, by its own
    clock, before the controller, by its clock, gives its partitions to others.
    """

    replica_lag_time_max_ms: int = 10_000
    replica_push_max_bytes: int = 1024**2
    """How much one push carries; a single batch that is larger goes alone."""

    replica_push_timeout_ms: int = 1000
    """After how long a push, or a proposal to the controller, is taken for lost and sent again."""

    broker_session_timeout_ms: int = 3000
    """After how long without a heartbeat the controller takes a node for dead."""

    broker_heartbeat_interval_ms: int = 500
    leader_lease_ms: int = 2000
    """How long after sending a heartbeat that was answered a leader may acknowledge."""

    @property
    def longest_lease_elsewhere_ms(self) -> int:
        """After how long, by this clock, a lease has ended that was given by now, whichever clock is faster."""
        return -(-self.leader_lease_ms * (100 + LARGEST_DRIFT_PERCENT) // (100 - LARGEST_DRIFT_PERCENT))

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 1 or more")
        longest_lease_ms = (
            self.broker_session_timeout_ms * (100 - LARGEST_DRIFT_PERCENT) // (100 + LARGEST_DRIFT_PERCENT)
        )
        if self.leader_lease_ms > longest_lease_ms:
            raise ValueError(
                f"leader_lease_ms is {self.leader_lease_ms}; expected at most {longest_lease_ms}, so that a leader "
                f"stops before its session of {self.broker_session_timeout_ms} ms ends, whichever clock runs faster"
            )
        if self.broker_heartbeat_interval_ms >= self.leader_lease_ms:
            raise ValueError(
                f"broker_heartbeat_interval_ms is {self.broker_heartbeat_interval_ms}; expected less than the lease "
                f"of {self.leader_lease_ms} ms, which each heartbeat renews"
            )
