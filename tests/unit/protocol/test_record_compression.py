"""Every codec unpacks what it packed, refuses what it cannot unpack, and never more than it may."""

import ctypes
import gc
import gzip
import os
import struct
from contextlib import contextmanager
from pathlib import Path

import cramjam
import pytest

from eagleray.protocol.errors import InvalidRecord, RecordTooLarge
from eagleray.protocol.records import CompressionType, NewRecord, build_batch, split_batches
from eagleray.protocol.records.compression import compress, decompress
from tests.unit.protocol.forge import forge

CODECS = [codec for codec in CompressionType if codec is not CompressionType.NONE]
SAMPLES = {
    "nothing": b"",
    "a byte": b"x",
    "text": b"the quick brown fox " * 50,
    "zeros": bytes(300_000),
    "noise": os.urandom(100_000),
    "one snappy block": bytes(range(256)) * 128,
    "one byte more": bytes(range(256)) * 128 + b"x",
}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
@pytest.mark.parametrize("codec", CompressionType)
def test_packed_records_are_unpacked(codec, sample):
    assert decompress(codec, compress(codec, sample)) == sample
    assert decompress(codec, memoryview(compress(codec, sample))) == sample


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec, sample):
    packed = compress(codec, sample)
    assert decompress(codec, packed, max_bytes=len(sample)) == sample
    if sample:
        with pytest.raises(RecordTooLarge):
            decompress(codec, packed, max_bytes=len(sample) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_block_is_invalid(codec):
    packed = compress(codec, SAMPLES["text"])
    cuts = set(range(len(packed)))
    if codec is CompressionType.SNAPPY:
        cuts.remove(16)  # xerial's header alone is a stream without blocks
    for cut in cuts:
        with pytest.raises(InvalidRecord):
            decompress(codec, packed[:cut])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("noise", [b"", b"\x00", b"\xff" * 100, bytes(100), b"noise"])
def test_noise_is_invalid_or_too_large(codec, noise):
    # Snappy reads a length out of the noise, and zero bytes are a fine answer to a length of zero.
    if codec is CompressionType.SNAPPY and noise == b"\x00":
        assert decompress(codec, noise) == b""
        return
    with pytest.raises((InvalidRecord, RecordTooLarge)):
        decompress(codec, noise)


def test_gzip_of_the_standard_library_is_read_in_members_too():
    assert decompress(CompressionType.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    assert gzip.decompress(compress(CompressionType.GZIP, b"three")) == b"three"


def test_snappy_is_read_with_and_without_framing():
    text = SAMPLES["text"]
    assert compress(CompressionType.SNAPPY, text).startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(CompressionType.SNAPPY, bytes(cramjam.snappy.compress_raw(text))) == text


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 2**31 - 1, 101])
def test_a_snappy_block_stays_inside_its_frame(length):
    frame = compress(CompressionType.SNAPPY, b"")
    with pytest.raises(InvalidRecord, match="does not fit"):
        decompress(CompressionType.SNAPPY, frame + struct.pack(">i", length) + bytes(100))


def test_a_snappy_block_that_claims_four_gigabytes_is_refused_at_once():
    with pytest.raises(RecordTooLarge, match="claims"):
        decompress(CompressionType.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100))


def test_the_lz4_frame_has_independent_blocks_as_kafka_demands():
    packed = compress(CompressionType.LZ4, bytes(300_000))
    assert packed.startswith(b"\x04\x22\x4d\x18")
    independent_blocks_bit = 0x20
    assert packed[4] & independent_blocks_bit


@pytest.mark.parametrize("codec", CODECS)
def test_reading_a_batch_takes_the_limit(codec):
    batch = split_batches(build_batch([NewRecord(bytes(100_000))], compression=codec))[0]
    assert batch.records()[0].value == bytes(100_000)
    with pytest.raises(RecordTooLarge):
        batch.records(max_bytes=50_000)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_whose_block_is_damaged_is_invalid(codec):
    with pytest.raises((InvalidRecord, RecordTooLarge)):
        forge(b"\x93" * 50, attributes=codec).records()


MEBIBYTE = 1 << 20
SNAPPY_BLOCK = bytes(cramjam.snappy.compress_raw(bytes(MEBIBYTE)))
# Each bomb unpacks to much more than it may, but is small itself and cheap to make.
BOMBS = {
    "gzip": (CompressionType.GZIP, gzip.compress(bytes(16 * MEBIBYTE)) * 64),
    "snappy": (
        CompressionType.SNAPPY,
        compress(CompressionType.SNAPPY, b"") + (struct.pack(">i", len(SNAPPY_BLOCK)) + SNAPPY_BLOCK) * 256,
    ),
    "snappy without framing": (CompressionType.SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(256 * MEBIBYTE)))),
    "lz4": (CompressionType.LZ4, compress(CompressionType.LZ4, bytes(16 * MEBIBYTE)) * 64),
    "zstd": (CompressionType.ZSTD, compress(CompressionType.ZSTD, bytes(16 * MEBIBYTE)) * 64),
    # A window of 128 MiB, the largest that the decoder accepts, and blocks of one repeated byte to fill it.
    "zstd with a window": (CompressionType.ZSTD, b"\x28\xb5\x2f\xfd\x00\x88" + b"\x02\x00\x10\x00" * 8192),
    # A single segment that claims 100 MiB, which then are its window.
    "zstd with a claim": (
        CompressionType.ZSTD,
        b"\x28\xb5\x2f\xfd\xa0\x00\x00\x40\x06" + b"\x02\x00\x10\x00" * 799 + b"\x03\x00\x10\x00",
    ),
}


@contextmanager
def grown_bytes():
    """Yield a list that gets the number of bytes by which the process grew at most, meanwhile."""

    def status(field):
        (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) * 1024

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory that was freed, but kept, would hide new memory
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = status("VmRSS")
    grown = []
    yield grown
    grown.append(status("VmHWM") - before)


def test_the_measure_of_memory_works():
    with grown_bytes() as grown:
        bytes(memoryview(bytearray(os.urandom(MEBIBYTE) * 128)))
    assert grown[0] > 64 * MEBIBYTE


@pytest.mark.parametrize(("codec", "bomb"), BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_before_it_fills_the_memory(codec, bomb):
    with grown_bytes() as grown, pytest.raises(RecordTooLarge):
        decompress(codec, bomb, max_bytes=8 * MEBIBYTE)
    assert grown[0] < 40 * MEBIBYTE


def test_the_handmade_bombs_are_real():
    codec, bomb = BOMBS["zstd with a claim"]
    assert decompress(codec, bomb, max_bytes=100 * MEBIBYTE) == bytes(100 * MEBIBYTE)
    codec, bomb = BOMBS["zstd with a window"]
    last_block = b"\x03\x00\x10\x00"
    assert decompress(codec, bomb[:4002] + last_block, max_bytes=256 * MEBIBYTE) == bytes(125 * MEBIBYTE)
