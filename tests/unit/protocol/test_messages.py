"""Messages as a whole: that all are there, and that they are what their base promises."""

import importlib
import pkgutil

import pytest

from eagleray.protocol import messages
from eagleray.protocol.codec import APIS
from eagleray.protocol.messages.annotations import Message, WireStruct
from tests.support.messages import MESSAGES, MESSAGES_AND_VERSIONS, name_of

API_KEYS = {*range(4), *range(8, 34), *range(35, 38), *range(42, 48), 50, 51, 57, 60, 61, *range(65, 70), 71, 72, 75}

MODULES = [
    importlib.import_module(f"{messages.__name__}.{module.name}") for module in pkgutil.iter_modules(messages.__path__)
]
STRUCTS = sorted(
    {
        struct
        for module in MODULES
        for struct in vars(module).values()
        if isinstance(struct, type) and issubclass(struct, WireStruct) and struct not in (WireStruct, Message)
    },
    key=lambda struct: (struct.__module__, struct.__name__),
)


def test_every_api_is_there():
    assert set(APIS) == API_KEYS
    assert list(APIS) == sorted(APIS)


def test_every_message_is_known():
    assert {struct for struct in STRUCTS if issubclass(struct, Message)} == set(MESSAGES)


def test_there_are_many_versions():
    assert len(MESSAGES) == 2 * len(API_KEYS) + 24
    assert len(MESSAGES_AND_VERSIONS) == 517


@pytest.mark.parametrize("key", sorted(API_KEYS))
def test_requests_and_responses_belong_together(key: int):
    api = APIS[key]
    assert api.request.__module__ == api.response.__module__
    assert api.request.__name__ == f"{api.name}Request"
    assert api.response.__name__ == f"{api.name}Response"
    assert api.response.wire.api_key == api.request.wire.api_key == key
    assert api.response.wire.versions == api.request.wire.versions
    assert api.response.wire.flexible_since == api.request.wire.flexible_since


@pytest.mark.parametrize("struct", STRUCTS, ids=name_of)
def test_messages_cannot_change_and_need_no_collector(struct: type[WireStruct]):
    assert struct.__struct_config__.frozen
    assert not struct.__struct_config__.gc
    assert hash(struct()) == hash(struct())


@pytest.mark.parametrize("struct", STRUCTS, ids=name_of)
def test_every_part_is_used_by_a_message_of_its_module(struct: type[WireStruct]):
    module = importlib.import_module(struct.__module__)
    assert struct.__doc__
    if not issubclass(struct, Message):
        others = [other for other in vars(module).values() if other in STRUCTS and other is not struct]
        assert any(struct.__name__ in str(other.__annotations__) for other in others)


def test_only_one_version_is_unstable():
    unstable = {message.__name__: message.wire.unstable_since for message in MESSAGES if message.wire.unstable_since}
    assert unstable == {"InitProducerIdRequest": 6}
