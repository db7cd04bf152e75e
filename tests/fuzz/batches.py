"""Record batches of a stranger: mostly such as producers send, some with bytes changed below a true checksum."""

from typing import NamedTuple

from crc32c import crc32c

from eagleray.protocol.records import CompressionType, EndTransactionMarker, NewRecord, build_batch, build_marker
from tests.fuzz.choices import Choices
from tests.fuzz.knowledge import Knowledge

_LENGTH = slice(8, 12)
_CRC = slice(17, 21)
_ATTRIBUTES_POSITION = 21
_LOG_OVERHEAD_BYTES = 12
_HEADER_BYTES = 61
_KEYS = (b"a", b"b", b"", b"long" * 100, None)
_VALUES = (b"value", None, b"", bytes(1000))


class Writer(NamedTuple):
    """Whose batch it is, and where it goes."""

    producer_id: int
    epoch: int
    topic: str
    partition: int


def record_data(choices: Choices, knowledge: Knowledge, now_ms: int, writer: Writer, *, is_wild: bool) -> bytes | None:
    """What stands in a Produce request for the records of a partition."""
    kind = choices.below(16) if is_wild else 15
    if kind == 0:
        return choices.of((None, b"", bytes(70), b"\xff" * 61))
    if kind == 1:
        return choices.bytes(choices.byte())
    if kind == 2:
        marker = EndTransactionMarker(choices.one_in(2), choices.below(3))
        who = {"producer_id": max(writer.producer_id, 0), "producer_epoch": max(writer.epoch, 0)}
        data = build_marker(marker, **who, timestamp_ms=now_ms)
    else:
        data = _data_batch(choices, knowledge, now_ms, writer, is_wild=is_wild)
    if kind in (3, 4, 5):
        data = _changed(data, choices)
    return data * 2 if kind == 6 else data


def _data_batch(choices: Choices, knowledge: Knowledge, now_ms: int, writer: Writer, *, is_wild: bool) -> bytes:
    timestamp_ms = choices.of((-1, 0, 2**62)) if is_wild and choices.one_in(4) else now_ms
    count = 1 + choices.below(4)
    records = [
        NewRecord(choices.of(_VALUES), choices.of(_KEYS), timestamp_ms, (("h", b"x"),) if choices.one_in(8) else ())
        for _ in range(count)
    ]
    compression = choices.of(tuple(CompressionType)) if choices.one_in(4) else CompressionType.NONE
    if writer.producer_id < 0 or (is_wild and choices.one_in(4)):
        return build_batch(records, compression=compression)
    key = (writer.producer_id, writer.epoch, writer.topic, writer.partition)
    sequence = knowledge.sequences[key]
    if choices.one_in(6):
        sequence = choices.of((0, sequence - 1, sequence + 1, 2**31 - 1, -1))
    else:
        knowledge.sequences[key] += count
    return build_batch(
        records,
        compression=compression,
        transactional=not choices.one_in(4),
        producer_id=writer.producer_id,
        producer_epoch=max(writer.epoch + (choices.of((-1, 1)) if choices.one_in(12) else 0), 0),
        base_sequence=max(sequence, -1),
    )


def _changed(data: bytes, choices: Choices) -> bytes:
    """Change bytes; length and checksum mostly agree with them, so that what lies behind those checks is reached."""
    changed = bytearray(data)
    for _ in range(1 + choices.below(4)):
        changed[choices.number(2) % len(changed)] = choices.byte()
    if choices.one_in(4):
        del changed[_HEADER_BYTES + choices.byte() :]
    if choices.one_in(8) or len(changed) < _HEADER_BYTES:
        return bytes(changed)
    changed[_LENGTH] = (len(changed) - _LOG_OVERHEAD_BYTES).to_bytes(4)
    changed[_CRC] = crc32c(memoryview(changed)[_ATTRIBUTES_POSITION:]).to_bytes(4)
    return bytes(changed)
