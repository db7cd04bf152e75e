"""Logs, indexes and snapshots as text, line by line as Kafka's DumpLogSegments prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from eagleray.broker.checked_file import CANNOT_DECODE
from eagleray.broker.filesystem import File, FileSystem
from eagleray.broker.log import names
from eagleray.broker.log.offset_index import OffsetIndex
from eagleray.broker.log.producer_entry import ProducerEntry
from eagleray.broker.log.producer_snapshot import decode_snapshot
from eagleray.broker.log.time_index import TimeIndex
from eagleray.broker.log.transaction_index import TransactionIndex
from eagleray.broker.metadata import log_records
from eagleray.broker.metadata.topics import CLUSTER_METADATA, TRANSACTION_STATE
from eagleray.broker.security.scram import ScramCredential
from eagleray.broker.transactions import log_records as transaction_records
from eagleray.broker.transactions.origin import decode_origin
from eagleray.offline.kafka_json import KINDS, describe_record
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import (
    HEADER_BYTES,
    BatchHeader,
    CompressionType,
    Record,
    RecordBatch,
    TimestampType,
    decode_header,
)
from eagleray.protocol.records.control import decode_marker

_TIMESTAMP_TYPES: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


class Wanted(msgspec.Struct, frozen=True):
    """What is to be printed of the records of a log."""

    records: bool = False
    """A line for each record, as `--deep-iteration` does."""

    contents: bool = False
    """Keys and values too, as `--print-data-log` does."""

    decoder: str = ""
    """The internal topic whose records these are, or another word for text; empty to go by the directory's name."""


def dump_log(files: FileSystem, path: str, wanted: Wanted) -> Iterator[str]:
    """Yield a log's batches, up to where no other can be read."""
    base_offset = names.base_offset_of(path.rpartition("/")[2])
    if base_offset is not None:
        yield f"Log starting offset: {base_offset}"
    file = files.open(path)
    try:
        position, size_bytes = 0, file.size()
        while position < size_bytes:
            batch = _batch_at(file, position, size_bytes)
            if batch is None:
                yield f"Found {size_bytes - position} invalid bytes at the end of {path.rpartition('/')[2]}"
                return
            yield _batch_line(batch, position)
            if wanted.records:
                yield from _record_lines(batch, wanted)
            position += len(batch.view)
    finally:
        file.close()


def _batch_at(file: File, position: int, size_bytes: int) -> RecordBatch | None:
    try:
        header = decode_header(file.read(position, HEADER_BYTES))
    except ProtocolError:
        return None
    if position + header.size_bytes > size_bytes:
        return None
    return RecordBatch(memoryview(file.read(position, header.size_bytes)), header)


def _batch_line(batch: RecordBatch, position: int) -> str:
    header = batch.header
    horizon = "OptionalLong.empty" if header.delete_horizon_ms is None else f"OptionalLong[{header.delete_horizon_ms}]"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_bool(header.is_transactional)} "
        f"isControl: {_bool(header.is_control)} deleteHorizonMs: {horizon} position: {position} "
        f"{_TIMESTAMP_TYPES[header.timestamp_type]}: {header.max_timestamp} size: {header.size_bytes} "
        f"magic: {header.magic} compresscodec: {_codec(header)} crc: {header.crc} isvalid: {_bool(_is_valid(batch))}"
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _codec(header: BatchHeader) -> str:
    try:
        return CompressionType.from_attributes(header.attributes).name.lower()
    except ProtocolError:
        return "unknown"


def _is_valid(batch: RecordBatch) -> bool:
    try:
        batch.verify_crc()
    except ProtocolError:
        return False
    return True


def _record_lines(batch: RecordBatch, wanted: Wanted) -> Iterator[str]:
    try:
        records = batch.records()
    except ProtocolError as error:
        yield f"| the records cannot be read: {error}"
        return
    for record in records:
        yield _record_line(batch.header, record, wanted)
        if wanted.contents and wanted.decoder == TRANSACTION_STATE and record.value is not None:
            yield from _fields_of_ours(bytes(record.value))


def _record_line(header: BatchHeader, record: Record, wanted: Wanted) -> str:
    key = None if record.key is None else bytes(record.key)
    value = None if record.value is None else bytes(record.value)
    sequence = -1
    if header.base_sequence >= 0:
        sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
    line = (
        f"| offset: {record.offset} {_TIMESTAMP_TYPES[header.timestamp_type]}: {record.timestamp} "
        f"keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)} "
        f"sequence: {sequence} headerKeys: [{','.join(_name_of(each[0]) for each in record.headers)}]"
    )
    if header.is_control:
        return line + _marker(key, value)
    return line + (_contents(key, value, wanted.decoder) if wanted.contents else "")


def _name_of(header_key: str | bytes) -> str:
    return header_key if isinstance(header_key, str) else header_key.decode(errors="replace")


