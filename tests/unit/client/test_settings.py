"""The settings that type checkers know are those that clients take."""

import inspect
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest

import eagleray
from eagleray.client.cluster import SHORT_NAMES
from eagleray.client.config import ConsumerConfig, ProducerConfig
from eagleray.client.errors import InvalidConfig
from eagleray.client.settings import ConsumerSettings, ProducerSettings, StartSettings
from eagleray.connecting import StartOptions


def plain(hint):
    """A type without its range."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def settings_of(config):
    return {name: plain(hint) for name, hint in get_type_hints(config, include_extras=True).items()}


def test_producer_settings_are_those_of_the_config():
    assert get_type_hints(ProducerSettings) == settings_of(ProducerConfig)


def test_consumer_settings_are_those_of_the_config_and_the_short_names():
    settings = settings_of(ConsumerConfig)
    short = {name: settings[full] for name, full in SHORT_NAMES.items()}
    assert get_type_hints(ConsumerSettings) == {**settings, **short}


def test_start_settings_are_keywords_of_start():
    named = {"data_dir", "name", "address", "config"}
    hints = get_type_hints(eagleray.start)
    keywords = set(inspect.signature(eagleray.start).parameters) - named
    assert get_type_hints(StartSettings) == {name: hints[name] for name in keywords}
    assert keywords < set(StartOptions.__struct_fields__)


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (ProducerConfig, {"acks": 17}, r"acks is 17, but has to be one of 'all', -1, 0, 1\."),
        (ProducerConfig, {"acks": True}, r"acks is True, but has to be one of 'all', -1, 0, 1\."),
        (ProducerConfig, {"compression_type": "rar"}, r"one of 'none', 'gzip', 'snappy', 'lz4', 'zstd'\."),
        (ConsumerConfig, {"isolation_level": "any"}, r"one of 'read_committed', 'read_uncommitted'\."),
        (ConsumerConfig, {"auto_offset_reset": "newest"}, r"one of 'earliest', 'latest', 'none'\."),
        (StartOptions, {"layout": "mixed"}, r"layout is 'mixed', but has to be one of 'separate', 'colocated'\."),
        (StartOptions, {"lane": "fast"}, r"lane is 'fast', but has to be one of 'direct', 'ray'\."),
    ],
)
def test_wrong_choice_is_answered_with_the_choices(config, settings, message):
    with pytest.raises(InvalidConfig, match=message):
        getattr(config, "make", config)(**settings)


@pytest.mark.parametrize(
    ("config", "key", "near"),
    [
        (ProducerConfig, "lingerms", "linger_ms"),
        (ProducerConfig, "linger.sm", "linger.ms"),
        (ConsumerConfig, "isolation", "isolation_level"),
    ],
)
def test_unknown_setting_is_answered_with_the_nearest_in_the_same_spelling(config, key, near):
    with pytest.raises(
        InvalidConfig, match=rf"'{key}' is not a setting of a (producer|consumer); did you mean {near}\?"
    ):
        config.make({key: 5})


def test_lane_is_checked_before_ray_is_joined():
    # A unit test has no Ray: to join one would take seconds and fail in other words.
    with pytest.raises(InvalidConfig, match=r"one of 'direct', 'ray'"):
        eagleray.connect(lane="fast")
