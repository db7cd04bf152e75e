"""Whether a history is one that exactly-once allows.

`check` is a pure function of the evidence. What it finds wrong comes as violations, each of a kind of its own with a
sentence for people; none means that:

- a committed transaction is visible, whole and once, with the offsets of its group; an aborted one is not visible at
  all; of one whose outcome nobody knows, everything is visible or nothing;
- offsets ascend, a producer's records are in each partition in the order in which they were sent, and what a reader
  of committed records finds is part of what a reader of everything finds;
- a transforming group has made exactly one record from each record below its committed offset, and none from others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from eagleray.broker.identities import TopicPartition
from tests.support.history import (
    FoundRecord,
    GroupOffset,
    History,
    Outcome,
    Payload,
    Place,
    Transaction,
    TransactionName,
    Transform,
    transformed,
)
from tests.support.history_violations import (
    AbortedVisible,
    ForeignRecord,
    GroupOffsetUnexplained,
    InputNotPassed,
    InputRepeated,
    InputSkipped,
    LostTransaction,
    NotInUncommitted,
    OffsetsNotAscending,
    OutOfOrder,
    RepeatedRecord,
    TornTransaction,
    Violation,
    WrongOutput,
)

COMMITTED = "read_committed"
UNCOMMITTED = "read_uncommitted"

Records = Mapping[TopicPartition, Sequence[FoundRecord]]
Found = tuple[Place, FoundRecord, Payload]


def check(history: History) -> tuple[Violation, ...]:
    """Return everything that is wrong with a history, the most basic first."""
    transactions = {transaction.name: transaction for transaction in history.transactions}
    return (
        *_check_offsets_ascend(history.uncommitted, UNCOMMITTED),
        *_check_offsets_ascend(history.committed, COMMITTED),
        *_check_origin(history.uncommitted, transactions, UNCOMMITTED),
        *_check_origin(history.committed, transactions, COMMITTED),
        *_check_subset(history),
        *_check_repetitions(history.uncommitted, UNCOMMITTED),
        *_check_repetitions(history.committed, COMMITTED),
        *_check_order(history.uncommitted, UNCOMMITTED),
        *_check_order(history.committed, COMMITTED),
        *_check_atomicity(history),
        *_check_group_offsets(history),
        *(violation for transform in history.transforms for violation in _check_transform(history, transform)),
    )


def _all_found(records: Records) -> Iterator[Found]:
    """Yield every record that says something about itself."""
    for partition, found in records.items():
        for record in found:
            payload = record.payload()
            if payload is not None:
                yield Place(partition, record.offset), record, payload


# Each reader by itself


def _check_offsets_ascend(records: Records, isolation: str) -> Iterator[Violation]:
    for partition, found in records.items():
        for before, after in pairwise(found):
            if after.offset <= before.offset:
                yield OffsetsNotAscending(partition, before.offset, after.offset, isolation)


def _check_origin(
    records: Records, transactions: Mapping[TransactionName, Transaction], isolation: str
) -> Iterator[Violation]:
    """What is found was sent: to this partition, with this key and this value."""
    for partition, found in records.items():
        for record in found:
            payload = record.payload()
            transaction = transactions.get(payload.transaction) if payload is not None else None
            if payload is None or transaction is None or not _was_sent(partition, record, payload, transaction):
                text = record.value.decode(errors="replace")
                yield ForeignRecord(Place(partition, record.offset), text, isolation)


def _was_sent(partition: TopicPartition, record: FoundRecord, payload: Payload, transaction: Transaction) -> bool:
    if not 0 <= payload.index < len(transaction.records):
        return False
    sent = transaction.records[payload.index]
    return (sent.partition, sent.key, sent.payload) == (partition, record.key, payload)


def _check_repetitions(records: Records, isolation: str) -> Iterator[Violation]:
    places: dict[tuple[TransactionName, int], list[Place]] = defaultdict(list)
    for place, _, payload in _all_found(records):
        places[payload.transaction, payload.index].append(place)
    for (transaction, index), found in places.items():
        if len(found) > 1:
            yield RepeatedRecord(transaction, index, tuple(found), isolation)


def _check_order(records: Records, isolation: str) -> Iterator[Violation]:
    for partition, found in records.items():
        last: dict[str, Payload] = {}
        for _, _, payload in _all_found({partition: found}):
            before = last.get(payload.transaction.producer)
            if before is not None and _rank(payload) < _rank(before):
                yield OutOfOrder(partition, str(before), str(payload), isolation)
            last[payload.transaction.producer] = payload


def _rank(payload: Payload) -> tuple[TransactionName, int]:
    return payload.transaction, payload.index


# The two readers beside each other


def _check_subset(history: History) -> Iterator[Violation]:
    for partition, found in history.committed.items():
        everything = Counter(history.uncommitted.get(partition, ()))
        for record in found:
            if not everything[record]:
                yield NotInUncommitted(Place(partition, record.offset), str(record.payload() or record.value))


# Transactions


def _visible(history: History) -> dict[TransactionName, set[int]]:
    visible: dict[TransactionName, set[int]] = defaultdict(set)
    for _, _, payload in _all_found(history.committed):
        visible[payload.transaction].add(payload.index)
    return visible


def _check_atomicity(history: History) -> Iterator[Violation]:
    visible = _visible(history)
    for transaction in history.transactions:
        found = visible.get(transaction.name, set())
        missing = sorted(set(range(len(transaction.records))) - found)
        if transaction.outcome is Outcome.ABORTED:
            if found:
                yield AbortedVisible(transaction.name, tuple(sorted(found)))
        elif found and missing:
            yield TornTransaction(transaction.name, transaction.outcome, tuple(missing))
        elif missing and transaction.outcome is Outcome.COMMITTED:
            yield LostTransaction(transaction.name)


# Groups


def _check_group_offsets(history: History) -> Iterator[Violation]:
    """A group is where the transactions that are visible have taken it, no matter what others wanted."""
    visible = _visible(history)
    expected: dict[tuple[str, TopicPartition], int] = {}
    for transaction in history.transactions:
        if transaction.outcome is Outcome.COMMITTED or transaction.name in visible:
            for offset in transaction.offsets:
                key = offset.group, offset.partition
                expected[key] = max(offset.offset, expected.get(key, 0))
    found = {(each.group, each.partition): each.offset for each in history.group_offsets}
    for key in sorted(expected.keys() | found.keys()):
        if found.get(key, 0) != expected.get(key, 0):
            yield GroupOffsetUnexplained(*key, found.get(key, 0), expected.get(key, 0))


def _check_transform(history: History, transform: Transform) -> Iterator[Violation]:
    passed = {each.partition: each for each in history.group_offsets if each.group == transform.group}
    inputs = _inputs(history, transform)
    outputs = _outputs(history, transform)
    for source, body in sorted(inputs.items()):
        yield from _check_input(transform, source, passed.get(source.partition), outputs.get(source, []))
        for place, payload in outputs.get(source, []):
            if payload.body != transformed(body):
                yield WrongOutput(transform.group, source, place)
    for source in sorted(outputs.keys() - inputs.keys()):
        for place, _ in outputs[source]:
            yield WrongOutput(transform.group, source, place)


def _inputs(history: History, transform: Transform) -> dict[Place, str]:
    committed = {name: found for name, found in history.committed.items() if name.topic == transform.source}
    return {place: payload.body for place, _, payload in _all_found(committed)}


def _outputs(history: History, transform: Transform) -> dict[Place, list[tuple[Place, Payload]]]:
    committed = {name: found for name, found in history.committed.items() if name.topic == transform.target}
    outputs: dict[Place, list[tuple[Place, Payload]]] = defaultdict(list)
    for place, _, payload in _all_found(committed):
        if payload.group == transform.group and payload.source is not None:
            outputs[payload.source].append((place, payload))
    return outputs


def _check_input(
    transform: Transform, source: Place, passed: GroupOffset | None, outputs: list[tuple[Place, Payload]]
) -> Iterator[Violation]:
    group_offset = 0 if passed is None else passed.offset
    if source.offset < group_offset and not outputs:
        yield InputSkipped(transform.group, source)
    if len(outputs) > 1:
        yield InputRepeated(transform.group, source, tuple(place for place, _ in outputs))
    if source.offset >= group_offset:
        for place, _ in outputs:
            yield InputNotPassed(transform.group, source, place, group_offset)
