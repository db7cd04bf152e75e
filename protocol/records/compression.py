"""The codecs of record batches, with a limit on what they may unpack to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cramjam

from eagleray.protocol.errors import InvalidRecord, RecordTooLarge
from eagleray.protocol.records import xerial
from eagleray.protocol.records.header import BytesLike, CompressionType

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024

_FIRST_GUESS_BYTES = 4096
_GROWTH = 4
# The only sign by which the library tells a full output buffer from damaged input. A test holds it to that.
_OUTPUT_IS_FULL = "failed to write whole buffer"


def compress(codec: CompressionType, data: BytesLike) -> bytes:
    """Compress a block of records the way that every Kafka client can read."""
    return _COMPRESS[codec](data)


def decompress(
    codec: CompressionType,
    data: BytesLike,
    *,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """Unpack a block of records.

    Raises InvalidRecord when the block cannot be unpacked, and RecordTooLarge when it would give more than
    `max_bytes`. No more memory than about twice that is used before it is refused.
    """
    if codec is CompressionType.NONE:
        return bytes(data)
    try:
        if codec is CompressionType.SNAPPY:
            return xerial.decompress(data, max_bytes)
        return _decompress_bounded(_DECOMPRESS_INTO[codec], data, max_bytes)
    except cramjam.DecompressionError as error:
        raise InvalidRecord(f"the {codec.name.lower()} block cannot be unpacked: {error}") from error


def _decompress_bounded(decompress_into: Callable[..., int], data: BytesLike, max_bytes: int) -> bytes:
    """Unpack into a buffer that starts small and grows up to the limit, never by what the block claims."""
    guess_bytes = max(_FIRST_GUESS_BYTES, _GROWTH * len(data))
    while guess_bytes < max_bytes:
        unpacked = _try_decompress(decompress_into, data, guess_bytes)
        if unpacked is not None:
            return unpacked
        guess_bytes *= _GROWTH
    unpacked = _try_decompress(decompress_into, data, max_bytes)
    if unpacked is None:
        raise RecordTooLarge(f"the compressed records unpack to more than {max_bytes} bytes")
    return unpacked


def _try_decompress(decompress_into: Callable[..., int], data: BytesLike, size_bytes: int) -> bytes | None:
    output = bytearray(size_bytes)
    try:
        written_bytes = decompress_into(data, output)
    except cramjam.DecompressionError as error:
        if str(error) == _OUTPUT_IS_FULL:
            return None
        raise
    return bytes(memoryview(output)[:written_bytes])


def _compress_lz4(data: BytesLike) -> bytes:
    # Kafka's own reader refuses frames whose blocks depend on each other, which is the library's default.
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


_COMPRESS: dict[CompressionType, Callable[[BytesLike], bytes]] = {
    CompressionType.NONE: bytes,
    CompressionType.GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
    CompressionType.SNAPPY: xerial.compress,
    CompressionType.LZ4: _compress_lz4,
    CompressionType.ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}
_DECOMPRESS_INTO: dict[CompressionType, Callable[..., int]] = {
    CompressionType.GZIP: cramjam.gzip.decompress_into,
    CompressionType.LZ4: cramjam.lz4.decompress_into,
    CompressionType.ZSTD: cramjam.zstd.decompress_into,
}
