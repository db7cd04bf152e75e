"""Messages of the lanes keep their tags, their fields and the order of these within a version of the lane."""

import inspect
import typing

import pytest

from eagleray.actors.lanes.catalog import MESSAGES
from tests.golden.lane_messages import FILE, described, unreadable
from tests.golden.shapes import tagged_structs

TAGGED = tagged_structs(typing.get_args(MESSAGES))

NESTED = "('Described', request_id: int, all?: [(name: str, tag?: str | None)])\n"
NESTED_LONGER = NESTED.replace("str | None)", "str | None, since_ms?: int, of?: (id: int, epoch: int))")
NESTED_OTHER = NESTED.replace("str | None)", "str | None, since_ms: int)")
BEFORE = "version 1\n('Fetch', request_id: int)\n('Fetched', request_id: int, offset: int)\n"


def test_lane_carries_what_was_released():
    assert described() == FILE.read_text(), "python -m tests.golden.lane_messages says whether a peer can read it still"


@pytest.mark.parametrize("message", TAGGED, ids=[each.__name__ for each in TAGGED])
def test_tag_does_not_follow_the_class_name(message):
    assert f'tag="{message.__struct_config__.tag}"' in inspect.getsource(message)


def test_tags_tell_all_messages_apart():
    tags = [message.__struct_config__.tag for message in typing.get_args(MESSAGES)]
    assert len({*tags}) == len(tags)


WITHIN = "version 1\n('Listed', rows: [(name: str, at: (a: int)) | None], ids: {int: (b: int)}, last?: int)\n"


@pytest.mark.parametrize(
    ("change", "is_readable"),
    [
        (("name: str, at: (a: int))", "name: str, at: (a: int), tag?: str | None)"), True),
        (("(a: int)", "(a: int, more?: (x?: int))"), True),
        (("(b: int)", "(b: int, c?: int)"), True),
        (("(b: int)", "(b: int, c: int)"), False),
        (("(a: int)", "(c?: int, a: int)"), False),
        (("(a: int)", "(a: str)"), False),
        (("| None]", "]"), False),
        (("(a: int)", "[a: int]"), False),
    ],
)
def test_optional_fields_at_the_end_of_what_is_within_a_message_are_read_over(change, is_readable):
    assert (unreadable(WITHIN, WITHIN.replace(*change)) == []) is is_readable


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (BEFORE, []),
        (BEFORE + NESTED_LONGER, []),
        (BEFORE + NESTED_OTHER, [NESTED[:-1]]),
        (BEFORE + "('New', request_id: int)\n", []),
        (BEFORE.replace("offset: int)", "offset: int, epochs?: [(a: int, b: int)])"), []),
        (BEFORE.replace("offset: int)", "offset: int, epoch: int)"), ["('Fetched', request_id: int, offset: int)"]),
        (BEFORE.replace("'Fetch'", "'Read'"), ["('Fetch', request_id: int)"]),
        (BEFORE.replace("version 1", "version 2").replace("'Fetch'", "'Read'"), []),
    ],
    ids=[
        "same",
        "optional field inside",
        "required field inside",
        "another message",
        "optional field at the end",
        "required field",
        "renamed",
        "another version",
    ],
)
def test_text_that_a_peer_cannot_read_is_found(now, expected):
    before = BEFORE + NESTED if "Described" in now else BEFORE
    assert unreadable(before, now) == expected
