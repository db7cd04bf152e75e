"""Small files with a checksum, and older ones without."""

import msgspec
import pytest
from crc32c import crc32c

from eagleray.broker.checked_file import FileDamaged, count_in, decode_checked, decode_checked_or_older, encode_checked
from eagleray.broker.filesystem import replace_file
from eagleray.broker.generations import summed
from eagleray.broker.log.bookmark import is_bookmark_damaged
from eagleray.broker.log.index_files import IndexChecksums
from eagleray.broker.log.names import BOOKMARK_FILE
from eagleray.broker.metadata.kept_image import KeptImage
from tests.support.simulated_disk import SimulatedDisk


class Noted(msgspec.Struct, frozen=True):
    name: str


def test_every_changed_byte_is_damage():
    data = encode_checked(Noted("one"))
    assert decode_checked(data, Noted) == Noted("one")
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x80
        with pytest.raises(FileDamaged):
            decode_checked(bytes(changed), Noted)


NESTED = b"\x81\xa1x" + b"\x91" * 100_000 + b"\xc0"
"""A map of msgpack with a field that no release knows, and that has no end for a reader who goes into it."""


@pytest.mark.parametrize(
    "text",
    [
        b'{"name": "\xff"}',
        b'{"name": 7}',
        b'{"name": ',
        pytest.param(b'{"name": "one", "x": ' + b"[" * 100_000, id="nested"),
    ],
)
def test_older_file_that_cannot_be_read_is_damaged(text):
    with pytest.raises(FileDamaged):
        decode_checked_or_older(text, Noted)


def test_nesting_without_end_is_damage_for_every_reader_of_msgpack():
    assert KeptImage.decode(summed(NESTED)) is None
    row = b"\x94\x01\xa0\x00" + b"\x91" * 100_000
    sealed = crc32c(row).to_bytes(4) + row
    assert IndexChecksums.decode(sealed) is None
    disk = SimulatedDisk()
    disk.make_directories("/log")
    replace_file(disk, f"/log/{BOOKMARK_FILE}", sealed)
    assert is_bookmark_damaged(disk, "/log")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"12\n", 12),
        (b"0", 0),
        (b"", None),
        (b"-1", None),
        (b"1 2", None),
        (b"\xb2", None),
        pytest.param(b"9" * 5000, None, id="many digits"),
    ],
)
def test_number_in_a_file_is_read_or_there_is_none(text, number):
    assert count_in(text) == number
