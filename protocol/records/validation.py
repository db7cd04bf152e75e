"""What a broker demands of the records of a batch before it takes it from a client, as Kafka's LogValidator does.

The header has been checked before (`check_client_batch`). Of the records there have to be as many as it says, at
consecutive offsets, each as long as it says itself, and nothing behind them; they need keys in a compacted topic, and
timestamps within the topic's limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from eagleray.protocol.errors import ErrorCode, InvalidRecord
from eagleray.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES
from eagleray.protocol.records.header import COMPRESSION_MASK, HEADER_BYTES
from eagleray.protocol.records.layouts import LEAST_PROVED_DELTA, is_proved
from eagleray.protocol.records.record import MIN_RECORD_BYTES, NO_TIMESTAMP, decode_record, skip_headers, wrap_timestamp
from eagleray.protocol.records.varint import SINGLE_BYTE_VALUES, decode_longer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eagleray.protocol.records.batch import RecordBatch

MOST_RECORD_ERRORS: Final = 1000
"""So many records of a batch are named to the producer; all others count as refused with them."""

_NAMED_RECORDS: Final = 3
"""So many stand in the message that goes with them."""

_MORE: Final = 0x80
"""The bit of a varint's byte that has another one behind it."""

_MIN_INT64: Final = -(1 << 63)
_MAX_INT64: Final = (1 << 63) - 1


class RecordError(msgspec.Struct, frozen=True, gc=False):
    """Why a record was refused, by its place in the batch. The others are refused with it."""

    batch_index: int
    message: str


class RecordsRefused(InvalidRecord):
    """A batch that is well formed, but has records that the topic does not take."""

    def __init__(self, text: str, error_code: ErrorCode, record_errors: Sequence[RecordError]) -> None:
        super().__init__(text, error_code)
        self.record_errors = tuple(record_errors)

    def __reduce__(self) -> tuple[type[RecordsRefused], tuple[str, ErrorCode, tuple[RecordError, ...]]]:
        return type(self), (str(self), self.error_code, self.record_errors)


class RecordRules(msgspec.Struct, frozen=True, gc=False):
    """What a topic demands of its records."""

    needs_keys: bool = False
    earliest_ms: int = _MIN_INT64
    """Between this and `latest_ms` the timestamps have to be, but for those that say that there is none."""

    latest_ms: int = _MAX_INT64
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    """What the records may take when they are not compressed any more."""


ANY_RECORDS: Final = RecordRules()


def check_records(batch: RecordBatch, rules: RecordRules = ANY_RECORDS) -> int:
    """Check the records of a batch whose header was checked, and return the largest of their timestamps.

    Raises InvalidRecord where they are not what the header says; RecordsRefused, which names them, where the topic
    does not take some; UnsupportedCompression; and RecordTooLarge where they unpack to more than the rules allow.
    """
    header = batch.header
    count, base_timestamp, max_timestamp = header.record_count, header.base_timestamp, header.max_timestamp
    if header.attributes & COMPRESSION_MASK:
        block, start = bytes(batch.records_block(max_bytes=rules.max_bytes)), 0
    else:
        # A view of all of an object's bytes needs no copy of them.
        view, start = batch.view, HEADER_BYTES
        whole = view.obj
        block = whole if isinstance(whole, bytes) and len(whole) == len(view) else bytes(view)
    if not 0 < count * MIN_RECORD_BYTES <= len(block) - start:
        raise InvalidRecord(f"{count} records do not fit into {len(block) - start} bytes")
    if (
        base_timestamp >= NO_TIMESTAMP
        and base_timestamp + LEAST_PROVED_DELTA >= rules.earliest_ms
        and max_timestamp <= rules.latest_ms
        and is_proved(block, start, count, max_timestamp - base_timestamp, needs_keys=rules.needs_keys)
    ):
        return max_timestamp
    return _check_each(block, start, count, base_timestamp, rules)


def _check_each(block: bytes, start: int, count: int, base_timestamp: int, rules: RecordRules) -> int:
    lowest, highest, is_keyless = _read_each(block, start, count)
    lowest, highest = base_timestamp + lowest, base_timestamp + highest
    if lowest < _MIN_INT64 or highest > _MAX_INT64:
        timestamps = [timestamp for timestamp, _ in _timestamps_and_keys(block, start, count, base_timestamp)]
        lowest, highest = min(timestamps), max(timestamps)
    if lowest < rules.earliest_ms or highest > rules.latest_ms or (is_keyless and rules.needs_keys):
        _refuse_records(_timestamps_and_keys(block, start, count, base_timestamp), count, rules)
    return max(highest, NO_TIMESTAMP)


