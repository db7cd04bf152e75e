"""Small files with a checksum, and older ones without."""

import msgspec
import pytest

from eagleray.broker.checked_file import FileDamaged, decode_checked, decode_checked_or_older, encode_checked


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


@pytest.mark.parametrize("text", [b'{"name": "\xff"}', b'{"name": 7}', b'{"name": '])
def test_older_file_that_cannot_be_read_is_damaged(text):
    with pytest.raises(FileDamaged):
        decode_checked_or_older(text, Noted)
