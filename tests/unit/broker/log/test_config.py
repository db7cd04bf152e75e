"""Settings of a log by Kafka's names."""

import msgspec
import pytest

from eagleray.broker.log.config import CONFIG_KEYS, Flush, InvalidConfig, LogConfig, TimestampType

DAY_MS = 86_400_000
FOREVER_MS = 2**63 - 1

KAFKA_DEFAULTS = {
    "segment.bytes": "1073741824",
    "segment.ms": str(7 * DAY_MS),
    "segment.index.bytes": "10485760",
    "index.interval.bytes": "4096",
    "retention.ms": str(7 * DAY_MS),
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "min.cleanable.dirty.ratio": "0.5",
    "delete.retention.ms": str(DAY_MS),
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": str(FOREVER_MS),
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(FOREVER_MS),
    "message.timestamp.after.max.ms": "3600000",
    "producer.id.expiration.ms": str(DAY_MS),
}

SETTINGS = {
    "segment.bytes": ("2048", "segment_bytes", 2048),
    "segment.ms": ("5", "segment_ms", 5),
    "segment.index.bytes": ("96", "segment_index_bytes", 96),
    "index.interval.bytes": ("0", "index_interval_bytes", 0),
    "retention.ms": ("-1", "retention_ms", -1),
    "retention.bytes": ("10", "retention_bytes", 10),
    "min.cleanable.dirty.ratio": ("0.25", "min_cleanable_dirty_ratio", 0.25),
    "delete.retention.ms": ("7", "delete_retention_ms", 7),
    "min.compaction.lag.ms": ("8", "min_compaction_lag_ms", 8),
    "max.compaction.lag.ms": ("9", "max_compaction_lag_ms", 9),
    "max.message.bytes": ("100", "max_message_bytes", 100),
    "max.decompressed.bytes": ("15", "max_decompressed_bytes", 15),
    "message.timestamp.type": ("LogAppendTime", "message_timestamp_type", TimestampType.LOG_APPEND_TIME),
    "message.timestamp.before.max.ms": ("11", "message_timestamp_before_max_ms", 11),
    "message.timestamp.after.max.ms": ("12", "message_timestamp_after_max_ms", 12),
    "producer.id.expiration.ms": ("13", "producer_id_expiration_ms", 13),
    "max.producer.ids": ("15", "max_producer_ids", 15),
    "flush": ("commit", "flush", Flush.COMMIT),
    "flush.ms": ("14", "flush_ms", 14),
}


def test_the_defaults_are_kafkas() -> None:
    assert LogConfig.parse(KAFKA_DEFAULTS) == LogConfig.parse({}) == LogConfig()


def test_every_setting_is_known_to_this_test() -> None:
    assert set(SETTINGS) | {"cleanup.policy"} == CONFIG_KEYS


@pytest.mark.parametrize("key", sorted(SETTINGS))
def test_a_setting_changes_its_own_field_only(key: str) -> None:
    text, field, value = SETTINGS[key]
    assert LogConfig.parse({key: text}) == msgspec.structs.replace(LogConfig(), **{field: value})


@pytest.mark.parametrize(
    ("text", "deletes", "compacts"),
    [
        ("delete", True, False),
        ("compact", False, True),
        ("compact,delete", True, True),
        (" delete , compact ", True, True),
    ],
)
def test_the_cleanup_policy_is_a_list(text: str, deletes: bool, compacts: bool) -> None:
    config = LogConfig.parse({"cleanup.policy": text})
    assert (config.cleanup_delete, config.cleanup_compact) == (deletes, compacts)


@pytest.mark.parametrize("text", ["", ",", "shred", "delete,shred"])
def test_another_cleanup_policy_is_refused(text: str) -> None:
    with pytest.raises(
        InvalidConfig, match=r"^cleanup\.policy is .*; expected delete, compact or (both|delete,compact)$"
    ):
        LogConfig.parse({"cleanup.policy": text})


def test_an_unknown_setting_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InvalidConfig, match=r"^unknown topic setting 'retention\.mss'; did you mean retention\.ms\?$"):
        LogConfig.parse({"retention.mss": "1"})
    with pytest.raises(
        InvalidConfig, match=r"^unknown topic setting 'zzz'; expected one of cleanup\.policy, .*segment\.ms$"
    ):
        LogConfig.parse({"zzz": "1"})


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("retention.ms", "a week", "retention.ms is 'a week'; expected a whole number"),
        ("retention.ms", "", "retention.ms is ''; expected a whole number"),
        ("min.cleanable.dirty.ratio", "half", "min.cleanable.dirty.ratio is 'half'; expected a number"),
        ("flush", "never", "flush is 'never'; expected os or commit"),
        (
            "message.timestamp.type",
            "logappendtime",
            "message.timestamp.type is 'logappendtime'; expected CreateTime or LogAppendTime",
        ),
    ],
)
def test_what_is_not_of_its_type_is_refused(key: str, text: str, expected: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        LogConfig.parse({key: text})
    assert str(refusal.value) == expected


@pytest.mark.parametrize(
    ("key", "smallest", "largest"),
    [
        ("segment.bytes", 1024, 2**31 - 1),
        ("segment.ms", 1, FOREVER_MS),
        ("segment.index.bytes", 4, 2**31 - 1),
        ("index.interval.bytes", 0, 2**31 - 1),
        ("retention.ms", -1, FOREVER_MS),
        ("retention.bytes", -1, FOREVER_MS),
        ("min.cleanable.dirty.ratio", 0, 1),
        ("delete.retention.ms", 0, FOREVER_MS),
        ("min.compaction.lag.ms", 0, FOREVER_MS),
        ("max.compaction.lag.ms", 1, FOREVER_MS),
        ("max.message.bytes", 0, 2**31 - 1),
        ("message.timestamp.before.max.ms", 0, FOREVER_MS),
        ("message.timestamp.after.max.ms", 0, FOREVER_MS),
        ("producer.id.expiration.ms", 1, 2**31 - 1),
        ("max.producer.ids", 1, 2**31 - 1),
    ],
)
def test_ranges_include_their_ends_and_nothing_more(key: str, smallest: int, largest: int) -> None:
    for inside in (smallest, largest):
        LogConfig.parse({key: str(inside)})
    for outside in (smallest - 1, largest + 1):
        if abs(outside) > FOREVER_MS:
            continue
        with pytest.raises(InvalidConfig) as refusal:
            LogConfig.parse({key: str(outside)})
        assert str(refusal.value).startswith(f"{key} is {outside}")
        assert str(refusal.value).endswith(f"expected a value from {smallest} to {largest}")


@pytest.mark.parametrize(
    "key", ["retention.ms", "message.timestamp.type", "cleanup.policy", pytest.param("x" * 32_767, id="long")]
)
def test_refusal_shows_only_the_beginning_of_a_long_text(key: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        LogConfig.parse({key: "y" * 32_767})
    assert len(str(refused.value)) < 2_000


def test_a_ratio_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidConfig):
        LogConfig(min_cleanable_dirty_ratio=float("nan"))


def test_the_smallest_compaction_lag_cannot_exceed_the_largest() -> None:
    LogConfig(min_compaction_lag_ms=5, max_compaction_lag_ms=5)
    with pytest.raises(
        InvalidConfig, match=r"min\.compaction\.lag\.ms is 6; expected at most max\.compaction\.lag\.ms"
    ):
        LogConfig(min_compaction_lag_ms=6, max_compaction_lag_ms=5)


def test_a_config_never_changes() -> None:
    with pytest.raises(AttributeError):
        LogConfig().segment_bytes = 5
