"""Settings of the quorum, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eagleray.broker.replication.config import LARGEST_DRIFT_PERCENT, ReplicationConfig
from eagleray.broker.settings import NOT_IN_KAFKA, InvalidConfig, Setting, check_ranges


class QuorumConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How long voters wait for a leader, and how long a leader may go on without them.

    The lease is checked against the election timeout when this is built: a leader must have stopped answering, by its
    own clock, before the voters that last heard from it, by theirs, vote for another.
    """

    controller_quorum_election_timeout_ms: Annotated[
        int,
        Setting(
            "How long after it last heard from the controller a voter of the metadata quorum votes for no other. It "
            "stands for election itself after one to two times as long.",
            least=1,
        ),
    ] = 1000

    controller_quorum_lease_ms: Annotated[
        int,
        Setting(
            "How long the controller may answer requests after it has sent what a majority of the voters answered. It "
            "has to end before voters, whose clocks may run faster, elect another.",
            least=1,
            also="at most nine elevenths of `controller.quorum.election.timeout.ms`",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 800

    controller_quorum_heartbeat_interval_ms: Annotated[
        int,
        Setting(
            "How often the controller tells the other voters that it is there, when it has no change to send.",
            least=1,
            also="less than `controller.quorum.lease.ms`",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 150

    controller_quorum_push_timeout_ms: Annotated[
        int,
        Setting(
            "How long the controller waits for the answer of another voter before it sends the same again.",
            least=1,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 400

    controller_quorum_push_max_bytes: Annotated[
        int,
        Setting(
            "The most of the metadata log that the controller sends another voter at once.",
            least=1,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 1024**2

    def __post_init__(self) -> None:
        check_ranges(self)
        timeout_ms = self.controller_quorum_election_timeout_ms
        longest_lease_ms = timeout_ms * (100 - LARGEST_DRIFT_PERCENT) // (100 + LARGEST_DRIFT_PERCENT)
        if self.controller_quorum_lease_ms > longest_lease_ms:
            raise InvalidConfig(
                f"controller.quorum.lease.ms is {self.controller_quorum_lease_ms}; expected at most "
                f"{longest_lease_ms}, so that a leader stops before the voters, after "
                f"controller.quorum.election.timeout.ms ({timeout_ms}), choose another, whichever clock runs faster"
            )
        if self.controller_quorum_heartbeat_interval_ms >= self.controller_quorum_lease_ms:
            raise InvalidConfig(
                f"controller.quorum.heartbeat.interval.ms is {self.controller_quorum_heartbeat_interval_ms}; expected "
                f"less than the lease of {self.controller_quorum_lease_ms} ms, which each heartbeat renews"
            )

    @property
    def replication(self) -> ReplicationConfig:
        """The same settings, for the pushes of the log."""
        return ReplicationConfig(
            replica_push_max_bytes=self.controller_quorum_push_max_bytes,
            replica_push_timeout_ms=self.controller_quorum_push_timeout_ms,
        )
