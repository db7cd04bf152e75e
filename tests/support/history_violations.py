"""What can be wrong with a history: each kind of violation is a type of its own, with a sentence for people."""

from __future__ import annotations

import msgspec

from eagleray.broker.identities import TopicPartition
from tests.support.history import Outcome, Place, TransactionName


class Violation(msgspec.Struct, frozen=True, tag=True):
    """Something that must not be."""

    @property
    def text(self) -> str:
        """A sentence for people."""
        raise NotImplementedError


class ForeignRecord(Violation, frozen=True):
    place: Place
    value: str
    isolation: str

    @property
    def text(self) -> str:
        return f"{self.place} ({self.isolation}) holds {self.value!r}, which nobody sent there like that."


class LostTransaction(Violation, frozen=True):
    transaction: TransactionName

    @property
    def text(self) -> str:
        return f"{self.transaction} was committed, but nothing of it is visible."


class TornTransaction(Violation, frozen=True):
    transaction: TransactionName
    outcome: Outcome
    missing: tuple[int, ...]

    @property
    def text(self) -> str:
        return f"{self.transaction} ({self.outcome}) is partly visible; records {list(self.missing)} are missing."


class AbortedVisible(Violation, frozen=True):
    transaction: TransactionName
    visible: tuple[int, ...]

    @property
    def text(self) -> str:
        return f"{self.transaction} was aborted, but its records {list(self.visible)} are visible."


class RepeatedRecord(Violation, frozen=True):
    transaction: TransactionName
    index: int
    places: tuple[Place, ...]
    isolation: str

    @property
    def text(self) -> str:
        places = ", ".join(map(str, self.places))
        return f"record {self.index} of {self.transaction} is there more than once ({self.isolation}): {places}."


class OffsetsNotAscending(Violation, frozen=True):
    partition: TopicPartition
    before: int
    after: int
    isolation: str

    @property
    def text(self) -> str:
        return f"{self.partition} ({self.isolation}): offset {self.after} comes after {self.before}."


class OutOfOrder(Violation, frozen=True):
    partition: TopicPartition
    before: str
    after: str
    isolation: str

    @property
    def text(self) -> str:
        return f"{self.partition} ({self.isolation}): {self.after} was sent before {self.before} but comes after it."


class NotInUncommitted(Violation, frozen=True):
    place: Place
    record: str

    @property
    def text(self) -> str:
        return f"{self.place}: {self.record} is read as committed, but not by a reader of everything."


class GroupOffsetUnexplained(Violation, frozen=True):
    group: str
    partition: TopicPartition
    found: int
    expected: int

    @property
    def text(self) -> str:
        return (
            f"group {self.group} is at {self.found} of {self.partition}, "
            f"but the transactions that are visible have taken it to {self.expected}."
        )


class InputSkipped(Violation, frozen=True):
    group: str
    source: Place

    @property
    def text(self) -> str:
        return f"group {self.group} is past {self.source}, but nothing was made from it."


class InputRepeated(Violation, frozen=True):
    group: str
    source: Place
    outputs: tuple[Place, ...]

    @property
    def text(self) -> str:
        outputs = ", ".join(map(str, self.outputs))
        return f"group {self.group} has consumed {self.source} more than once: {outputs}."


class InputNotPassed(Violation, frozen=True):
    group: str
    source: Place
    output: Place
    group_offset: int

    @property
    def text(self) -> str:
        return f"{self.output} was made from {self.source}, but group {self.group} is at {self.group_offset} only."


class WrongOutput(Violation, frozen=True):
    group: str
    source: Place
    output: Place

    @property
    def text(self) -> str:
        return f"{self.output} is not what group {self.group} makes of what is committed at {self.source}."