def _marker(key: bytes | None, value: bytes | None) -> str:
    try:
        marker = decode_marker(key, value)
    except ProtocolError as error:
        return f" controlRecord: {error}"
    if marker is None:
        return " controlRecord: unknown"
    return f" endTxnMarker: {marker.control_type.name} coordinatorEpoch: {marker.coordinator_epoch}"


def _contents(key: bytes | None, value: bytes | None, decoder: str) -> str:
    if decoder == CLUSTER_METADATA:
        # The first batch of a term has a record without anything in it.
        return "" if value is None else f" payload: {_metadata_change(value)}"
    if decoder in KINDS:
        key_text, payload = describe_record(decoder, key, value)
        return f" key: {key_text} payload: {payload}"
    texts = {"key": key, "payload": value}
    return "".join(f" {name}: {data.decode(errors='replace')}" for name, data in texts.items() if data is not None)


def _metadata_change(value: bytes) -> str:
    try:
        return as_json(log_records.decode_record(value))
    except CANNOT_DECODE as error:
        return f"Error at decoding: {error}"


def _fields_of_ours(value: bytes) -> Iterator[str]:
    """What our coordinator keeps in a record beyond Kafka's fields."""
    try:
        snapshot = transaction_records.decode_value(value)
    except (ProtocolError, msgspec.DecodeError):
        return
    ours = {name: getattr(snapshot, name) for name in ("branching", "preparation", "owner")}
    ours |= {"origin": decode_origin(snapshot.origin) if snapshot.origin else None}
    found = {name: each for name, each in ours.items() if each is not None}
    if found:
        yield f"|   eagleray: {as_json(found)}"


def as_json(content: object) -> str:
    """Return any content of ours as JSON; what is neither text nor a number is in hexadecimal digits."""
    return msgspec.json.encode(_readable(content)).decode()


def _readable(content: object) -> object:
    if isinstance(content, ScramCredential):
        # With the rest, passwords can be guessed.
        return {"iterations": content.iterations, "secret": "..."}
    if isinstance(content, msgspec.Struct):
        tag = {} if content.__struct_config__.tag is None else {"type": content.__struct_config__.tag}
        return tag | {name: _readable(getattr(content, name)) for name in content.__struct_fields__}
    if isinstance(content, dict):
        return {str(_readable(key)): _readable(value) for key, value in content.items()}
    if isinstance(content, list | tuple | set | frozenset):
        return [_readable(each) for each in content]
    return bytes(content).hex() if isinstance(content, bytes | bytearray | memoryview) else content


def dump_offset_index(files: FileSystem, path: str) -> Iterator[str]:
    """Yield the entries of an offset index."""
    index = OffsetIndex.decode(_base_offset(path), files.read_bytes(path))
    if index is None:
        yield _NO_INDEX
        return
    if not len(index):
        yield f"{path} is empty."
    for offset, position in index:
        yield f"offset: {offset} position: {position}"


def dump_time_index(files: FileSystem, path: str) -> Iterator[str]:
    """Yield the entries of a time index."""
    index = TimeIndex.decode(_base_offset(path), files.read_bytes(path))
    if index is None:
        yield _NO_INDEX
        return
    for timestamp_ms, offset in index:
        yield f"timestamp: {timestamp_ms} offset: {offset}"


def dump_transaction_index(files: FileSystem, path: str) -> Iterator[str]:
    """Yield the entries of an index of aborted transactions."""
    index = TransactionIndex.decode(files.read_bytes(path))
    if index is None:
        yield _NO_INDEX
        return
    for entry in (index[number] for number in range(len(index))):
        yield (
            f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )


_NO_INDEX: Final = "the file is damaged: its entries do not ascend, or end in the middle of one"


def dump_snapshot(files: FileSystem, path: str) -> Iterator[str]:
    """Yield the producers of a snapshot."""
    entries = decode_snapshot(files.read_bytes(path))
    if entries is None:
        yield "the snapshot is damaged: its checksum does not match, or its version is not known"
        return
    yield from map(_producer_line, entries)


def _producer_line(entry: ProducerEntry) -> str:
    opened = entry.open_since_offset
    since = "OptionalLong.empty" if opened < 0 else f"OptionalLong[{opened}]"
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {since} lastTimestamp: {entry.last_timestamp_ms} "
    )
    for batch in [*entry.batches][:1]:
        line += (
            f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
            f"lastOffset: {batch.last_offset} offsetDelta: {batch.last_offset - batch.first_offset} "
            f"timestamp: {batch.timestamp_ms}"
        )
    return line


def _base_offset(path: str) -> int:
    return names.base_offset_of(path.rpartition("/")[2]) or 0


DUMPS: Final[dict[str, Callable[[FileSystem, str], Iterator[str]]]] = {
    names.OFFSET_INDEX_SUFFIX: dump_offset_index,
    names.TIME_INDEX_SUFFIX: dump_time_index,
    names.TRANSACTION_INDEX_SUFFIX: dump_transaction_index,
    names.SNAPSHOT_SUFFIX: dump_snapshot,
}
