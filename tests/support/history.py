"""What clients of a cluster did and know, and what was found in the end: the evidence that a checker judges.

Each client process writes its own file, a line for each event, and each line is in the hands of the kernel before the
client does what the line says. So the file of a client that was killed with kill -9 tells the truth about it:

    Begun     everything that the transaction is going to contain, before the first record is sent
    Ending    it is about to ask for the end, and for which
    Ended     what it was told
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import msgspec

from eagleray.broker.identities import TopicPartition


class TransactionName(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The transactions of one producer are ordered by their names."""

    producer: str
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.producer}/{self.incarnation}/{self.number}"


class Place(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Where a record is."""

    partition: TopicPartition
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}"


class Payload(msgspec.Struct, frozen=True, array_like=True):
    """The value of a record, which says by itself where it comes from."""

    transaction: TransactionName
    index: int
    body: str
    group: str | None = None
    source: Place | None = None
    """The record that a group has made this one from."""

    def __str__(self) -> str:
        return f"record {self.index} of {self.transaction}"


class SentRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of a transaction, and where it was sent to."""

    partition: TopicPartition
    key: str
    payload: Payload


class GroupOffset(msgspec.Struct, frozen=True, array_like=True):
    """The offset of the next record that a group is to read."""

    group: str
    partition: TopicPartition
    offset: int


class Outcome(enum.StrEnum):
    """What is known about how a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Begun(msgspec.Struct, frozen=True, tag=True):
    """A producer is about to send the first record of a transaction."""

    transaction: TransactionName
    records: tuple[SentRecord, ...]
    offsets: tuple[GroupOffset, ...] = ()


class Ending(msgspec.Struct, frozen=True, tag=True):
    """A producer is about to ask for the end of a transaction."""

    transaction: TransactionName
    commit: bool


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A producer was told how its transaction has ended, or that nobody can tell."""

    transaction: TransactionName
    outcome: Outcome
    reason: str = ""


Event = Begun | Ending | Ended


class Transaction(msgspec.Struct, frozen=True):
    """A transaction as its producer knows it."""

    name: TransactionName
    records: tuple[SentRecord, ...]
    offsets: tuple[GroupOffset, ...]
    outcome: Outcome


class FoundRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record as a reader got it."""

    offset: int
    key: str
    value: bytes

    def payload(self) -> Payload | None:
        """Return what the record says about itself; None where it says nothing that makes sense."""
        try:
            return decode_payload(self.value)
        except msgspec.DecodeError:
            return None


class Transform(msgspec.Struct, frozen=True):
    """A group that makes one record of the target from each record of the source."""

    group: str
    source: str
    target: str


class History(msgspec.Struct, frozen=True):
    """All the evidence. Partitions without records are there too, with none."""

    transactions: tuple[Transaction, ...]
    committed: dict[TopicPartition, tuple[FoundRecord, ...]]
    uncommitted: dict[TopicPartition, tuple[FoundRecord, ...]]
    group_offsets: tuple[GroupOffset, ...] = ()
    transforms: tuple[Transform, ...] = ()


def encode_payload(payload: Payload) -> bytes:
    """Return the value of a record."""
    return msgspec.json.encode(payload)


_payload_decoder = msgspec.json.Decoder(Payload)


def decode_payload(value: bytes) -> Payload:
    """Return what is in the value of a record."""
    return _payload_decoder.decode(value)


def transformed(body: str) -> str:
    """Return what a transforming group makes of a record; doing it twice shows."""
    return f"<{body}>"


class HistoryWriter:
    """Appends events to the file of one client process.

    Persists: each event, before `write` returns, to where it survives the end of the process but not of the machine.
    """

    def __init__(self, path: str) -> None:
        self._encoder = msgspec.json.Encoder()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)

    def write(self, event: Event) -> None:
        """Write one line, whole."""
        line = self._encoder.encode(event) + b"\n"
        written = os.write(self._descriptor, line)
        assert written == len(line), "the disk is full"

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_events(path: str) -> list[Event]:
    """Read the file of a client; a last line that was being written when the client was killed was not acted on."""
    with open(path, "rb") as file:
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return msgspec.json.Decoder(Event).decode_lines(whole)


class InconsistentHistory(Exception):
    """The clients' own files contradict each other: the fault is in what wrote them, not in what they are about."""


def gather(events: Iterable[Event]) -> tuple[Transaction, ...]:
    """Join the events of all clients into transactions, in the order of their names."""
    begun: dict[TransactionName, Begun] = {}
    asked: set[TransactionName] = set()
    ended: dict[TransactionName, Outcome] = {}
    for event in events:
        if isinstance(event, Begun):
            if event.transaction in begun:
                raise InconsistentHistory(f"{event.transaction} was begun twice")
            begun[event.transaction] = event
        elif event.transaction not in begun:
            raise InconsistentHistory(f"{event.transaction} ends but was not begun")
        elif isinstance(event, Ended):
            ended[event.transaction] = event.outcome
        elif event.commit:
            asked.add(event.transaction)
    return tuple(
        Transaction(name, each.records, each.offsets, outcome_of(name in asked, ended.get(name)))
        for name, each in sorted(begun.items())
    )


def outcome_of(was_asked_to_commit: bool, told: Outcome | None) -> Outcome:
    """Conclude how a transaction ended: what nobody ever asked to commit cannot have committed."""
    if not was_asked_to_commit:
        if told is Outcome.COMMITTED:
            raise InconsistentHistory("a transaction committed that was not asked to")
        return Outcome.ABORTED
    return told or Outcome.UNKNOWN
