"""The settings of a partition's log, under Kafka's own names.

A topic's settings arrive as text by Kafka's key names. They are parsed and checked once, into a frozen `LogConfig`; the
log itself only ever sees that.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Mapping
from typing import Annotated, Any, Final, get_type_hints

import msgspec

from eagleray.broker.limits import shown
from eagleray.broker.settings import INT64_MAX, NOT_IN_KAFKA, InvalidConfig, TopicSetting, check_ranges, key_of
from eagleray.protocol.records import DEFAULT_MAX_DECOMPRESSED_BYTES

LEAST_SEGMENT_BYTES: Final = 1024
_DAY_MS: Final = 24 * 60 * 60 * 1000

ProducerIdExpiration = Annotated[
    int,
    TopicSetting(
        "How long a partition remembers the sequence numbers of a producer that writes nothing and has no transaction "
        "open. Later a batch that the producer repeats would not be known for a repetition. It counts from when the "
        "broker last heard of the producer, whatever its records' timestamps say, or has opened the partition's log.",
        least=1,
    ),
]


class TimestampType(enum.StrEnum):
    """Whose clock stamps the records."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class Flush(enum.StrEnum):
    """When appended batches are forced to the disk."""

    OS = "os"
    """When the operating system decides; replicas and the page cache guard what was acknowledged."""

    COMMIT = "commit"
    """Before anything is acknowledged; many appends share one flush."""


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How one partition's log rolls, keeps, compacts and checks; every range is checked when it is built."""

    segment_bytes: Annotated[
        int,
        TopicSetting(
            "The size at which a segment file of a partition is closed and another one begun. Retention and compaction "
            "work on closed segments.",
            least=LEAST_SEGMENT_BYTES,
        ),
    ] = 1024**3

    segment_ms: Annotated[
        int,
        TopicSetting(
            "The age at which a segment file of a partition is closed and another one begun, even if it is not full.",
            least=1,
            most=INT64_MAX,
        ),
    ] = 7 * _DAY_MS

    segment_index_bytes: Annotated[
        int,
        TopicSetting(
            "The size of an index file at which its segment is closed and another one begun.",
            least=4,
        ),
    ] = 10 * 1024**2

    index_interval_bytes: Annotated[
        int,
        TopicSetting(
            "The bytes of log between two entries of the offset index. Fewer make reads that begin anywhere find their "
            "place sooner, and the index larger.",
        ),
    ] = 4096

    retention_ms: Annotated[
        int,
        TopicSetting(
            "The age at which the records of a topic whose `cleanup.policy` has `delete` are removed, a closed segment "
            "at a time; -1 keeps them for ever.",
            least=-1,
            most=INT64_MAX,
        ),
    ] = 7 * _DAY_MS

    retention_bytes: Annotated[
        int,
        TopicSetting(
            "The size of a partition above which its oldest closed segments are removed, where `cleanup.policy` has "
            "`delete`; -1 for no limit.",
            least=-1,
            most=INT64_MAX,
        ),
    ] = -1

    cleanup_delete: bool = True
    cleanup_compact: bool = False

    min_cleanable_dirty_ratio: Annotated[
        float,
        TopicSetting(
            "The share of a compacted log that has to be new since it was last compacted before that is done again.",
            most=1,
        ),
    ] = 0.5

    delete_retention_ms: Annotated[
        int,
        TopicSetting(
            "How long a tombstone, a record without a value, stays in a compacted log, so that slow readers hear of "
            "the deletion.",
            most=INT64_MAX,
        ),
    ] = _DAY_MS

    min_compaction_lag_ms: Annotated[
        int,
        TopicSetting(
            "The age that a record has to have before compaction may remove it.",
            most=INT64_MAX,
            also="at most `max.compaction.lag.ms`",
        ),
    ] = 0

    max_compaction_lag_ms: Annotated[
        int,
        TopicSetting(
            "The age at which a record of a compacted log has to have been looked at by compaction, however little of "
            "the log is new.",
            least=1,
            most=INT64_MAX,
            also="at least `min.compaction.lag.ms`",
        ),
    ] = INT64_MAX

    max_message_bytes: Annotated[
        int,
        TopicSetting(
            "The largest record batch that the topic takes, after compression; a larger one is refused with "
            "MESSAGE_TOO_LARGE.",
            reached="MESSAGE_TOO_LARGE",
        ),
    ] = 1024**2 + 12

    max_decompressed_bytes: Annotated[
        int,
        TopicSetting(
            "The most that the records of a compressed batch may unpack to, where that is more than "
            "`max.message.bytes`; a batch that gives more is refused with MESSAGE_TOO_LARGE.",
            least=1,
            most=DEFAULT_MAX_DECOMPRESSED_BYTES,
            kafka=NOT_IN_KAFKA,
            reached="MESSAGE_TOO_LARGE",
        ),
    ] = 16 * 1024**2

    message_timestamp_type: Annotated[
        TimestampType,
        TopicSetting(
            "Which clock gives records their timestamp: the producer's (`CreateTime`) or the leader's "
            "(`LogAppendTime`).",
        ),
    ] = TimestampType.CREATE_TIME

    message_timestamp_before_max_ms: Annotated[
        int,
        TopicSetting(
            "How far the timestamp that a producer gives may lie behind the leader's clock; an older record is refused "
            "with INVALID_TIMESTAMP.",
            most=INT64_MAX,
        ),
    ] = INT64_MAX

    message_timestamp_after_max_ms: Annotated[
        int,
        TopicSetting(
            "How far the timestamp that a producer gives may lie ahead of the leader's clock; a record from further in "
            "the future is refused with INVALID_TIMESTAMP.",
            most=INT64_MAX,
        ),
    ] = 60 * 60 * 1000

    producer_id_expiration_ms: ProducerIdExpiration = _DAY_MS

    max_producer_ids: Annotated[
        int,
        TopicSetting(
            "How many producers a partition remembers. Where there are more, a producer that was idle for 15 minutes "
            "and has no transaction open makes room for a new one; where none was, a batch of a new one is refused "
            "with POLICY_VIOLATION.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="an idle producer makes room, else POLICY_VIOLATION",
        ),
    ] = 100_000

    flush: Annotated[
        Flush,
        TopicSetting(
            "When appended batches are forced to the disk: when the operating system likes (`os`), or before anything "
            "is acknowledged (`commit`), which survives the loss of power of all replicas at once.",
            kafka=NOT_IN_KAFKA,
        ),
    ] = Flush.OS

    flush_ms: Annotated[
        int,
        TopicSetting(
            "How long what was appended may wait until it is forced to the disk in the background, where `flush` "
            "leaves that to the operating system. A loss of power takes no more than that from a partition without "
            "replicas.",
            least=1,
            most=INT64_MAX,
            kafka=str(INT64_MAX),
        ),
    ] = 5_000

    def __post_init__(self) -> None:
        check_ranges(self)
        if not (self.cleanup_delete or self.cleanup_compact):
            raise InvalidConfig("cleanup.policy is empty; expected delete, compact or both")
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfig(
                f"min.compaction.lag.ms is {self.min_compaction_lag_ms}; expected at most max.compaction.lag.ms, "
                f"which is {self.max_compaction_lag_ms}"
            )

    @property
    def roll_ms(self) -> int:
        """How long a segment is appended to; records that are to be compacted in time have to be in a closed one."""
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


