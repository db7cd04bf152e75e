"""The registry of the served APIs, each of which one module handles."""

import inspect
from pkgutil import iter_modules

import pytest

from eagleray.actors.kafka_server import handlers
from eagleray.actors.kafka_server.handlers import registry
from eagleray.actors.kafka_server.handlers.registry import SERVED

PARTLY = {"Produce", "InitProducerId"}
"""Produce has clients of versions that are refused, and InitProducerId one that has to be enabled."""


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_handler_opens_with_its_key_and_serves_what_the_codec_knows(served):
    api, lowest, highest = served.api, served.lowest, served.highest
    versions = f"version {lowest}" if lowest == highest else f"versions {lowest} to {highest}"
    assert inspect.getmodule(served.handle).__doc__.startswith(f"{api.name}: key {api.key}, {versions}")
    assert (lowest, highest) == api.versions or api.name in PARTLY


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_handler_that_is_a_coroutine_returns_the_response(served):
    returned = inspect.signature(served.handle).return_annotation
    assert returned == (served.api.response.__name__ if served.is_async else "None")


def test_each_module_handles_an_api_of_its_own():
    modules = [inspect.getmodule(served.handle) for served in SERVED.values()]
    found = {f"{handlers.__name__}.{module.name}" for module in iter_modules(handlers.__path__)}
    assert {module.__name__ for module in modules} == found - {registry.__name__}
    assert sorted(SERVED) == sorted(module.API.key for module in modules)
