"""A cluster's settings: text by Kafka's key names, checked once when the cluster starts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from eagleray.actors.wire.config import ListenerConfig
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.topic_configs import TopicConfig, described_topic_settings, text_of
from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.log import InvalidConfig, LogConfig
from eagleray.broker.log.config import CONFIG_KEYS
from eagleray.broker.quorum.config import QuorumConfig
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.settings import Changed, Described, described
from eagleray.broker.transactions.config import CoordinatorConfig

Config = TypeVar("Config", bound=msgspec.Struct)

COMPONENTS: Final[tuple[type[msgspec.Struct], ...]] = (
    CoordinatorConfig,
    GroupConfig,
    ControllerConfig,
    ReplicationConfig,
    QuorumConfig,
    ListenerConfig,
)
"""What has settings of a cluster, but for the logs."""


def _keys_of(component: type[msgspec.Struct]) -> dict[str, str]:
    return {field.replace("_", "."): field for field in component.__struct_fields__}


CLUSTER_KEYS: Final = frozenset(key for component in COMPONENTS for key in _keys_of(component)) | CONFIG_KEYS
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


def coordinator_config(settings: Mapping[str, str]) -> CoordinatorConfig:
    """What the settings say about transactions."""
    return _parse(CoordinatorConfig, settings)


def group_config(settings: Mapping[str, str]) -> GroupConfig:
    """What the settings say about groups."""
    return _parse(GroupConfig, settings)


def controller_config(settings: Mapping[str, str]) -> ControllerConfig:
    """What the settings say about topics and metadata."""
    return _parse(ControllerConfig, settings)


def replication_config(settings: Mapping[str, str]) -> ReplicationConfig:
    """What the settings say about replicas, sessions and leases."""
    return _parse(ReplicationConfig, settings)


def quorum_config(settings: Mapping[str, str]) -> QuorumConfig:
    """What the settings say about the quorum that keeps the metadata."""
    return _parse(QuorumConfig, settings)


def listener_config(settings: Mapping[str, str]) -> ListenerConfig:
    """What the settings say about listeners."""
    return _parse(ListenerConfig, settings)


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise InvalidConfig for a setting that is unknown, not of its type or out of its range."""
    settings = canonical(settings)
    for key in settings:
        if key not in CLUSTER_KEYS:
            nearest = difflib.get_close_matches(key, sorted(CLUSTER_KEYS), n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else "docs/configuration.md lists them all"
            raise InvalidConfig(f"unknown cluster setting {key!r}; {hint}")
    for component in COMPONENTS:
        _parse(component, settings)
    LogConfig.parse({key: value for key, value in settings.items() if key in CONFIG_KEYS})


def default_settings() -> dict[str, str]:
    """Every setting that a cluster may be started with, as it is where nobody gives it."""
    topic = TopicConfig().as_text()
    own = {
        key: text_of(getattr(component(), field))
        for component in COMPONENTS
        for key, field in _keys_of(component).items()
    }
    return own | {key: topic[key] for key in CONFIG_KEYS}


def _value_of(text: str, wanted: Any) -> Any:  # noqa: ANN401 - a field's type, and a value of it
    if get_origin(wanted) is tuple:
        return tuple(filter(None, (part.strip() for part in text.split(","))))
    return msgspec.convert(text, wanted, strict=False)


def _parse(component: type[Config], settings: Mapping[str, str]) -> Config:
    fields: dict[str, Any] = {}
    types = get_type_hints(component)
    settings = canonical(settings)
    for key, field in _keys_of(component).items():
        if key in settings:
            try:
                fields[field] = _value_of(settings[key], types[field])
            except msgspec.ValidationError:
                expected = "true or false" if types[field] is bool else "a whole number"
                raise InvalidConfig(f"{key} is {settings[key]!r}; expected {expected}") from None
    return component(**fields)
