"""The history of a simulated world, judged by the checker of exactly-once."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from eagleray.broker.messages import IMPLICIT_VERSION, last_epoch_ended_by
from tests.simulation.cluster.partition_watch import PartitionWatch
from tests.simulation.cluster.places import INPUTS, SOURCE, TARGET, TRANSFORM_GROUP, USER_PARTITIONS
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
    history = History(
        (*transactions, *_transforming(harness)),
        {partition: _committed(watch) for partition, watch in watches.items()},
        {partition: _everything(watch) for partition, watch in watches.items()},
        tuple(GroupOffset(TRANSFORM_GROUP, each, offsets.offset_of(TRANSFORM_GROUP, each)) for each in INPUTS),
        (Transform(TRANSFORM_GROUP, SOURCE, TARGET),),
    )
    violations = check(history)
    if violations:
        raise Violation(f"{len(violations)} violations, the first: {violations[0]!r}")


def _transforming(harness: "Harness") -> Iterator[Transaction]:
    """What the transformer has done; of what has left no record behind, the log of transactions tells the outcome."""
    for each in harness.transformer.history:
        is_unclear = each.outcome is Outcome.UNKNOWN and not each.records
        is_committed = harness.watch.decided.get(harness.transformer.identities[each.name])
        outcome = Outcome.COMMITTED if is_unclear and is_committed else each.outcome
        yield Transaction(each.name, each.records, each.offsets, outcome)


def _everything(watch: PartitionWatch) -> tuple[FoundRecord, ...]:
    return tuple(found for base_offset in watch.records for found in _records(watch, base_offset))


def _records(watch: PartitionWatch, base_offset: int) -> list[FoundRecord]:
    return [
        FoundRecord(each.offset, (each.key or b"").decode(), each.value or b"") for each in watch.records[base_offset]
    ]


def _committed(watch: PartitionWatch) -> tuple[FoundRecord, ...]:
    """What the markers leave of it; everything has to be ended by one."""
    open_: dict[int, list[int]] = {}
    visible: list[int] = []
    for base_offset, found in watch.committed.items():
        if found.commits is None:
            (open_.setdefault(found.producer_id, []) if found.is_transactional else visible).append(base_offset)
        else:
            last = last_epoch_ended_by(found.producer_epoch, IMPLICIT_VERSION)
            for ended in open_.pop(found.producer_id, []):
                if watch.committed[ended].producer_epoch > last:
                    raise Violation(f"{watch.partition}: the marker at {base_offset} ends what began after it")
                if found.commits:
                    visible.append(ended)
    if open_:
        raise Violation(f"{watch.partition}: no marker ends {open_}")
    return tuple(record for base_offset in sorted(visible) for record in _records(watch, base_offset))
