"""Settings of replication, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from eagleray.broker.settings import NOT_IN_KAFKA, InvalidConfig, Setting, check_ranges

LARGEST_DRIFT_PERCENT: Final = 10
"""By how much the clocks of two machines may differ in speed; what they show does not matter."""


class ReplicationConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How far a follower may lag, how much is pushed at once, and how long a leader may go on without the controller.

    The lease is checked against the session when this is built: a leader must have stopped acknowledging, by its own
    clock, before the controller, by its clock, gives its partitions to others.
    """

    replica_lag_time_max_ms: Annotated[
        int,
        Setting(
            "How long a follower may go without having caught up with its leader before the leader has it taken out of "
            "the in-sync replicas.",
            least=1,
            kafka="30000",
        ),
    ] = 10_000

    replica_push_max_bytes: Annotated[
        int,
        Setting(
            "The most that a leader sends a follower of one partition at once; a single batch that is larger goes "
            "alone.",
            least=1,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 1024**2

    replica_push_timeout_ms: Annotated[
        int,
        Setting(
            "How long a leader waits for the answer of a follower, or of the controller to a change of the in-sync "
            "replicas, before it sends the same again.",
            least=1,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 1000

    broker_session_timeout_ms: Annotated[
        int,
        Setting(
            "How long the controller waits for a heartbeat of a node before it takes the node for dead and gives its "
            "partitions to other leaders.",
            least=1,
            kafka="9000",
        ),
    ] = 3000

    broker_heartbeat_interval_ms: Annotated[
        int,
        Setting(
            "How often a node sends the controller a heartbeat.",
            least=1,
            also="less than `leader.lease.ms`",
            kafka="2000",
        ),
    ] = 500

    leader_lease_ms: Annotated[
        int,
        Setting(
            "How long after its last answered heartbeat a leader may acknowledge writes. It has to end before the "
            "controller, whose clock may run faster, elects another leader.",
            least=1,
            also="at most nine elevenths of `broker.session.timeout.ms`",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 2000

    @property
    def longest_lease_elsewhere_ms(self) -> int:
        """How long, by this clock, any lease may still last that was given until now, whichever clock is faster."""
        return -(-self.leader_lease_ms * (100 + LARGEST_DRIFT_PERCENT) // (100 - LARGEST_DRIFT_PERCENT))

    def __post_init__(self) -> None:
        check_ranges(self)
        longest_lease_ms = (
            self.broker_session_timeout_ms * (100 - LARGEST_DRIFT_PERCENT) // (100 + LARGEST_DRIFT_PERCENT)
        )
        if self.leader_lease_ms > longest_lease_ms:
            raise InvalidConfig(
                f"leader.lease.ms is {self.leader_lease_ms}; expected at most {longest_lease_ms}, so that a leader "
                f"stops before its session of {self.broker_session_timeout_ms} ms ends, whichever clock runs faster"
            )
        if self.broker_heartbeat_interval_ms >= self.leader_lease_ms:
            raise InvalidConfig(
                f"broker.heartbeat.interval.ms is {self.broker_heartbeat_interval_ms}; expected less than the lease "
                f"of {self.leader_lease_ms} ms, which each heartbeat renews"
            )
