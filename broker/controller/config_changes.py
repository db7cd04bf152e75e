"""What the settings of a topic are after a request has changed some of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from eagleray.broker.controller.events import AlterTopicConfigs
from eagleray.broker.metadata.topic_configs import TopicConfig, check_keys
from eagleray.broker.metadata.topics import TopicImage
from eagleray.broker.settings import InvalidConfig

LIST_KEYS: Final = frozenset({"cleanup.policy"})
"""Settings that are lists, with commas between their parts."""

_PLACEMENT: Final = "leader.placement"


def changed_configs(request: AlterTopicConfigs, topic: TopicImage) -> dict[str, str]:
    """Return all the settings that a topic has after a request; `InvalidConfig` says what cannot be."""
    # Taking back a setting that does not exist is a slip of the pen, of which its author should hear.
    check_keys([*request.changes, *request.added, *request.removed])
    merged = _kept(request, topic) | request.changes
    configs = {key: text for key, text in merged.items() if text is not None}
    for key, text in request.added.items():
        parts = _parts_of(key, configs)
        configs[key] = ",".join([*parts, *(part for part in _split(text) if part not in parts)])
    for key, text in request.removed.items():
        configs[key] = ",".join(part for part in _parts_of(key, configs) if part not in _split(text))
    if TopicConfig.parse(configs).is_dedicated != TopicConfig.parse(topic.configs).is_dedicated:
        raise InvalidConfig(f"{_PLACEMENT} is decided when a topic is created; expected no change of it")
    return configs


def _kept(request: AlterTopicConfigs, topic: TopicImage) -> dict[str, str]:
    if not request.replaces:
        return topic.configs
    return {key: text for key, text in topic.configs.items() if key == _PLACEMENT}


def _parts_of(key: str, configs: dict[str, str]) -> list[str]:
    if key not in LIST_KEYS:
        raise InvalidConfig(f"{key} is not a list, to which something can be added or from which it can be taken")
    return _split(configs.get(key) or TopicConfig().as_text()[key])


def _split(text: str) -> list[str]:
    parts: Iterable[str] = (part.strip() for part in text.split(","))
    return [part for part in parts if part]
