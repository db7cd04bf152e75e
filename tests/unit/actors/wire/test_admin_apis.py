"""The table of admin and query APIs."""

import inspect

import pytest

from eagleray.actors.wire.handlers.admin_apis import ADMIN_HANDLERS
from eagleray.protocol.codec import APIS


@pytest.mark.parametrize(("api_key", "module", "lowest", "highest"), ADMIN_HANDLERS)
def test_each_handler_opens_with_its_key_and_serves_what_the_codec_knows(api_key, module, lowest, highest):
    api = APIS[api_key]
    versions = f"version {lowest}" if lowest == highest else f"versions {lowest} to {highest}"
    assert module.__doc__.startswith(f"{api.name}: key {api_key}, {versions}.")
    assert (lowest, highest) == api.versions
    assert inspect.iscoroutinefunction(module.handle)
    assert f"-> '{api.response.__name__}'" in str(inspect.signature(module.handle)).replace('"', "'")


def test_no_api_is_in_the_table_twice():
    keys = [key for key, *_ in ADMIN_HANDLERS]
    assert keys == sorted(set(keys))
