"""`eagleray txn`: which transactions there are, what they hold back, and how to end them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from eagleray.broker.transactions.events import TransactionDescription
from eagleray.cli.blocking import Blocking, find_blocking
from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import ago, note, print_facts, print_json, print_table
from eagleray.cli.running import run
from eagleray.client.admin.descriptions import HangingTransaction

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="See transactions, what they hold back, and end them.")

TransactionalId = Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")]
Topics = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Only these topics.")]
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


@app.command("list", epilog=examples("eagleray txn list --state Ongoing", "eagleray txn list --older-than 60"))
def list_transactions(
    *,
    state: Annotated[list[str] | None, typer.Option("--state", help=f"Only these: {', '.join(_STATES)}.")] = None,
    older_than: Annotated[
        float | None, typer.Option("--older-than", min=0, help="Only those open for more seconds.")
    ] = None,
    json: Json = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """List the transactional ids that coordinators know, and what each is doing."""
    states = tuple(_state(text) for text in state or ())
    older_than_ms = -1 if older_than is None else int(older_than * 1000)

    async def work(session: Session) -> list[TransactionDescription]:
        return await session.cluster.admin.list_transactions(states=states, older_than_ms=older_than_ms)

    found = run(Connection(name, address), work)
    if json:
        print_json([_as_dict(transaction) for transaction in found])
        return
    print_table(
        ("transactional id", "state", "producer", "epoch", "open for", "timeout", "partitions"),
        (
            (
                transaction.transactional_id,
                transaction.state,
                transaction.producer.producer_id,
                transaction.producer.epoch,
                ago(transaction.start_ms) if transaction.state == "Ongoing" else "-",
                f"{transaction.timeout_ms / 1000:g} s",
                len(transaction.partitions),
            )
            for transaction in found
        ),
        empty="there are no such transactions",
    )


def _state(text: str) -> str:
    for state in _STATES:
        if state.lower() == text.lower():
            return state
    raise UsageError(f"--state is {text!r}; expected one of {', '.join(_STATES)}.")


def _as_dict(transaction: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer.producer_id,
        "epoch": transaction.producer.epoch,
        "timeout_ms": transaction.timeout_ms,
        "start_ms": transaction.start_ms,
        "updated_ms": transaction.updated_ms,
        "partitions": [{"topic": name.topic, "partition": name.partition} for name in transaction.partitions],
        "tag": transaction.tag,
        "branches": transaction.branches,
    }


@app.command(epilog=examples("eagleray txn describe loader-1"))
def describe(
    transactional_id: TransactionalId, *, json: Json = False, name: Name = "", address: Address = None
) -> None:
    """Show where a transactional id stands."""

    async def work(session: Session) -> TransactionDescription:
        return await session.cluster.admin.describe_transaction(transactional_id)

    found = run(Connection(name, address), work)
    if json:
        print_json(_as_dict(found))
        return
    facts = _as_dict(found) | {
        "open for": ago(found.start_ms) if found.state == "Ongoing" else "-",
        "partitions": ", ".join(map(str, found.partitions)) or "-",
    }
    print_facts(facts)
    if found.state == "Ongoing":
        note(f"to end it: eagleray txn abort {transactional_id}")


@app.command(epilog=examples("eagleray txn abort loader-1"))
def abort(transactional_id: TransactionalId, name: Name = "", address: Address = None) -> None:
    """Abort what a transactional id has open, and fence its producer: it cannot go on without noticing."""

    async def work(session: Session) -> TransactionDescription:
        admin = session.cluster.admin
        before = await admin.describe_transaction(transactional_id)
        await admin.abort_transaction(transactional_id)
        return before

    before = run(Connection(name, address), work)
    what = "aborted its transaction" if before.state == "Ongoing" else f"nothing was open ({before.state})"
    note(f"{transactional_id}: {what}, and its producer is fenced")


@app.command(epilog=examples("eagleray txn blocking", "eagleray txn blocking orders --json"))
def blocking(topics: Topics = None, *, json: Json = False, name: Name = "", address: Address = None) -> None:
    """Show what holds readers of committed records back: since when, whose transaction it is, and how to end it."""

    async def work(session: Session) -> list[Blocking]:
        return await find_blocking(session, topics or ())

    found = run(Connection(name, address), work)
    if json:
        print_json(found)
        return
    print_table(
        ("partition", "from offset", "last write", "producer", "transactional id", "state", "to end it"),
        (
            (
                f"{row.topic}-{row.partition}",
                row.open_since_offset,
                f"{ago(row.last_write_ms)} ago",
                row.producer_id,
                row.transactional_id or "(unknown to all)",
                row.state,
                row.end_with,
            )
            for row in found
        ),
        empty="nothing is held back",
    )


@app.command("find-hanging", epilog=examples("eagleray txn find-hanging --older-than 60 orders"))
def find_hanging(
    topics: Topics = None,
    *,
    older_than: Annotated[
        float, typer.Option("--older-than", min=0, help="Seconds since the last write of the transaction.")
    ] = 900,
    json: Json = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Find transactions that are open in a partition and that no coordinator will ever end."""

    async def work(session: Session) -> list[HangingTransaction]:
        for topic in topics or ():
            await session.require_topic(topic)
        admin = session.cluster.admin
        return await admin.find_hanging(topics or (), older_than_ms=int(older_than * 1000))

    rows = [_hanging_row(found) for found in run(Connection(name, address), work)]
    if json:
        print_json(rows)
        return
    print_table(
        ("partition", "producer", "epoch", "from offset", "last write", "to end it"),
        (
            (
                f"{row['topic']}-{row['partition']}",
                row["producer_id"],
                row["epoch"],
                row["open_since_offset"],
                f"{ago(row['last_write_ms'])} ago",
                row["end_with"],
            )
            for row in rows
        ),
        empty="no transaction hangs",
    )


