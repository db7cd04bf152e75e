"""Config resources: topics, whose settings can be changed, and brokers and groups, whose settings can only be
described.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NotRequired, TypedDict, Unpack

from eagleray.actors.common.settings import canonical, default_settings, described_cluster_settings
from eagleray.actors.kafka_server.asking import AdminCall, ask_controller, until_seen
from eagleray.broker.controller.config_entries import (
    ConfigEntry,
    ConfigSource,
    topic_entries,
    type_of,
    values_of,
)
from eagleray.broker.controller.decisions import Refusal
from eagleray.broker.controller.events import AlterTopicConfigs
from eagleray.broker.limits import shown
from eagleray.broker.metadata.nodes import NodeRegistration
from eagleray.broker.metadata.topic_names import problem_with
from eagleray.broker.settings import Described
from eagleray.protocol.errors import ErrorCode

_TIMEOUT_MS: Final = 30_000
_MOST_DIGITS: Final = 10
"""Of a node id, which is a number of four bytes."""

_GROUP_PREFIX: Final = "group."
_GROUP_KEYS: Final = frozenset({"consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"})
"""The settings that Kafka lets a group have of its own; here they are the cluster's for all groups."""

UNCHANGED: Final = Refusal(ErrorCode.NONE, "")


class ResourceType(enum.IntEnum):
    """The resource of a request about settings; the numbers are Kafka's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


# Describing settings


def entries_of(resource_type: int, name: str, call: AdminCall) -> list[ConfigEntry] | Refusal:
    """Return every setting of a topic, node or group, or why there is none."""
    if resource_type == ResourceType.TOPIC:
        return _entries_of_topic(name, call)
    if resource_type == ResourceType.BROKER:
        return _entries_of_node(name, call)
    if resource_type == ResourceType.GROUP:
        return _entries_of_group(name, call)
    return Refusal(ErrorCode.INVALID_REQUEST, f"resource {shown(name)!r} is of type {resource_type}; {_EXPECTED_TYPES}")


def _entries_of_topic(name: str, call: AdminCall) -> list[ConfigEntry] | Refusal:
    text = problem_with(name)
    if text is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    topic = call.context.image.topics.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {shown(name)}")
    return topic_entries(topic.configs, call.context.spec.settings)


def _entries_of_node(name: str, call: AdminCall) -> list[ConfigEntry] | Refusal:
    """Return the settings of a node: all nodes of a cluster have the same, and none can be changed."""
    if not name:
        # What all nodes were given while they run: nothing can be.
        return []
    node = (
        call.context.image.nodes.get(int(name))
        if name.isascii() and name.isdigit() and len(name) <= _MOST_DIGITS
        else None
    )
    if node is None:
        nodes = ", ".join(map(str, sorted(call.context.image.nodes)))
        return Refusal(ErrorCode.INVALID_REQUEST, f"there is no node {shown(name)!r}; expected one of {nodes}")
    own = {
        "node.id": name,
        "broker.id": name,
        "advertised.listeners": _advertised_listeners(node),
        "log.dirs": call.context.spec.data_dir,
    }
    return _read_only(canonical(call.context.spec.settings) | own, default_settings())


def _advertised_listeners(node: NodeRegistration) -> str:
    if not node.endpoints:
        return f"PLAINTEXT://{node.host}:{node.port}"
    return ",".join(f"{each.listener}://{each.host}:{each.port}" for each in node.endpoints)


def _entries_of_group(name: str, call: AdminCall) -> list[ConfigEntry] | Refusal:
    if not name:
        return Refusal(ErrorCode.INVALID_GROUP_ID, "a group's name is empty")
    given, defaults = _of_groups(call.context.spec.settings), _of_groups(default_settings())
    return _read_only(given, defaults)


def _of_groups(settings: Mapping[str, str]) -> dict[str, str]:
    texts = {key.removeprefix(_GROUP_PREFIX): text for key, text in settings.items() if key.startswith(_GROUP_PREFIX)}
    return {key: text for key, text in texts.items() if key in _GROUP_KEYS}


def _read_only(given: Mapping[str, str], defaults: Mapping[str, str]) -> list[ConfigEntry]:
    layers = ((ConfigSource.CLUSTER, given), (ConfigSource.DEFAULT, defaults))
    known = described_cluster_settings()
    return [
        ConfigEntry(key, values_of(key, layers), type_of(key, text), _meaning(key, known), is_read_only=True)
        for key, text in sorted({**given, **defaults}.items())
    ]


def _meaning(key: str, known: Mapping[str, Described]) -> str | None:
    """Return the meaning of a node's or a group's setting; a group's has the cluster's name without its prefix."""
    found = known.get(key) or known.get(f"{_GROUP_PREFIX}{key}")
    return None if found is None else found.setting.meaning


_EXPECTED_TYPES: Final = "expected " + ", ".join(
    f"{kind} ({kind.name.lower()})" for kind in (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP)
)


# Changing settings


class AlterOptions(TypedDict):
    """The further fields of `AlterTopicConfigs`."""

    validate_only: bool
    replaces: bool
    added: NotRequired[dict[str, str]]
    removed: NotRequired[dict[str, str]]


async def alter_topic(
    resource_type: int,
    name: str,
    call: AdminCall,
    changes: Mapping[str, str | None],
    **options: Unpack[AlterOptions],
) -> Refusal:
    """Have the controller change settings of a topic."""
    refused = _problem_with_changing(resource_type, name)
    if refused is not None:
        return refused
    answer = await ask_controller(call, _TIMEOUT_MS, AlterTopicConfigs, name, dict(changes), **options)
    if answer is None:
        text = "the controller has not answered in time; the settings may have been changed or not"
        return Refusal(ErrorCode.REQUEST_TIMED_OUT, text)
    result = answer.results[0]
    if result.error_code is not ErrorCode.NONE:
        return Refusal(result.error_code, result.message or "")
    if not options["validate_only"]:
        await until_seen(lambda: _shows(name, changes, call))
    return UNCHANGED


def _problem_with_changing(resource_type: int, name: str) -> Refusal | None:
    if resource_type == ResourceType.TOPIC:
        text = problem_with(name)
        return None if text is None else Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if resource_type in (ResourceType.BROKER, ResourceType.GROUP):
        text = "the settings of nodes and groups are given when the cluster is started; expected those of a topic"
        return Refusal(ErrorCode.INVALID_REQUEST, text)
    return Refusal(ErrorCode.INVALID_REQUEST, f"resource {shown(name)!r} is of type {resource_type}; {_EXPECTED_TYPES}")


def _shows(name: str, changes: Mapping[str, str | None], call: AdminCall) -> bool:
    topic = call.context.image.topics.get(name)
    return topic is None or all(topic.configs.get(key) == text for key, text in changes.items())
