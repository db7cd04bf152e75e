"""The small file of facts that the segments do not tell."""

import pytest
from crc32c import crc32c

from eagleray.broker.log.checkpoint import Checkpoint

FULL = Checkpoint(
    log_start_offset=5, high_watermark=9, recovery_point=7, cleaned_up_to=6, boot_id="a-boot", closed_cleanly=True
)


def test_everything_comes_back() -> None:
    assert Checkpoint.decode(FULL.encode()) == FULL
    assert Checkpoint.decode(Checkpoint().encode()) == Checkpoint()


def test_a_person_can_read_it() -> None:
    assert b'\n  "high_watermark": 9,\n' in FULL.encode()
    assert FULL.encode().endswith(b"}\n")


def test_a_checkpoint_that_says_nothing_promises_nothing() -> None:
    nothing = Checkpoint()
    assert not nothing.closed_cleanly
    assert (nothing.recovery_point, nothing.high_watermark, nothing.log_start_offset) == (0, 0, 0)


def summed(text: bytes) -> bytes:
    """Put a checksum before a text, as if it had been written so."""
    return b"crc32c %08x\n" % crc32c(text) + text


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="no checksum"),
        pytest.param(FULL.encode()[:-3], id="torn"),
        pytest.param(summed(b"\xff\xfe"), id="no text"),
        pytest.param(summed(b"[]"), id="another shape"),
        pytest.param(summed(b'{"version": 2}'), id="another version"),
        pytest.param(summed(b'{"high_watermark": "nine"}'), id="a wrong type"),
        pytest.param(summed(b'{"high_watermark": 9.5}'), id="a fraction"),
    ],
)
def test_a_damaged_file_is_noticed(data: bytes) -> None:
    assert Checkpoint.decode(data) is None


def test_a_field_of_a_later_release_is_skipped() -> None:
    text = b'{"high_watermark": 9, "invented_later": true}'
    assert Checkpoint.decode(summed(text)) == Checkpoint(high_watermark=9)


def test_every_flipped_bit_is_noticed() -> None:
    data = FULL.encode()
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            assert Checkpoint.decode(bytes(damaged)) is None