def _timestamps_and_keys(
    block: bytes, position: int, count: int, base_timestamp: int
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the timestamp and the key of each of the records, which are well formed."""
    for _ in range(count):
        _, delta, key, _, _, position = decode_record(block, position)
        yield wrap_timestamp(base_timestamp + delta), key


def _read_each(block: bytes, position: int, count: int) -> tuple[int, int, bool]:  # noqa: PLR0912, PLR0915
    """Return the least and the largest timestamp delta of the records that fill the block from a position on, and
    whether any of them has no key.
    """
    single_byte_values = SINGLE_BYTE_VALUES
    lowest, highest, is_keyless = _MAX_INT64, _MIN_INT64, False
    place = 0
    try:
        for place in range(count):
            # Lengths of one and two bytes are spelled out: calling for them would cost as much as all the rest.
            byte = block[position]
            if byte < _MORE:
                end = position + 1 + ((byte >> 1) ^ -(byte & 1))
                position += 1
            elif (following := block[position + 1]) < _MORE:
                position += 2
                end = position + (((byte & 0x7F | following << 7) >> 1) ^ -(byte & 1))
            else:
                length, position = decode_longer(block, position + 1, 32)
                end = position + length

            # The byte between is the attributes, which have no meaning yet.
            delta = single_byte_values[block[position + 1]]
            position += 2
            if delta is None:
                delta, position = decode_longer(block, position, 64)
            if delta > highest:  # noqa: PLR1730 - it would be a call for each
                highest = delta
            if delta < lowest:  # noqa: PLR1730
                lowest = delta
            delta = single_byte_values[block[position]]
            position += 1
            if delta is None:
                delta, position = decode_longer(block, position, 32)
            if delta != place:
                raise InvalidRecord(f"record {place} has offset delta {delta}; expected {place}")

            key_length = single_byte_values[block[position]]
            position += 1
            if key_length is None:
                key_length, position = decode_longer(block, position, 32)
            if key_length >= 0:
                position += key_length
            else:
                is_keyless = True
            byte = block[position]
            if byte < _MORE:
                position += 1 + (0 if byte & 1 else byte >> 1)
            elif (following := block[position + 1]) < _MORE:
                position += 2 + (0 if byte & 1 else (byte & 0x7F | following << 7) >> 1)
            else:
                length, position = decode_longer(block, position + 1, 32)
                position += max(length, 0)

            if block[position]:
                position = skip_headers(block, position, end)
            else:
                position += 1
            if position != end:
                raise InvalidRecord(f"record {place} ends at {position}, but by its length at {end}")
    except IndexError:
        raise InvalidRecord(f"the records end inside record {place} of {count}") from None
    if position != len(block):
        raise InvalidRecord(f"{len(block) - position} bytes follow the last of {count} records")
    return lowest, highest, is_keyless


def _refuse_records(records: Iterator[tuple[int, bytes | None]], count: int, rules: RecordRules) -> None:
    """Raise the refusal of the records that the rules exclude, where there are any."""
    errors: list[RecordError] = []
    error_code = ErrorCode.INVALID_RECORD
    for place, (timestamp, key) in enumerate(records):
        if key is None and rules.needs_keys:
            errors.append(RecordError(place, "it has no key, and the topic is compacted"))
        elif not rules.earliest_ms <= timestamp <= rules.latest_ms and timestamp != NO_TIMESTAMP:
            error_code = ErrorCode.INVALID_TIMESTAMP
            errors.append(RecordError(place, _untimely(timestamp, rules)))
        if len(errors) == MOST_RECORD_ERRORS:
            break
    if errors:
        named = "; ".join(f"record {error.batch_index}: {error.message}" for error in errors[:_NAMED_RECORDS])
        raise RecordsRefused(
            f"{'at least ' if len(errors) == MOST_RECORD_ERRORS else ''}{len(errors)} of {count} records are refused, "
            f"and with them the batch: {named}{_more_than(errors)}",
            error_code,
            errors,
        )


def _untimely(timestamp: int, rules: RecordRules) -> str:
    return (
        f"its timestamp {timestamp} is outside of {rules.earliest_ms} to {rules.latest_ms}: see "
        f"message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    )


def _more_than(errors: Sequence[RecordError]) -> str:
    return f"; and {len(errors) - _NAMED_RECORDS} more" if len(errors) > _NAMED_RECORDS else ""