CLEANUP_POLICY: Final = TopicSetting(
    "What becomes of old records: they are removed by age and size (`delete`), or all but the last of each key are "
    "(`compact`), or both, with a comma between them.",
    also="delete, compact or both",
)
"""One setting that is two fields."""

_CLEANUP_FIELDS: Final = frozenset({"cleanup_delete", "cleanup_compact"})


_FIELD_TYPES: Final = {
    key_of(name): kind for name, kind in get_type_hints(LogConfig).items() if name not in _CLEANUP_FIELDS
}

CONFIG_KEYS: Final = frozenset(_FIELD_TYPES) | {"cleanup.policy"}
"""Every setting that a topic may carry."""


def _field_of(key: str) -> str:
    if key in _FIELD_TYPES:
        return key.replace(".", "_")
    nearest = difflib.get_close_matches(key, sorted(CONFIG_KEYS), n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"expected one of {', '.join(sorted(CONFIG_KEYS))}"
    raise InvalidConfig(f"unknown topic setting {shown(key)!r}; {hint}")


def _parse_value(key: str, text: str) -> object:
    expected = _FIELD_TYPES[key]
    try:
        return msgspec.convert(text, expected, strict=False)
    except msgspec.ValidationError:
        raise InvalidConfig(f"{key} is {shown(text)!r}; expected {_describe(expected)}") from None


def _describe(expected: type) -> str:
    if issubclass(expected, enum.StrEnum):
        return " or ".join(expected)
    return "a whole number" if expected is int else "a number"


def _parse_cleanup_policy(text: str) -> dict[str, bool]:
    policies = {part.strip() for part in text.split(",")} - {""}
    unknown = policies - {"delete", "compact"}
    if unknown:
        raise InvalidConfig(f"cleanup.policy is {shown(text)!r}; expected delete, compact or delete,compact")
    return {"cleanup_delete": "delete" in policies, "cleanup_compact": "compact" in policies}
