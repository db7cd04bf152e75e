"""Look for bytes that break the reading of record batches.

python fuzz/fuzz_records.py [libFuzzer options] [corpus folders], for example -max_total_time=120

Whatever the bytes: nothing but ProtocolError is raised, nothing outgrows its limit, and what could be read is
the same again after it was built anew.
"""

import sys
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["eagleray.protocol"]):
    from eagleray.protocol.errors import ProtocolError
    from eagleray.protocol.records import (
        HEADER_BYTES,
        LOG_OVERHEAD_BYTES,
        CompressionType,
        EndTransactionMarker,
        NewRecord,
        RecordBatch,
        build_batch,
        build_marker,
        check_client_batch,
        check_records,
        rebuild_batch,
        scan_batches,
        split_batches,
        stamp_append_time,
    )
    from eagleray.protocol.records.compression import decompress

from crc32c import crc32c

LIMIT_BYTES = 1 << 20
LENGTH = slice(8, 12)
MAGIC_POSITION = 16
CRC = slice(17, 21)
ATTRIBUTES_POSITION = 21


def any_bytes(data: bytes) -> None:
    """Split and scan them as they are."""
    with suppress(ProtocolError):
        for batch in split_batches(data):
            read_all_of(batch)
    scan = scan_batches(data)
    assert scan.valid_length == sum(len(batch.view) for batch in scan.batches) <= len(data)
    assert (scan.stopped_by is None) == (scan.valid_length == len(data))


def one_batch(data: bytes) -> None:
    """Make length, magic and checksum right, so that all the rest is reached."""
    if len(data) < HEADER_BYTES:
        return
    sealed = bytearray(data)
    sealed[LENGTH] = (len(data) - LOG_OVERHEAD_BYTES).to_bytes(4)
    sealed[MAGIC_POSITION] = 2
    sealed[CRC] = crc32c(memoryview(sealed)[ATTRIBUTES_POSITION:]).to_bytes(4)
    (batch,) = split_batches(sealed)
    read_all_of(batch)


def plain_records(data: bytes) -> None:
    """Take them for the records of an uncompressed batch; the first byte says how many there are."""
    if not data:
        return
    count, block = data[0] % 8 + 1, data[1:]
    header = bytearray(HEADER_BYTES)
    header[23:27] = (count - 1).to_bytes(4)
    header[57:61] = count.to_bytes(4)
    one_batch(bytes(header) + block)


def compressed_block(data: bytes) -> None:
    """Unpack them with each codec."""
    for codec in CompressionType:
        with suppress(ProtocolError):
            unpacked = decompress(codec, data, max_bytes=LIMIT_BYTES)
            assert codec is CompressionType.NONE or len(unpacked) <= LIMIT_BYTES


def read_all_of(batch: RecordBatch) -> None:
    """Ask for everything that a broker or a consumer asks for."""
    for ask in (check_client_batch, check_records, RecordBatch.end_transaction_marker):
        with suppress(ProtocolError):
            ask(batch)
    split_batches(stamp_append_time(batch, 0))
    with suppress(ProtocolError):
        records = batch.records(max_bytes=LIMIT_BYTES)
        (rebuilt,) = split_batches(rebuild_batch(batch, records, delete_horizon_ms=0))
        assert rebuilt.records() == records


TARGETS = (any_bytes, one_batch, plain_records, compressed_block)


def fuzz(data: bytes) -> None:
    """Let the first byte choose what the others are taken for."""
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def seeds() -> list[bytes]:
    """Return sound batches of every codec, which random bytes would take long to become."""
    records = [NewRecord(b"value" * 9, b"key", 1000, (("header", b"x"), ("other", None))), NewRecord(None)]
    producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    batches = [build_batch(records, compression=codec, **producer) for codec in CompressionType]
    batches.append(build_marker(EndTransactionMarker(True, 1), producer_id=1, producer_epoch=0, timestamp_ms=5))
    blocks = [batch[HEADER_BYTES:] for batch in batches]
    return [
        *(bytes([TARGETS.index(any_bytes)]) + batch for batch in batches),
        *(bytes([TARGETS.index(one_batch)]) + batch for batch in batches),
        bytes([TARGETS.index(plain_records), len(records) - 1]) + blocks[CompressionType.NONE],
        *(bytes([TARGETS.index(compressed_block)]) + block for block in blocks),
    ]


def plant_seeds(folder: Path) -> None:
    """Give an empty corpus something to start from."""
    if not any(folder.iterdir()):
        for index, seed in enumerate(seeds()):
            (folder / f"seed-{index:02}").write_bytes(seed)


def main() -> None:
    """Run until libFuzzer's options say stop."""
    for argument in sys.argv[1:]:
        if Path(argument).is_dir():
            plant_seeds(Path(argument))
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
