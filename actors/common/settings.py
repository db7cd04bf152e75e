"""A cluster's settings: text by Kafka's key names, checked once when the cluster starts."""

from __future__ import annotations

import difflib
import enum
import functools
from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from eagleray.actors.common.clock_config import ClockConfig
from eagleray.actors.common.listener_config import ListenerConfig
from eagleray.actors.common.security_config import SecurityConfig
from eagleray.actors.common.storage_config import StorageConfig
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.log import InvalidConfig, LogConfig
from eagleray.broker.log.config import CONFIG_KEYS
from eagleray.broker.metadata.topic_configs import TopicConfig, described_topic_settings, text_of
from eagleray.broker.quorum.config import QuorumConfig
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.settings import Changed, Described, described, key_of
from eagleray.broker.transactions.config import CoordinatorConfig

Config = TypeVar("Config", bound=msgspec.Struct)

COMPONENTS: Final[tuple[type[msgspec.Struct], ...]] = (
    CoordinatorConfig,
    GroupConfig,
    ControllerConfig,
    ReplicationConfig,
    QuorumConfig,
    ListenerConfig,
    SecurityConfig,
    StorageConfig,
    ClockConfig,
)
"""The components that have settings of a cluster, except for the logs."""


_types_of = functools.cache(get_type_hints)

CLUSTER_KEYS: Final = CONFIG_KEYS.union(*(map(key_of, component.__struct_fields__) for component in COMPONENTS))
"""Every setting that a cluster may be started with; those of logs are the defaults of topics."""


ALIASES: Final = {"transactional.id.timeout.ms": "transactional.id.expiration.ms"}
"""Older names of settings, and those that they have now."""


def canonical(settings: Mapping[str, str]) -> dict[str, str]:
    """Give settings the names that they have now; InvalidConfig where both names are given and do not agree."""
    for older, now in ALIASES.items():
        if older in settings and settings.get(now, settings[older]) != settings[older]:
            raise InvalidConfig(
                f"{older} is {settings[older]!r} and {now} is {settings[now]!r}, but both are the same setting; "
                f"expected {now} alone"
            )
    return {ALIASES.get(key, key): text for key, text in settings.items()}


def described_cluster_settings() -> dict[str, Described]:
    """Every setting of a cluster by name, with its meaning and the rest; those of logs are what topics begin with."""
    own = {each.key: each for component in COMPONENTS for each in described(component).values()}
    topic = described_topic_settings()
    inherited = {key: _at_start(topic[key]) for key in CONFIG_KEYS}
    return dict(sorted((own | inherited).items()))


def _at_start(each: Described) -> Described:
    return replace(each, setting=replace(each.setting, changed=Changed.AT_START))


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise InvalidConfig for a setting that is unknown, not of its type or out of its range."""
    settings = canonical(settings)
    for key in settings:
        if key not in CLUSTER_KEYS:
            nearest = difflib.get_close_matches(key, sorted(CLUSTER_KEYS), n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else "docs/configuration.md lists them all"
            raise InvalidConfig(f"unknown cluster setting {key!r}; {hint}")
    for component in COMPONENTS:
        config_of(component, settings)
    LogConfig.parse({key: value for key, value in settings.items() if key in CONFIG_KEYS})


def default_settings() -> dict[str, str]:
    """The default of every setting that a cluster may be started with."""
    topic = TopicConfig().as_text()
    own = {
        key_of(field): text_of(getattr(component(), field))
        for component in COMPONENTS
        for field in component.__struct_fields__
    }
    return own | {key: topic[key] for key in CONFIG_KEYS}


def _value_of(text: str, wanted: object) -> object:
    if get_origin(wanted) is tuple:
        return tuple(filter(None, (part.strip() for part in text.split(","))))
    return msgspec.convert(text, wanted, strict=False)


def _expected(wanted: object) -> str:
    if isinstance(wanted, type) and issubclass(wanted, enum.StrEnum):
        return " or ".join(wanted)
    return "true or false" if wanted is bool else "a whole number"


def config_of(component: type[Config], settings: Mapping[str, str]) -> Config:
    """What the settings say about a component; InvalidConfig where a value is not of its type or out of its range."""
    fields: dict[str, Any] = {}
    types = _types_of(component)
    settings = canonical(settings)
    for field in component.__struct_fields__:
        key = key_of(field)
        if key in settings:
            try:
                fields[field] = _value_of(settings[key], types[field])
            except msgspec.ValidationError:
                raise InvalidConfig(f"{key} is {settings[key]!r}; expected {_expected(types[field])}") from None
    return component(**fields)
