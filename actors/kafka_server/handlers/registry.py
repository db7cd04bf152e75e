"""The registry of the served APIs: each module of this folder says which one it handles, and in which versions."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from eagleray.actors.kafka_server import handlers
from eagleray.actors.kafka_server.api_handler import ApiHandler, serve


def _found() -> Iterator[ApiHandler]:
    for found in iter_modules(handlers.__path__, f"{handlers.__name__}."):
        module = import_module(found.name)
        if module.__name__ != __name__:
            yield serve(module)


SERVED: Final[dict[int, ApiHandler]] = {
    handler.api.key: handler for handler in sorted(_found(), key=lambda each: each.api.key)
}
"""By API key. What is served may be less than what the codec knows, never more.

GetTelemetrySubscriptions and PushTelemetry are not here: clients ask for them only where they are advertised, and do
without them otherwise.
"""
