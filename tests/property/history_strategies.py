"""Histories that exactly-once allows, made up by hypothesis."""

from collections import defaultdict

import msgspec
from hypothesis import strategies as st

from eagleray.broker.identities import TopicPartition
from tests.support.history import (
    FoundRecord,
    GroupOffset,
    History,
    Outcome,
    Payload,
    Place,
    SentRecord,
    Transaction,
    TransactionName,
    Transform,
    encode_payload,
    transformed,
)

PRODUCERS = ("ann", "bob", "cid")
INPUTS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
OUTPUTS = (TopicPartition("invoices", 0), TopicPartition("invoices", 1))
BILLING = Transform("billing", "orders", "invoices")

ENDS = st.sampled_from(
    [(Outcome.COMMITTED, True), (Outcome.UNKNOWN, True), (Outcome.UNKNOWN, False), (Outcome.ABORTED, False)]
)
"""What the producer knows, and whether the transaction has committed."""


class Made(msgspec.Struct):
    """A history in the making: transactions come one after the other, each with markers behind its records."""

    transactions: list[Transaction]
    committed: dict[TopicPartition, list[FoundRecord]]
    uncommitted: dict[TopicPartition, list[FoundRecord]]
    next_offsets: dict[TopicPartition, int]
    names: dict[str, TransactionName]

    def next_name(self, producer: str, *, restarted: bool) -> TransactionName:
        last = self.names.get(producer, TransactionName(producer, 1, 0))
        moved = (last.incarnation + 1, 1) if restarted else (last.incarnation, last.number + 1)
        self.names[producer] = TransactionName(producer, *moved)
        return self.names[producer]

    def add(self, transaction: Transaction, *, is_committed: bool) -> None:
        self.transactions.append(transaction)
        for sent in transaction.records:
            found = FoundRecord(self.next_offsets[sent.partition], sent.key, encode_payload(sent.payload))
            self.next_offsets[sent.partition] += 1
            self.uncommitted[sent.partition].append(found)
            if is_committed:
                self.committed[sent.partition].append(found)
        for partition in {sent.partition for sent in transaction.records}:
            self.next_offsets[partition] += 1


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Some producers write orders; a group makes invoices of some of them."""
    empty = [{partition: [] for partition in INPUTS + OUTPUTS} for _ in range(2)]
    made = Made([], *empty, defaultdict(int), {})
    for _ in range(draw(st.integers(1, 6))):
        _write_orders(draw, made)
    offsets = [offset for partition in INPUTS if (offset := _bill(draw, made, partition)) is not None]
    return History(
        tuple(made.transactions),
        {partition: tuple(found) for partition, found in made.committed.items()},
        {partition: tuple(found) for partition, found in made.uncommitted.items()},
        tuple(offsets),
        (BILLING,),
    )


def _write_orders(draw: st.DrawFn, made: Made) -> None:
    name = made.next_name(draw(st.sampled_from(PRODUCERS)), restarted=draw(st.booleans()))
    partitions = draw(st.lists(st.sampled_from(INPUTS), min_size=1, max_size=4))
    records = tuple(
        SentRecord(partition, name.producer, Payload(name, index, f"{name}:{index}"))
        for index, partition in enumerate(partitions)
    )
    outcome, is_committed = draw(ENDS)
    made.add(Transaction(name, records, (), outcome), is_committed=is_committed)


def _bill(draw: st.DrawFn, made: Made, partition: TopicPartition) -> GroupOffset | None:
    """Let the group come some way, with what is not committed repeated; return where it is in the end."""
    todo, reached = list(made.committed[partition]), None
    while todo and draw(st.integers(0, 4)):
        size = draw(st.integers(1, 3))
        name = made.next_name(f"billing-{partition.partition}", restarted=draw(st.booleans()))
        target = draw(st.sampled_from(OUTPUTS))
        records = tuple(
            SentRecord(target, name.producer, _invoice(name, index, Place(partition, found.offset), found))
            for index, found in enumerate(todo[:size])
        )
        step = GroupOffset(BILLING.group, partition, todo[:size][-1].offset + 1)
        outcome, is_committed = draw(ENDS)
        made.add(Transaction(name, records, (step,), outcome), is_committed=is_committed)
        if is_committed:
            todo, reached = todo[size:], step
    return reached


def _invoice(name: TransactionName, index: int, source: Place, found: FoundRecord) -> Payload:
    payload = found.payload()
    assert payload is not None
    return Payload(name, index, transformed(payload.body), BILLING.group, source)
