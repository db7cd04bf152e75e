"""Settings of a cluster: text by Kafka's names, or a sentence about what is wrong with it."""

import pytest

from eagleray.actors.common.listener_config import ListenerConfig
from eagleray.actors.common.settings import (
    canonical,
    check_settings,
    config_of,
    default_settings,
)
from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.log import InvalidConfig
from eagleray.broker.transactions.config import CoordinatorConfig


def test_settings_of_listeners_are_read_by_kafkas_names():
    config = config_of(ListenerConfig, {"connections.max.idle.ms": "5000", "auto.create.topics.enable": "false"})
    assert config.connections_max_idle_ms == 5000
    assert config.auto_create_topics_enable is False
    assert config_of(ListenerConfig, {}).auto_create_topics_enable is True, "Kafka's default"


def test_a_list_is_read_from_text_and_shown_as_text():
    assert config_of(GroupConfig, {"group.consumer.assignors": "range, uniform"}).group_consumer_assignors == (
        "range",
        "uniform",
    )
    assert default_settings()["group.consumer.assignors"] == "uniform,range"


@pytest.mark.parametrize(
    ("key", "value", "refusal"),
    [
        ("auto.create.topics.enable", "perhaps", "expected true or false"),
        ("transaction.v1.guard", "true", "expected on or off"),
        ("max.connections", "many", "expected a whole number"),
        ("max.connections", "0", "max.connections is 0; expected a value from 1 to"),
        (
            "group.consumer.assignors",
            "range,sticky",
            "group.consumer.assignors is 'range,sticky'; expected some of uniform, range",
        ),
        (
            "group.consumer.heartbeat.interval.ms",
            "1",
            "expected at least group.consumer.min.heartbeat.interval.ms, which is 5000",
        ),
        ("max.connection", "1", "did you mean max.connections"),
    ],
)
def test_wrong_setting_is_named(key, value, refusal):
    with pytest.raises(InvalidConfig, match=refusal):
        check_settings({key: value})


def test_older_name_of_a_setting_means_the_same():
    older = {"transactional.id.timeout.ms": "5000"}
    check_settings(older)
    assert config_of(CoordinatorConfig, older).transactional_id_expiration_ms == 5000
    assert canonical(older) == {"transactional.id.expiration.ms": "5000"}
    check_settings({**older, "transactional.id.expiration.ms": "5000"})


def test_two_names_of_a_setting_that_disagree_are_refused():
    both = {"transactional.id.timeout.ms": "5000", "transactional.id.expiration.ms": "6000"}
    with pytest.raises(InvalidConfig, match=r"expected transactional\.id\.expiration\.ms alone"):
        check_settings(both)
