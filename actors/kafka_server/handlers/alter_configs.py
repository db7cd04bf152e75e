"""AlterConfigs: key 33, versions 0 to 2.

Replaces all the settings of a topic at once: those that are not named go back to their defaults. Newer clients change
single settings with IncrementalAlterConfigs.
"""

from __future__ import annotations

import asyncio

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.config_resources import alter_topic
from eagleray.broker.controller.decisions import Refusal, repeated
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

API = ServedApi(33, 0, 2)


async def handle(request: AlterConfigsRequest, call: AdminCall) -> AlterConfigsResponse:
    """Replace the settings of topics, or see whether they could be replaced."""
    wrong = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = await asyncio.gather(
        *(_alter(resource, request.validate_only, wrong, call) for resource in request.resources)
    )
    return AlterConfigsResponse(responses=tuple(responses))


async def _alter(
    resource: AlterConfigsResource, validate_only: bool, wrong: set[tuple[int, str]], call: AdminCall
) -> AlterConfigsResourceResponse:
    who = (resource.resource_type, resource.resource_name)
    changes = {config.name: config.value for config in resource.configs}
    if who in wrong:
        outcome = Refusal(ErrorCode.INVALID_REQUEST, "the request names this resource more than once")
    elif len(changes) < len(resource.configs):
        outcome = Refusal(ErrorCode.INVALID_REQUEST, "a setting is named more than once")
    elif None in changes.values():
        outcome = Refusal(ErrorCode.INVALID_REQUEST, "a setting has no value; leave it out to take it back")
    else:
        outcome = await alter_topic(*who, call, changes, validate_only=validate_only, replaces=True)
    return AlterConfigsResourceResponse(outcome.error_code, outcome.message or None, *who)
