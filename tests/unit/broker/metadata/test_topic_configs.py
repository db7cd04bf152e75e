"""Settings of topics as text, and back."""

import pytest

from eagleray.broker.log.config import Flush, InvalidConfig, LogConfig, TimestampType
from eagleray.broker.metadata.topic_configs import (
    TOPIC_CONFIG_KEYS,
    CompressionType,
    LeaderPlacement,
    TopicConfig,
    log_config_as_text,
    max_hold_ms,
)


def test_unset_key_keeps_its_default():
    assert TopicConfig.parse({}) == TopicConfig()
    assert TopicConfig().log == LogConfig()


def test_settings_of_the_log_and_of_the_broker_are_told_apart():
    config = TopicConfig.parse(
        {
            "retention.ms": "5",
            "leader.placement": "dedicated",
            "min.insync.replicas": "2",
            "unclean.leader.election.enable": "TRUE",
            "compression.type": "zstd",
            "transaction.max.hold.ms": "900",
        }
    )
    assert config == TopicConfig(
        log=LogConfig(retention_ms=5),
        leader_placement=LeaderPlacement.DEDICATED,
        min_insync_replicas=2,
        unclean_leader_election_enable=True,
        compression_type=CompressionType.ZSTD,
        transaction_max_hold_ms=900,
    )
    assert config.is_dedicated


@pytest.mark.parametrize(
    "config",
    [
        TopicConfig(),
        TopicConfig(
            log=LogConfig(
                cleanup_compact=True,
                min_cleanable_dirty_ratio=0.25,
                message_timestamp_type=TimestampType.LOG_APPEND_TIME,
                flush=Flush.COMMIT,
                retention_bytes=7,
            ),
            leader_placement=LeaderPlacement.DEDICATED,
            unclean_leader_election_enable=True,
            compression_type=CompressionType.LZ4,
            min_insync_replicas=3,
            transaction_max_hold_ms=60_000,
        ),
        TopicConfig(log=LogConfig(cleanup_compact=True, cleanup_delete=False)),
    ],
)
def test_every_config_is_the_text_that_parses_to_it(config):
    texts = config.as_text()
    assert set(texts) == TOPIC_CONFIG_KEYS
    assert TopicConfig.parse(texts) == config
    assert LogConfig.parse(log_config_as_text(config.log)) == config.log


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1.0", "x", "٣", "2147483648", "9" * 5000, "1" + "0" * 5000, "0" * 10 + "5" * 5000]
)
def test_counts_are_whole_numbers_in_range(text):
    with pytest.raises(InvalidConfig, match=r"min\.insync\.replicas"):
        TopicConfig.parse({"min.insync.replicas": text})


@pytest.mark.parametrize("text", ["", "0", "-2", "1.5", "x", "2147483648"])
def test_limit_of_holding_back_is_minus_one_or_some_milliseconds(text):
    with pytest.raises(InvalidConfig, match=r"transaction\.max\.hold\.ms is .* or -1 for no limit"):
        TopicConfig.parse({"transaction.max.hold.ms": text})
    assert max_hold_ms({"transaction.max.hold.ms": "-1"}) == max_hold_ms({}) == -1
    assert max_hold_ms({"transaction.max.hold.ms": "900"}) == 900


def test_a_setting_that_resembles_none_is_answered_with_all_there_are():
    with pytest.raises(InvalidConfig, match=r"expected one of cleanup\.policy, compression\.type"):
        TopicConfig.parse({"zzz": "1"})
