"""Settings of new-style consumer groups, under Kafka's own names."""

from __future__ import annotations

import msgspec

from eagleray.broker.groups.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNORS


class ConsumerGroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How often members are heard from, how many there may be, and who may assign partitions to them."""

    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = DEFAULT_ASSIGNORS
    """The first is the one that a group gets whose members ask for none."""

    def __post_init__(self) -> None:
        for name in ("heartbeat_interval_ms", "session_timeout_ms", "max_size"):
            if getattr(self, f"group_consumer_{name}") < 1:
                raise ValueError(f"group_consumer_{name} has to be 1 or more")
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ValueError("group_consumer_heartbeat_interval_ms has to be less than the session timeout")
        unknown = set(self.group_consumer_assignors) - ASSIGNORS.keys()
        if unknown or not self.group_consumer_assignors:
            raise ValueError(f"group_consumer_assignors has to name some of {', '.join(ASSIGNORS)}")
