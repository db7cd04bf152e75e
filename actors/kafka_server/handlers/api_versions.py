"""ApiVersions: key 18, versions 0 to 5.

Tells which APIs this broker serves, from the registry, and the features that clients decide by. A client that asks in
an unknown version is answered in version 0, with the versions that it may use.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from eagleray.actors.kafka_server.advertised import Advertised
from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.context import ListenerContext
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from eagleray.actors.kafka_server.listener import Listener

API = ServedApi(18, 0, 5)

_GROUP_HEARTBEAT_KEY: Final = 68
_NAMED_SINCE: Final = 3
_LEVEL_ZERO_SINCE: Final = 4
"""Older clients reject a feature whose lowest level is 0."""
_FEATURES_EPOCH: Final = 1


def handle(request: ApiVersionsRequest, call: Call) -> None:
    """Answer at once."""
    call.answer(response_to(request, call.api_version, call.listener, call.advertised))


def response_to(
    request: ApiVersionsRequest, version: int, listener: Listener, advertised: Advertised
) -> ApiVersionsResponse:
    """Return all that is served, unless the client reached another cluster or node than it meant (KIP-1242)."""
    if version >= _NAMED_SINCE and not _is_sensible(request):
        return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    if request.cluster_id is not None and _is_elsewhere(request, listener.context, advertised):
        return ApiVersionsResponse(ErrorCode.REBOOTSTRAP_REQUIRED)
    lowest_level = 0 if version >= _LEVEL_ZERO_SINCE else 1
    return _everything(lowest_level, two_phase=listener.has_two_phase_commit)


def refuse_unknown_version(call: Call) -> None:
    """Answer an unknown version in version 0: the client expects that, and then asks in an older one."""
    call.answer(response_to_unknown_version(call.listener))


def response_to_unknown_version(listener: Listener) -> ApiVersionsResponse:
    """Return the versions that a client may use, in version 0."""
    return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, _served(two_phase=listener.has_two_phase_commit))


def _is_elsewhere(request: ApiVersionsRequest, context: ListenerContext, advertised: Advertised) -> bool:
    """Whether the client looks for another cluster, or for another node of this one."""
    if request.cluster_id != context.image.cluster_id:
        return True
    return request.node_id != context.spec.node_id and request.node_id in advertised.brokers


def _is_sensible(request: ApiVersionsRequest) -> bool:
    """Whether the client names itself, as it has to from version 3 on."""
    return all(map(_is_a_name, (request.client_software_name, request.client_software_version)))


def _is_a_name(text: str) -> bool:
    return (
        bool(text)
        and text.isascii()
        and all(letter.isalnum() or letter in "-." for letter in text)
        and (text[0].isalnum() and text[-1].isalnum())
    )


@cache
def _everything(lowest_level: int, *, two_phase: bool) -> ApiVersionsResponse:
    served = _served(two_phase=two_phase)
    # The features that clients look at before they use a newer protocol, and this broker's level of each.
    features = {"transaction.version": IMPLICIT_VERSION}
    if any(api.api_key == _GROUP_HEARTBEAT_KEY for api in served):
        features["group.version"] = 1
    return ApiVersionsResponse(
        api_keys=served,
        supported_features=tuple(SupportedFeatureKey(name, lowest_level, level) for name, level in features.items()),
        finalized_features_epoch=_FEATURES_EPOCH,
        finalized_features=tuple(FinalizedFeatureKey(name, level, level) for name, level in features.items()),
    )


@cache
def _served(*, two_phase: bool) -> tuple[ApiVersion, ...]:
    from eagleray.actors.kafka_server.handlers.registry import SERVED  # noqa: PLC0415 - the registry imports this module

    served: Any = SERVED
    return tuple(
        ApiVersion(key, served[key].advertised_lowest, served[key].highest_with(two_phase=two_phase))
        for key in sorted(served)
    )
