"""One API as this broker serves it, and how a request is refused as a whole."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec

from eagleray.protocol.codec import APIS, Api
from eagleray.protocol.codec.schema import fields_of
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.annotations import Message


class ServedApi(msgspec.Struct, frozen=True):
    """What the module of a handler says of itself, as `API`: the key of its API, and the versions that it takes."""

    key: int
    lowest: int
    highest: int
    has_large_records: bool = False
    advertised_lowest: int | None = None
    highest_in_two_phases: int = -1


class ApiHandler(msgspec.Struct, frozen=True):
    """An API, the versions of it that are served, and its handler."""

    api: Api
    handle: Callable[..., Any]
    lowest: int
    highest: int
    is_async: bool
    """Whether the handler is a coroutine function, which a task runs."""

    refuse: Callable[[Any, int, ErrorCode], Message] | None
    """Returns a response with one code for every part of a request, where the API has none for the whole."""

    has_large_records: bool = False
    """Whether responses carry record data that should not be copied."""

    advertised_lowest: int = -1
    """The version to advertise as the lowest, where that differs from the lowest that is served."""

    highest_in_two_phases: int = -1
    """The highest version that is served with `transaction.two.phase.commit.enable`, where that differs."""

    def highest_with(self, *, two_phase: bool) -> int:
        """The highest version that is served, with two-phase commit enabled or not."""
        return max(self.highest, self.highest_in_two_phases) if two_phase else self.highest

    def takes(self, version: int, *, two_phase: bool = False) -> bool:
        """Whether a version is served."""
        return self.lowest <= version <= self.highest_with(two_phase=two_phase)

    def refusal(self, request: Message | None, version: int, error_code: ErrorCode) -> Message | None:
        """Give the response that refuses a request as a whole, or None where the API cannot say it."""
        if self.refuse is not None:
            return self.refuse(request, version, error_code)
        for field in fields_of(self.api.response):
            if field.name == "error_code" and field.is_in(version):
                return self.api.response(error_code=error_code)
        return None


def serve(module: ModuleType) -> ApiHandler:
    """Serve the API of a module with its `handle` and, where it has one, its `refuse`."""
    served: ServedApi = module.API
    api, lowest, highest = APIS[served.key], served.lowest, served.highest
    largest = max(highest, served.highest_in_two_phases)
    assert api.versions[0] <= lowest <= highest <= largest <= api.versions[1], f"{api.name} has no such versions"
    handle = module.handle
    return ApiHandler(
        api,
        handle,
        lowest,
        highest,
        inspect.iscoroutinefunction(handle),
        getattr(module, "refuse", None),
        served.has_large_records,
        lowest if served.advertised_lowest is None else served.advertised_lowest,
        served.highest_in_two_phases,
    )
