"""Settings of a partition log, under Kafka's own names.

A topic's settings arrive as text by Kafka's key names. They are parsed and checked once, into a frozen
`LogConfig`; the log itself only ever sees that.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_DAY_MS: Final = 24 * 60 * 60 * 1000


class InvalidConfig(ValueError):
    """A setting that is unknown, is not of its type or is out of its range; the text says what to write."""


class TimestampType(enum.StrEnum):
    """Whose clock stamps the records."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class Flush(enum.StrEnum):
    """When appended batches are forced to the disk."""

    OS = "os"
    """When the operating system likes; replicas and the page cache guard what was acknowledged."""

    COMMIT = "commit"
    """Before anything is acknowledged; many appends share one flush."""


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How one partition's log rolls, keeps, compacts and checks; every range is checked when it is built."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * _DAY_MS
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    max_message_bytes: int = 1024**2 + 12
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = _INT64_MAX
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    producer_id_expiration_ms: int = _DAY_MS
    flush: Flush = Flush.OS

    def __post_init__(self) -> None:
        for name, (smallest, largest) in _RANGES.items():
            value = getattr(self, name)
            if not smallest <= value <= largest:
                raise InvalidConfig(f"{_key_of(name)} is {value}; expected a value from {smallest} to {largest}")
        if not (self.cleanup_delete or self.cleanup_compact):
            raise InvalidConfig("cleanup.policy is empty; expected delete, compact or both")
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfig(
                f"min.compaction.lag.ms is {self.min_compaction_lag_ms}; expected at most max.compaction.lag.ms, "
                f"which is {self.max_compaction_lag_ms}"
            )

    @property
    def roll_ms(self) -> int:
        """How long a segment is appended to; what is to be compacted in time has to be in a closed one."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.cleanup_compact else self.segment_ms

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> LogConfig:
        """Build a config from text settings by Kafka's key names; what is not named keeps its default."""
        fields: dict[str, Any] = {}
        for key, text in settings.items():
            if key == "cleanup.policy":
                fields |= _parse_cleanup_policy(text)
            else:
                field = _field_of(key)
                fields[field] = _parse_value(key, text)
        return cls(**fields)


_RANGES: Final[dict[str, tuple[float, float]]] = {
    "segment_bytes": (1024, _INT32_MAX),
    "segment_ms": (1, _INT64_MAX),
    "segment_index_bytes": (4, _INT32_MAX),
    "index_interval_bytes": (0, _INT32_MAX),
    "retention_ms": (-1, _INT64_MAX),
    "retention_bytes": (-1, _INT64_MAX),
    "min_cleanable_dirty_ratio": (0, 1),
    "delete_retention_ms": (0, _INT64_MAX),
    "min_compaction_lag_ms": (0, _INT64_MAX),
    "max_compaction_lag_ms": (1, _INT64_MAX),
    "max_message_bytes": (0, _INT32_MAX),
    "message_timestamp_before_max_ms": (0, _INT64_MAX),
    "message_timestamp_after_max_ms": (0, _INT64_MAX),
    "producer_id_expiration_ms": (1, _INT32_MAX),
}

_CLEANUP_FIELDS: Final = frozenset({"cleanup_delete", "cleanup_compact"})


def _key_of(field: str) -> str:
    return field.replace("_", ".")


_FIELD_TYPES: Final = {
    _key_of(field.name): field.type for field in msgspec.structs.fields(LogConfig) if field.name not in _CLEANUP_FIELDS
}

CONFIG_KEYS: Final = frozenset(_FIELD_TYPES) | {"cleanup.policy"}
"""Every setting that a topic may carry."""


def _field_of(key: str) -> str:
    if key in _FIELD_TYPES:
        return key.replace(".", "_")
    nearest = difflib.get_close_matches(key, sorted(CONFIG_KEYS), n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"expected one of {', '.join(sorted(CONFIG_KEYS))}"
    raise InvalidConfig(f"unknown topic setting {key!r}; {hint}")


def _parse_value(key: str, text: str) -> Any:  # noqa: ANN401 - the type is that of the field, which the table knows
    expected = _FIELD_TYPES[key]
    try:
        return msgspec.convert(text, expected, strict=False)
    except msgspec.ValidationError:
        raise InvalidConfig(f"{key} is {text!r}; expected {_describe(expected)}") from None


def _describe(expected: type) -> str:
    if issubclass(expected, enum.StrEnum):
        return " or ".join(expected)
    return "a whole number" if expected is int else "a number"


def _parse_cleanup_policy(text: str) -> dict[str, bool]:
    policies = {part.strip() for part in text.split(",")} - {""}
    unknown = policies - {"delete", "compact"}
    if unknown:
        raise InvalidConfig(f"cleanup.policy is {text!r}; expected delete, compact or delete,compact")
    return {"cleanup_delete": "delete" in policies, "cleanup_compact": "compact" in policies}
