"""UpdateFeatures: key 57, versions 0 to 2.

The levels of features are fixed: a request for the present level succeeds, one for another is refused.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.broker.controller.decisions import repeated
from eagleray.broker.limits import shown
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

API = ServedApi(57, 0, 2)

_LEVELS: Final = {"transaction.version": IMPLICIT_VERSION, "group.version": 1}
_UPGRADE_TYPES: Final = (1, 2, 3)
_WITHOUT_RESULTS: Final = 2
"""From this version on a request succeeds or fails as a whole."""


async def handle(request: UpdateFeaturesRequest, call: AdminCall) -> UpdateFeaturesResponse:
    """Check whether features are at the levels that a client wants."""
    wrong = repeated(update.feature for update in request.feature_updates)
    if wrong:
        text = f"{shown(', '.join(sorted(wrong)))} are named more than once"
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    results = tuple(map(_result, request.feature_updates))
    failed = next((result for result in results if result.error_code), None)
    if call.api_version >= _WITHOUT_RESULTS and failed is not None:
        return UpdateFeaturesResponse(error_code=failed.error_code, error_message=failed.error_message)
    return UpdateFeaturesResponse(error_message=None, results=results)


def _result(update: FeatureUpdateKey) -> UpdatableFeatureResult:
    text = _problem_with(update)
    if text is None:
        return UpdatableFeatureResult(update.feature, error_message=None)
    is_known = update.upgrade_type in _UPGRADE_TYPES
    error_code = ErrorCode.INVALID_UPDATE_VERSION if is_known else ErrorCode.INVALID_REQUEST
    return UpdatableFeatureResult(update.feature, error_code, text)


def _problem_with(update: FeatureUpdateKey) -> str | None:
    if update.upgrade_type not in _UPGRADE_TYPES:
        return f"the upgrade type of {shown(update.feature)} is {update.upgrade_type}; expected 1, 2 or 3"
    level = _LEVELS.get(update.feature)
    if level is None:
        return f"there is no feature {shown(update.feature)!r}; expected {', '.join(_LEVELS)}"
    if update.max_version_level != level:
        return f"{update.feature} is fixed at level {level}, and was asked to be {update.max_version_level}"
    return None
