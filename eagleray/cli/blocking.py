"""`eagleray txn blocking`: what holds readers of committed records back, once or again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray.broker.identities import TopicPartition
from eagleray.broker.transactions.origin import Origin
from eagleray.cli.errors import UsageError
from eagleray.cli.output import ago, print_json, print_table, until
from eagleray.client.admin.descriptions import BlockingTransaction

if TYPE_CHECKING:
    from eagleray.cli.session import Session

_COLUMNS = ("partition", "from offset", "waiting", "open for", "ends in", "transactional id", "producer", "from")


async def find_blocking(
    session: Session, topics: list[str], group: str | None, partition: int | None
) -> list[BlockingTransaction]:
    """Find what holds back the readers of topics, of one partition, or of a group."""
    if group is not None and topics:
        raise UsageError("topics and --group were both given; expected the one or the other.")
    if partition is not None and len(topics) != 1:
        raise UsageError(f"--partition is {partition}; expected one topic beside it.")
    for topic in topics:
        await session.require_topic(topic, partition)
    if partition is not None:
        return await session.cluster.admin.blocking(TopicPartition(topics[0], partition))
    return await session.cluster.admin.blocking(*topics, group=group)


def print_blocking(found: list[BlockingTransaction], *, json: bool) -> None:
    """Print what was found."""
    if json:
        print_json([_as_dict(each) for each in found])
    else:
        print_table((*_COLUMNS, "state", "to end it"), map(_row, found), empty="nothing is held back")


def _row(found: BlockingTransaction) -> tuple[object, ...]:
    return (
        found.partition,
        found.open_since_offset,
        found.records_waiting,
        ago(found.start_ms if found.start_ms >= 0 else found.last_timestamp_ms),
        "never by itself" if found.ends_by_ms < 0 else until(found.ends_by_ms),
        found.transactional_id or "(unknown to all)",
        f"{found.producer.producer_id}:{found.producer.epoch}",
        origin_text(found.origin),
        found.state,
        found.end_with,
    )


def _as_dict(found: BlockingTransaction) -> dict[str, Any]:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "open_since_offset": found.open_since_offset,
        "records_waiting": found.records_waiting,
        "last_write_ms": found.last_timestamp_ms,
        "producer_id": found.producer.producer_id,
        "epoch": found.producer.epoch,
        "transactional_id": found.transactional_id,
        "state": found.state,
        "started_ms": found.start_ms,
        "timeout_ms": found.timeout_ms,
        "max_hold_ms": found.max_hold_ms,
        "ends_by_ms": found.ends_by_ms,
        "prepared_ms": found.prepared_ms,
        "tag": found.tag,
        **origin_dict(found.origin),
        "end_with": found.end_with,
    }


def origin_dict(origin: Origin) -> dict[str, Any]:
    """Say where a transaction comes from, for programs."""
    return {name: getattr(origin, name) for name in origin.__struct_fields__}


def origin_text(origin: Origin) -> str:
    """Say where a transaction comes from, as far as it is known."""
    parts = {
        "": origin.client_address,
        "as": origin.principal,
        "client": origin.client_id,
        "Ray job": origin.ray_job,
        "in": origin.ray_task,
        "Spark": origin.spark_application,
        "query": origin.spark_query,
        "batch": "" if origin.spark_batch < 0 else str(origin.spark_batch),
    }
    return ", ".join(f"{name} {text}".lstrip() for name, text in parts.items() if text) or "-"
