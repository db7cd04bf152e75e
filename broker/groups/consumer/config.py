"""Settings of new-style consumer groups, under Kafka's own names."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eagleray.broker.groups.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNORS
from eagleray.broker.settings import INT32_MAX, InvalidConfig, Setting, check_ranges


class ConsumerGroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How often members are heard from, how many there may be, and who may assign partitions to them."""

    group_consumer_heartbeat_interval_ms: Annotated[
        int,
        Setting(
            "How often a member of a KIP-848 group has to send a heartbeat; the coordinator tells it to its members.",
            unit="ms",
            least=1,
            also="less than `group.consumer.session.timeout.ms`, and between the least and the greatest interval, "
            "`group.consumer.min.heartbeat.interval.ms` and `group.consumer.max.heartbeat.interval.ms`",
        ),
    ] = 5_000

    group_consumer_session_timeout_ms: Annotated[
        int,
        Setting(
            "How long a member of a KIP-848 group may be silent before the coordinator takes it out of the group.",
            unit="ms",
            least=1,
            also="between `group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`",
        ),
    ] = 45_000

    group_consumer_max_size: Annotated[
        int,
        Setting(
            "The number of members that a KIP-848 group may have; further ones get GROUP_MAX_SIZE_REACHED.",
            least=1,
            reached="GROUP_MAX_SIZE_REACHED",
        ),
    ] = INT32_MAX

    group_consumer_assignors: Annotated[
        tuple[str, ...],
        Setting(
            "The assignors of partitions that members of KIP-848 groups may ask for. The first one is taken where no "
            "member asks for one.",
            also=f"at least one of {', '.join(ASSIGNORS)}",
        ),
    ] = DEFAULT_ASSIGNORS

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise InvalidConfig(
                f"group.consumer.heartbeat.interval.ms is {self.group_consumer_heartbeat_interval_ms}; expected less "
                f"than group.consumer.session.timeout.ms, which is {self.group_consumer_session_timeout_ms}"
            )
        unknown = set(self.group_consumer_assignors) - ASSIGNORS.keys()
        if unknown or not self.group_consumer_assignors:
            given = ",".join(self.group_consumer_assignors)
            raise InvalidConfig(f"group.consumer.assignors is {given!r}; expected some of {', '.join(ASSIGNORS)}")
