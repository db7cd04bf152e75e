"""IncrementalAlterConfigs: key 44, versions 0 to 1.

Single settings of topics are set (0) or deleted (1), and lists appended to (2) or subtracted from (3).
"""

from __future__ import annotations

import asyncio
import enum
from typing import Final

import msgspec

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.config_resources import UNCHANGED, ResourceType, alter_topic
from eagleray.broker.controller.decisions import Refusal, repeated
from eagleray.broker.limits import shown
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

API = ServedApi(44, 0, 1)


class _Operation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(request: IncrementalAlterConfigsRequest, call: AdminCall) -> IncrementalAlterConfigsResponse:
    """Change settings of topics, or see whether they could be changed: those of one topic all, or none."""
    wrong = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = await asyncio.gather(
        *(_alter(resource, request.validate_only, wrong, call) for resource in request.resources)
    )
    return IncrementalAlterConfigsResponse(responses=tuple(responses))


async def _alter(
    resource: AlterConfigsResource, validate_only: bool, wrong: set[tuple[int, str]], call: AdminCall
) -> AlterConfigsResourceResponse:
    who = (resource.resource_type, resource.resource_name)
    outcome = _problem_with(resource, who in wrong)
    kept = tuple(config for config in resource.configs if not _is_throttle_taken_back(config))
    if outcome is None and resource.resource_type == ResourceType.BROKER and resource.configs and not kept:
        outcome = UNCHANGED
    resource = msgspec.structs.replace(resource, configs=kept)
    if outcome is None:
        changes: dict[str, str | None] = dict(_values_of(resource, _Operation.SET))
        changes |= dict.fromkeys(_values_of(resource, _Operation.DELETE))
        outcome = await alter_topic(
            *who,
            call,
            changes,
            validate_only=validate_only,
            replaces=False,
            added=_values_of(resource, _Operation.APPEND),
            removed=_values_of(resource, _Operation.SUBTRACT),
        )
    return AlterConfigsResourceResponse(outcome.error_code, outcome.message or None, *who)


def _is_throttle_taken_back(config: AlterableConfig) -> bool:
    """Whether a throttle of reassignments is deleted: no topic has one, and Kafka's tool does so after each
    reassignment.
    """
    return config.config_operation == _Operation.DELETE and config.name in _THROTTLES


_THROTTLES: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
)


def _problem_with(resource: AlterConfigsResource, is_repeated: bool) -> Refusal | None:
    text = None
    if is_repeated:
        text = "the request names this resource more than once"
    elif repeated(config.name for config in resource.configs):
        text = "a setting is named more than once"
    for config in resource.configs:
        if config.config_operation not in set(_Operation):
            text = f"{shown(config.name)} has operation {config.config_operation}; expected 0, 1, 2 or 3"
        elif config.value is None and config.config_operation != _Operation.DELETE:
            text = f"{shown(config.name)} has no value; expected one, or the operation that takes a setting back"
    return None if text is None else Refusal(ErrorCode.INVALID_REQUEST, text)


def _values_of(resource: AlterConfigsResource, operation: _Operation) -> dict[str, str]:
    return {config.name: config.value or "" for config in resource.configs if config.config_operation == operation}
