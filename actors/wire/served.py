"""One API as this broker serves it, and how a request of it is refused as a whole."""

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


class Served(msgspec.Struct, frozen=True):
    """An API, the versions of it that are served, and who handles it."""

    api: Api
    handle: Callable[..., Any]
    lowest: int
    highest: int
    is_async: bool
    """Whether the handler is a coroutine function, which a task runs."""

    refuse: Callable[[Any, int, ErrorCode], Message] | None
    """Gives the response that says the same code for every part of a request, where the API has no other way."""

    has_large_records: bool = False
    """Whether responses carry record data that is better not copied."""

    advertised_lowest: int = -1
    """The version to advertise as the lowest, where that has to be another than the lowest that is served."""

    def takes(self, version: int) -> bool:
        """Whether a version is served."""
        return self.lowest <= version <= self.highest

    def refusal(self, request: Any, version: int, error_code: ErrorCode) -> Message | None:  # noqa: ANN401 - any request
        """Give the response that refuses a request as a whole, or None where the API cannot say it."""
        if self.refuse is not None:
            return self.refuse(request, version, error_code)
        for field in fields_of(self.api.response):
            if field.name == "error_code" and field.is_in(version):
                return self.api.response(error_code=error_code)
        return None


def serve(
    api_key: int,
    module: ModuleType,
    lowest: int,
    highest: int,
    *,
    has_large_records: bool = False,
    advertised_lowest: int | None = None,
) -> Served:
    """Serve an API with a module's `handle` and, where it has one, its `refuse`."""
    api = APIS[api_key]
    assert api.versions[0] <= lowest <= highest <= api.versions[1], f"{api.name} has no such versions"
    handle = module.handle
    return Served(
        api,
        handle,
        lowest,
        highest,
        inspect.iscoroutinefunction(handle),
        getattr(module, "refuse", None),
        has_large_records,
        lowest if advertised_lowest is None else advertised_lowest,
    )
