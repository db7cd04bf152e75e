"""Requests to leaders that fail by an error which was not foreseen."""

from __future__ import annotations

from eagleray.broker.partitions.events import Effect, Fetch, Produce, Query
from eagleray.broker.runtime.failures import RequestFailed, failed_answer


def failed(request: Produce | Fetch | Query, error: Exception) -> list[Effect]:
    """Answer a request that has failed unexpectedly and has changed nothing, and have it noted."""
    effects: list[Effect] = [RequestFailed(request, error)]
    if not isinstance(request, Produce) or request.acks != 0:
        effects.append(failed_answer(request))
    return effects
