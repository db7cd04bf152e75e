"""DescribeConfigs: key 32, versions 1 to 4.

Settings of topics, of nodes and of groups, answered from what this node knows: the metadata, and the settings that the
cluster was started with. None of them is a secret.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.config_resources import entries_of
from eagleray.broker.controller.config_entries import ConfigEntry
from eagleray.broker.controller.decisions import Refusal
from eagleray.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

API = ServedApi(32, 1, 4)


async def handle(request: DescribeConfigsRequest, call: AdminCall) -> DescribeConfigsResponse:
    """Show settings, with where they come from and what they mean."""
    return DescribeConfigsResponse(results=tuple(_describe(resource, request, call) for resource in request.resources))


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, call: AdminCall
) -> DescribeConfigsResult:
    who = (resource.resource_type, resource.resource_name)
    entries = entries_of(*who, call)
    if isinstance(entries, Refusal):
        return DescribeConfigsResult(*entries, *who)
    # No keys at all means all of them, as null does: Kafka takes it so.
    wanted = set(resource.configuration_keys or ())
    configs = (_result(entry, request) for entry in entries if not wanted or entry.name in wanted)
    return DescribeConfigsResult(0, None, *who, tuple(configs))


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = (DescribeConfigsSynonym(entry.name, value.text, value.source) for value in entry.values)
    return DescribeConfigsResourceResult(
        entry.name,
        entry.values[0].text,
        entry.is_read_only,
        entry.values[0].source,
        is_sensitive=False,
        synonyms=tuple(synonyms) if request.include_synonyms else (),
        config_type=entry.config_type,
        documentation=entry.meaning if request.include_documentation else None,
    )
