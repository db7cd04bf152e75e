"""The history of a simulated world, judged by the checker of exactly-once."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.simulation.cluster.partition_watch import PartitionWatch
from tests.simulation.cluster.places import INPUTS, SOURCE, TARGET, TRANSFORM_GROUP, USER_PARTITIONS
from tests.simulation.cluster.watch import Watch
from tests.simulation.schedule import Violation
from tests.support.history import FoundRecord, GroupOffset, History, Outcome, Transaction, Transform
from tests.support.history_checker import check

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness


def check_history(harness: "Harness") -> None:
    """See that what is in the partitions is what the producers know, each transaction whole, or not at all."""
    transactions = tuple(each for producer in harness.producers for each in producer.history)
    watches = {partition: harness.watch.partitions[partition] for partition in USER_PARTITIONS}
    offsets = harness.watch.offsets
    groups = TRANSFORM_GROUP, *(producer.group for producer in harness.by_connections)
    history = History(
        (*transactions, *_transforming(harness)),
        {partition: _committed(watch, harness.watch) for partition, watch in watches.items()},
        {partition: _everything(watch) for partition, watch in watches.items()},
        tuple(GroupOffset(group, each, offsets.offset_of(group, each)) for group in groups for each in INPUTS),
        (Transform(TRANSFORM_GROUP, SOURCE, TARGET),),
    )
    violations = check(history)
    if violations:
        raise Violation(f"{len(violations)} violations, the first: {violations[0]!r}")
    _check_aborted_offsets(harness)


def _check_aborted_offsets(harness: "Harness") -> None:
    """No offsets of a transaction that was aborted have ever counted, also where later ones hide them now."""
    for producer in harness.by_connections:
        for transaction in producer.history:
            if transaction.outcome is Outcome.ABORTED and harness.watch.offsets.has_applied(str(transaction.name)):
                raise Violation(f"{transaction.name} was aborted, and its offsets were committed by another")


def _transforming(harness: "Harness") -> Iterator[Transaction]:
    """What the transformer has done; of what has left no record behind, the log of transactions tells the outcome."""
    for each in harness.transformer.history:
        is_unclear = each.outcome is Outcome.UNKNOWN and not each.records
        is_committed = _is_decided(harness, each)
        outcome = Outcome.COMMITTED if is_unclear and is_committed else each.outcome
        yield Transaction(each.name, each.records, each.offsets, outcome)


def _is_decided(harness: "Harness", transaction: Transaction) -> bool:
    """Whether the transformer's transaction is committed: of those under one identity, the decision in its place."""
    identities = harness.transformer.identities
    identity = identities[transaction.name]
    place = [name for name, each in identities.items() if each == identity].index(transaction.name)
    decisions = harness.watch.decisions.get(identity, [])
    return decisions[place] if place < len(decisions) else False


def _everything(watch: PartitionWatch) -> tuple[FoundRecord, ...]:
    return tuple(found for base_offset in watch.records for found in _records(watch, base_offset))


def _records(watch: PartitionWatch, base_offset: int) -> list[FoundRecord]:
    return [
        FoundRecord(each.offset, (each.key or b"").decode(), each.value or b"") for each in watch.records[base_offset]
    ]


def _committed(watch: PartitionWatch, whole: Watch) -> tuple[FoundRecord, ...]:
    """What the markers leave of it; everything has to be ended by one."""
    open_: dict[int, list[int]] = {}
    visible: list[int] = []
    for base_offset, found in watch.committed.items():
        if found.commits is None:
            (open_.setdefault(found.producer_id, []) if found.is_transactional else visible).append(base_offset)
        else:
            last = whole.last_epoch_ended(found.producer_id, found.producer_epoch)
            for ended in open_.pop(found.producer_id, []):
                if watch.committed[ended].producer_epoch > last:
                    raise Violation(f"{watch.partition}: the marker at {base_offset} ends what began after it")
                if found.commits:
                    visible.append(ended)
    if open_:
        raise Violation(f"{watch.partition}: no marker ends {open_}")
    return tuple(record for base_offset in sorted(visible) for record in _records(watch, base_offset))
