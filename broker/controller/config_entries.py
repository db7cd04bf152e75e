"""Every setting of a topic with the value that counts, where that comes from, and what it means."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from eagleray.broker.controller.config_changes import LIST_KEYS
from eagleray.broker.log.config import CONFIG_KEYS
from eagleray.broker.messages import Message
from eagleray.broker.metadata.topic_configs import TopicConfig, described_topic_settings

_INT_KEYS: Final = frozenset(
    {
        "segment.bytes",
        "segment.index.bytes",
        "index.interval.bytes",
        "max.message.bytes",
        "max.producer.ids",
        "min.insync.replicas",
        "producer.id.expiration.ms",
    }
)


class ConfigSource(enum.IntEnum):
    """Where a setting has its value from; the numbers are Kafka's."""

    TOPIC = 1
    CLUSTER = 4
    """The settings that the cluster was started with: the same on every node."""

    DEFAULT = 5


class ConfigType(enum.IntEnum):
    """What a value is; the numbers are Kafka's."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigValue(Message, frozen=True):
    """A value that a user has given to a setting."""

    text: str
    source: ConfigSource


class ConfigEntry(Message, frozen=True):
    """A setting with all the values that it has been given: the first one counts."""

    name: str
    values: tuple[ConfigValue, ...]
    config_type: ConfigType
    meaning: str | None = None
    is_read_only: bool = False


def topic_entries(configs: Mapping[str, str], cluster: Mapping[str, str]) -> list[ConfigEntry]:
    """Describe a topic that was given these settings, on a cluster that was started with those."""
    defaults = {key: text for key, text in cluster.items() if key in CONFIG_KEYS}
    layers = ((ConfigSource.TOPIC, configs), (ConfigSource.CLUSTER, defaults), (ConfigSource.DEFAULT, _DEFAULTS))
    meanings = described_topic_settings()
    return [
        ConfigEntry(key, values_of(key, layers), type_of(key, text), meanings[key].setting.meaning)
        for key, text in _DEFAULTS.items()
    ]


def values_of(key: str, layers: tuple[tuple[ConfigSource, Mapping[str, str]], ...]) -> tuple[ConfigValue, ...]:
    """Return the values that a setting has in some layers of settings, in their order."""
    return tuple(ConfigValue(layer[key], source) for source, layer in layers if key in layer)


_CLUSTER_LIST_KEYS: Final = frozenset({"group.consumer.assignors"})


def type_of(key: str, default: str) -> ConfigType:
    """Return the type of a setting, which its default shows where its name does not."""
    if key in LIST_KEYS or key in _CLUSTER_LIST_KEYS:
        return ConfigType.LIST
    if key in _INT_KEYS:
        return ConfigType.INT
    if default in ("true", "false"):
        return ConfigType.BOOLEAN
    if default.lstrip("-").isdigit():
        return ConfigType.LONG
    return ConfigType.DOUBLE if default.replace(".", "", 1).isdigit() else ConfigType.STRING


_DEFAULTS: Final = TopicConfig().as_text()
