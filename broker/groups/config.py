"""Settings of a group coordinator, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Final

from eagleray.broker.groups.consumer.config import ConsumerGroupConfig

_MINUTE_MS = 60 * 1000
_DAY_MS = 24 * 60 * _MINUTE_MS

LONGEST_TEXT: Final = (2**15 - 1) // 4
"""How many characters surely fit into a text of Kafka's records, which has two bytes for its length."""


LONGEST_TIME_MS: Final = 2**31 - 1
"""What fits into the four bytes that Kafka's records have for a timeout."""

_MAY_BE_NOTHING: Final = frozenset({"offset_metadata_max_bytes", "group_initial_rebalance_delay_ms"})


class GroupConfig(ConsumerGroupConfig, frozen=True, kw_only=True):
    """How groups are spread, how long what they have committed is kept, and what their members may ask for."""

    offsets_topic_num_partitions: int = 50
    offset_metadata_max_bytes: int = 4096
    """How long the text beside an offset may be; Kafka counts characters, whatever the name says, and so do we."""

    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 10 * _MINUTE_MS
    producer_id_expiration_ms: int = _DAY_MS
    """How long to remember the epoch of a producer that has no transaction open; the log has the same setting."""

    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 30 * _MINUTE_MS
    group_max_size: int = 2**31 - 1
    group_initial_rebalance_delay_ms: int = 0
    """How long the first generation of an empty group waits for more members to come.

    Kafka waits for three seconds. A small cluster wants to begin at once, and members that come a moment later are
    taken in by one more rebalance.
    """

    group_consumer_min_heartbeat_interval_ms: int = 5000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.__struct_fields__:
            least, value = 0 if name in _MAY_BE_NOTHING else 1, getattr(self, name)
            if isinstance(value, int) and value < least:
                raise ValueError(f"{name} has to be {least} or more")
        if self.offset_metadata_max_bytes > LONGEST_TEXT:
            raise ValueError(f"offset_metadata_max_bytes has to be {LONGEST_TEXT} or less: records hold no longer text")
        if self.group_max_session_timeout_ms > LONGEST_TIME_MS:
            raise ValueError(f"group_max_session_timeout_ms has to be {LONGEST_TIME_MS} or less: records hold no more")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError("group_min_session_timeout_ms has to be group_max_session_timeout_ms or less")
        for name in ("heartbeat_interval_ms", "session_timeout_ms"):
            self._check_limits(f"group_consumer_{name}", f"group_consumer_min_{name}", f"group_consumer_max_{name}")

    def _check_limits(self, name: str, lowest: str, highest: str) -> None:
        if not getattr(self, lowest) <= getattr(self, name) <= getattr(self, highest):
            raise ValueError(f"{name} has to be {lowest} or more, and {highest} or less")

    @property
    def offsets_retention_ms(self) -> int:
        """How long an offset is kept after its commit."""
        return self.offsets_retention_minutes * _MINUTE_MS