def _hanging_row(found: HangingTransaction) -> dict[str, Any]:
    topic, partition, producer = found.partition.topic, found.partition.partition, found.producer
    return {
        "topic": topic,
        "partition": partition,
        "producer_id": producer.producer_id,
        "epoch": producer.epoch,
        "open_since_offset": found.open_since_offset,
        "last_write_ms": found.last_timestamp_ms,
        "end_with": f"eagleray txn abort-hanging {topic} {partition} {producer.producer_id}",
    }


@app.command("abort-hanging", epilog=examples("eagleray txn abort-hanging orders 0 1042"))
def abort_hanging(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    partition: Annotated[int, typer.Argument(min=0, help="The partition.")],
    producer_id: Annotated[int, typer.Argument(min=0, help="The producer id that `find-hanging` shows.")],
    name: Name = "",
    address: Address = None,
) -> None:
    """End a transaction that hangs in a partition, by a marker of its own; one that has an owner is left alone."""

    async def work(session: Session) -> None:
        await session.require_topic(topic, partition)
        admin = session.cluster.admin
        hanging = await admin.find_hanging([topic], older_than_ms=0)
        wanted = [
            found
            for found in hanging
            if (found.partition.partition, found.producer.producer_id) == (partition, producer_id)
        ]
        if not wanted:
            raise UsageError(await _why_not(session, topic, partition, producer_id))
        await admin.abort_hanging(wanted[0])

    run(Connection(name, address), work)
    note(f"aborted what producer {producer_id} had open in {topic}-{partition}")


async def _why_not(session: Session, topic: str, partition: int, producer_id: int) -> str:
    for row in await find_blocking(session, [topic]):
        if (row.partition, row.producer_id) == (partition, producer_id):
            return f"producer {producer_id} belongs to {row.transactional_id!r}; end it with `{row.end_with}`."
    return (
        f"producer {producer_id} has nothing open in {topic}-{partition}; "
        f"`eagleray txn blocking {topic}` shows who has."
    )
