"""Settings of a group coordinator, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Annotated, Final

from eagleray.broker.groups.consumer.config import ConsumerGroupConfig
from eagleray.broker.runtime.connection_guard_mode import ConnectionGuardMode, TransactionV1Guard
from eagleray.broker.settings import INT32_MAX, NOT_IN_KAFKA, Changed, InvalidConfig, Setting, key_of

_MINUTE_MS = 60 * 1000

LONGEST_TEXT: Final = (2**15 - 1) // 4
"""How many characters surely fit into a text of Kafka's records, which has two bytes for its length."""


LONGEST_TIME_MS: Final = INT32_MAX
"""What fits into the four bytes that Kafka's records have for a timeout."""

OffsetsPartitions = Annotated[
    int,
    Setting(
        "The number of partitions of `__consumer_offsets`. Groups are spread over them by hash, and each is led by a "
        "group coordinator.",
        least=1,
        changed=Changed.NEVER,
    ),
]


class GroupConfig(ConsumerGroupConfig, frozen=True, kw_only=True):
    """How groups are spread, how long what they have committed is kept, and what their members may ask for."""

    offsets_topic_num_partitions: OffsetsPartitions = 50

    max_groups_per_partition: Annotated[
        int,
        Setting(
            "The number of groups that a partition of `__consumer_offsets` keeps. Where there are more, those that "
            "have neither members nor offsets make room; where there is none, a new one is refused with "
            "POLICY_VIOLATION.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="groups with neither members nor offsets make room, else POLICY_VIOLATION",
        ),
    ] = 10_000

    max_members_per_partition: Annotated[
        int,
        Setting(
            "The number of members that all groups of a partition of `__consumer_offsets` together may have, with the "
            "clients that were given an id to join with. Further ones are refused with POLICY_VIOLATION.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="POLICY_VIOLATION",
        ),
    ] = 20_000

    max_offsets_per_partition: Annotated[
        int,
        Setting(
            "The number of offsets that all groups of a partition of `__consumer_offsets` together may have, with "
            "those of open transactions. An offset for another partition of a topic is refused with POLICY_VIOLATION "
            "then.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="POLICY_VIOLATION, for a partition of which the group has no offset",
        ),
    ] = 500_000

    max_offsets_per_group: Annotated[
        int,
        Setting(
            "The number of offsets that a group may have, with those of open transactions. An offset for another "
            "partition of a topic is refused with POLICY_VIOLATION then.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="POLICY_VIOLATION, for a partition of which the group has no offset",
        ),
    ] = 100_000

    group_max_member_bytes: Annotated[
        int,
        Setting(
            "What a member of a classic group may say about itself when it joins: its subscriptions, in all protocols "
            "that it knows. A larger request is refused with INVALID_REQUEST.",
            unit="bytes",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="INVALID_REQUEST",
        ),
    ] = 1024 * 1024

    offset_metadata_max_bytes: Annotated[
        int,
        Setting(
            "The longest text that a consumer may commit beside an offset; a longer one is refused with "
            "OFFSET_METADATA_TOO_LARGE. Kafka counts characters, in spite of the name, and so does Eagleray.",
            unit="characters",
            most=LONGEST_TEXT,
            reached="OFFSET_METADATA_TOO_LARGE",
        ),
    ] = 4096

    offsets_retention_minutes: Annotated[
        int,
        Setting(
            "How long committed offsets are kept after a group has lost its last member, or, for a consumer without a "
            "group membership, after the commit.",
            unit="minutes",
            least=1,
        ),
    ] = 7 * 24 * 60

    offsets_retention_check_interval_ms: Annotated[
        int,
        Setting(
            "How often the group coordinator looks for offsets that are past `offsets.retention.minutes`, and removes "
            "them.",
            unit="ms",
            least=1,
        ),
    ] = 10 * _MINUTE_MS

    group_min_session_timeout_ms: Annotated[
        int,
        Setting(
            "The shortest `session.timeout.ms` that a member of a classic group may ask for; a shorter one is refused "
            "with INVALID_SESSION_TIMEOUT.",
            unit="ms",
            least=1,
            also="at most `group.max.session.timeout.ms`",
        ),
    ] = 6000

    group_max_session_timeout_ms: Annotated[
        int,
        Setting(
            "The longest `session.timeout.ms` that a member of a classic group may ask for; a longer one is refused "
            "with INVALID_SESSION_TIMEOUT.",
            unit="ms",
            least=1,
            most=LONGEST_TIME_MS,
            also="at least `group.min.session.timeout.ms`",
            reached="INVALID_SESSION_TIMEOUT",
        ),
    ] = 30 * _MINUTE_MS

    group_max_size: Annotated[
        int,
        Setting(
            "The number of members that a classic group may have; further ones get GROUP_MAX_SIZE_REACHED.",
            least=1,
            reached="GROUP_MAX_SIZE_REACHED",
        ),
    ] = INT32_MAX

    group_initial_rebalance_delay_ms: Annotated[
        int,
        Setting(
            "How long the first rebalance of an empty classic group waits for more members to join. A small cluster "
            "wants to begin at once; members that come a moment later are taken in by one more rebalance.",
            unit="ms",
            kafka="3000",
        ),
    ] = 0

    group_consumer_min_heartbeat_interval_ms: Annotated[
        int,
        Setting(
            "The lower limit of `group.consumer.heartbeat.interval.ms`, the interval between heartbeats in KIP-848 "
            "groups.",
            unit="ms",
            least=1,
            also="at most `group.consumer.heartbeat.interval.ms`",
        ),
    ] = 5000

    group_consumer_max_heartbeat_interval_ms: Annotated[
        int,
        Setting(
            "The upper limit of `group.consumer.heartbeat.interval.ms`, the interval between heartbeats in KIP-848 "
            "groups.",
            unit="ms",
            least=1,
            also="at least `group.consumer.heartbeat.interval.ms`",
        ),
    ] = 15_000

    group_consumer_min_session_timeout_ms: Annotated[
        int,
        Setting(
            "The lower limit of `group.consumer.session.timeout.ms`, the session timeout in KIP-848 groups.",
            unit="ms",
            least=1,
            also="at most `group.consumer.session.timeout.ms`",
        ),
    ] = 45_000

    group_consumer_max_session_timeout_ms: Annotated[
        int,
        Setting(
            "The upper limit of `group.consumer.session.timeout.ms`, the session timeout in KIP-848 groups.",
            unit="ms",
            least=1,
            also="at least `group.consumer.session.timeout.ms`",
        ),
    ] = 60_000

    transaction_v1_guard: TransactionV1Guard = ConnectionGuardMode.ON

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise InvalidConfig(
                f"group.min.session.timeout.ms is {self.group_min_session_timeout_ms}; expected at most "
                f"group.max.session.timeout.ms, which is {self.group_max_session_timeout_ms}"
            )
        for name in ("heartbeat_interval_ms", "session_timeout_ms"):
            self._check_limits(f"group_consumer_{name}", f"group_consumer_min_{name}", f"group_consumer_max_{name}")

    def _check_limits(self, name: str, lowest: str, highest: str) -> None:
        value, least, most = getattr(self, name), getattr(self, lowest), getattr(self, highest)
        if not least <= value <= most:
            raise InvalidConfig(
                f"{key_of(name)} is {value}; expected at least {key_of(lowest)}, which is {least}, and at most "
                f"{key_of(highest)}, which is {most}"
            )

    @property
    def offsets_retention_ms(self) -> int:
        """How long an offset is kept after its commit."""
        return self.offsets_retention_minutes * _MINUTE_MS
