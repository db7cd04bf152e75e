"""What kafka.tools.DumpLogSegments prints, as data."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

StructType = TypeVar("StructType", bound=msgspec.Struct)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record; `key` and `payload` are text as printed, where contents were asked for."""

    offset: int
    timestamp_ms: int
    key_size: int
    value_size: int
    sequence: int
    header_keys: tuple[str, ...]
    marker: str | None = None
    coordinator_epoch: int | None = None
    key: str | None = None
    payload: str | None = None

    def decoded(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return key and value as a decoder of the tool gave them; a tombstone's value is None."""
        assert self.key is not None
        assert self.payload is not None
        value = None if self.payload == "<DELETE>" else msgspec.json.decode(self.payload)
        return msgspec.json.decode(self.key), value


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The header of one batch, and its records."""

    base_offset: int
    last_offset: int
    count: int | None
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    partition_leader_epoch: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    position: int
    timestamp_type: str
    max_timestamp_ms: int
    size: int
    magic: int
    compression: str
    crc: int
    is_valid: bool
    records: list[Record] = msgspec.field(default_factory=list)


class OffsetIndexEntry(msgspec.Struct, frozen=True):
    """An entry of an .index file."""

    offset: int
    position: int


class TimeIndexEntry(msgspec.Struct, frozen=True):
    """An entry of a .timeindex file."""

    timestamp_ms: int
    offset: int


class AbortedTransaction(msgspec.Struct, frozen=True):
    """An entry of a .txnindex file."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A producer in a .snapshot file; the tool prints at most the oldest of its cached batches."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    current_transaction_first_offset: int | None
    last_timestamp_ms: int
    first_sequence: int | None = None
    last_sequence: int | None = None
    last_offset: int | None = None
    offset_delta: int | None = None
    timestamp_ms: int | None = None


class FileDump(msgspec.Struct):
    """What one file holds; which lists are filled depends on the kind of file."""

    path: Path
    batches: list[Batch] = msgspec.field(default_factory=list)
    offset_index: list[OffsetIndexEntry] = msgspec.field(default_factory=list)
    time_index: list[TimeIndexEntry] = msgspec.field(default_factory=list)
    aborted_transactions: list[AbortedTransaction] = msgspec.field(default_factory=list)
    producers: list[ProducerEntry] = msgspec.field(default_factory=list)

    @property
    def records(self) -> list[Record]:
        """The records of all batches."""
        return [record for batch in self.batches for record in batch.records]


class Dump(msgspec.Struct, frozen=True):
    """Everything that one run of the tool printed; `problems` is empty when it found nothing wrong."""

    files: dict[Path, FileDump]
    problems: tuple[str, ...]


BATCH = re.compile(
    r"baseOffset: (?P<base_offset>\d+) lastOffset: (?P<last_offset>\d+) count: (?P<count>\d+|null) "
    r"baseSequence: (?P<base_sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+) "
    r"producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<partition_leader_epoch>-?\d+) isTransactional: (?P<is_transactional>\w+) "
    r"isControl: (?P<is_control>\w+) deleteHorizonMs: OptionalLong(?:\.empty|\[(?P<delete_horizon_ms>\d+)\]) "
    r"position: (?P<position>\d+) (?P<timestamp_type>\w+): (?P<max_timestamp_ms>-?\d+) size: (?P<size>\d+) "
    r"magic: (?P<magic>\d+) compresscodec: (?P<compression>\w+) crc: (?P<crc>\d+) isvalid: (?P<is_valid>\w+)"
)
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) \w+: (?P<timestamp_ms>-?\d+) keySize: (?P<key_size>-?\d+) "
    r"valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<header_keys>.*?)\]"
    r"(?: endTxnMarker: (?P<marker>\w+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+))?"
    r"(?: key: (?P<key>.*?))?(?: payload: (?P<payload>.*))?"
)
OFFSET_INDEX_ENTRY = re.compile(r"offset: (?P<offset>\d+) position: (?P<position>\d+)")
TIME_INDEX_ENTRY = re.compile(r"timestamp: (?P<timestamp_ms>-?\d+) offset: (?P<offset>\d+)")
ABORTED_TRANSACTION = re.compile(
    r"version: (?P<version>\d+) producerId: (?P<producer_id>\d+) firstOffset: (?P<first_offset>\d+) "
    r"lastOffset: (?P<last_offset>\d+) lastStableOffset: (?P<last_stable_offset>\d+)"
)
PRODUCER = re.compile(
    r"producerId: (?P<producer_id>\d+) producerEpoch: (?P<producer_epoch>-?\d+) "
    r"coordinatorEpoch: (?P<coordinator_epoch>-?\d+) "
    r"currentTxnFirstOffset: OptionalLong(?:\.empty|\[(?P<current_transaction_first_offset>\d+)\]) "
    r"lastTimestamp: (?P<last_timestamp_ms>-?\d+) (?:firstSequence: (?P<first_sequence>-?\d+) "
    r"lastSequence: (?P<last_sequence>-?\d+) lastOffset: (?P<last_offset>-?\d+) "
    r"offsetDelta: (?P<offset_delta>-?\d+) timestamp: (?P<timestamp_ms>-?\d+))?"
)
HARMLESS = re.compile(r"Log starting offset: \d+|.* is empty\.|.* passed sanity check\.|")
DECODER_COMPLAINT = re.compile(r"Error at |Unknown record type |unknown::")


def parse_output(lines: Iterable[str]) -> tuple[dict[Path, FileDump], list[str]]:
    """Read the tool's standard output; a line that is no known content is a problem."""
    files: dict[Path, FileDump] = {}
    problems: list[str] = []
    current = FileDump(Path())
    for line in lines:
        if line.startswith("Dumping "):
            current = FileDump(Path(line.removeprefix("Dumping ")))
            files[current.path] = current
        elif not add_line(current, line) and not HARMLESS.fullmatch(line):
            problems.append(line)
    problems.extend(problem for file in files.values() for problem in problems_in(file))
    return files, problems


def add_line(file: FileDump, line: str) -> bool:
    """Add what this line tells to the file, and say whether it told anything."""
    if found := BATCH.fullmatch(line):
        file.batches.append(convert(found, Batch))
    elif found := RECORD.fullmatch(line):
        file.batches[-1].records.append(convert(found, Record))
    elif found := OFFSET_INDEX_ENTRY.fullmatch(line):
        file.offset_index.append(convert(found, OffsetIndexEntry))
    elif found := TIME_INDEX_ENTRY.fullmatch(line):
        file.time_index.append(convert(found, TimeIndexEntry))
    elif found := ABORTED_TRANSACTION.fullmatch(line):
        file.aborted_transactions.append(convert(found, AbortedTransaction))
    elif found := PRODUCER.fullmatch(line):
        file.producers.append(convert(found, ProducerEntry))
    return found is not None


def convert(found: re.Match[str], to: type[StructType]) -> StructType:
    """Make a Struct of the named groups of a line."""
    fields: dict[str, Any] = found.groupdict()
    if "header_keys" in fields:
        fields["header_keys"] = tuple(filter(None, fields["header_keys"].split(",")))
    return msgspec.convert(fields, to, strict=False)


def problems_in(file: FileDump) -> Iterator[str]:
    """Yield what the tool found wrong but printed in passing, among the contents."""
    for batch in file.batches:
        if not batch.is_valid:
            yield f"{file.path}: the batch at offset {batch.base_offset} has a wrong CRC"
    for record in file.records:
        if record.key is not None and DECODER_COMPLAINT.match(record.key):
            yield f"{file.path}: {record.key}"
