"""docs/direct-lane.md describes the bytes that the lane has."""

import re
from pathlib import Path

import msgspec

from eagleray.actors.lanes import frames
from eagleray.actors.lanes.link import SESSION_SHIFT
from eagleray.broker.controller.events import GetMetadata

PAGE = (Path(__file__).parents[4] / "docs/direct-lane.md").read_text()


def test_page_has_the_version_and_the_sizes_of_the_lane():
    assert f"the version of the lane, big-endian: {frames.VERSION} |" in PAGE
    assert f"{frames.PREFACE_BYTES} bytes, once" in PAGE
    assert f"big-endian, {frames.MAX_FRAME_BYTES:,} at most" in PAGE
    assert frames.encode_preface(bytes(32)) == b"EAGL" + frames.VERSION.to_bytes(2) + bytes(32)


def test_page_shows_the_fields_of_a_welcome():
    names = ", ".join(field.name for field in msgspec.structs.fields(frames.Welcome))
    assert f"`[{names}]`" in PAGE


def test_page_shows_how_a_request_begins():
    (shown,) = re.findall(r"for the metadata of one topic begins `(.*)`", PAGE)
    request = GetMetadata((7 << SESSION_SHIFT) + 1, ("orders",))
    (frame,) = frames.frames_of((request,))
    (sent,) = msgspec.msgpack.decode(frame[4:])
    assert msgspec.json.encode(sent).decode().startswith(shown.replace(", ", ","))
