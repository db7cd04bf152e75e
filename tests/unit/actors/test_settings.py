"""Settings of a cluster: text by Kafka's names, or a sentence about what is wrong with it."""

import pytest

from eagleray.actors.settings import check_settings, default_settings, group_config, listener_config
from eagleray.broker.log import InvalidConfig


def test_settings_of_listeners_are_read_by_kafkas_names():
    config = listener_config({"connections.max.idle.ms": "5000", "auto.create.topics.enable": "false"})
    assert config.connections_max_idle_ms == 5000
    assert config.auto_create_topics_enable is False
    assert listener_config({}).auto_create_topics_enable is True, "Kafka's default"


def test_a_list_is_read_from_text_and_shown_as_text():
    assert group_config({"group.consumer.assignors": "range, uniform"}).group_consumer_assignors == ("range", "uniform")
    assert default_settings()["group.consumer.assignors"] == "uniform,range"


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("auto.create.topics.enable", "perhaps", "expected true or false"),
        ("max.connections", "many", "expected a whole number"),
        ("max.connections", "0", "max_connections has to be 1 or more"),
        ("group.consumer.assignors", "range,sticky", "group_consumer_assignors has to name some of uniform, range"),
        ("group.consumer.heartbeat.interval.ms", "1", "group_consumer_min_heartbeat_interval_ms or more"),
        ("max.connection", "1", "did you mean max.connections"),
    ],
)
def test_what_is_wrong_is_said(key, value, complaint):
    with pytest.raises(InvalidConfig, match=complaint):
        check_settings({key: value})
