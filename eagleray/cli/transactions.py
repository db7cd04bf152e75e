"""`eagleray txn`: which transactions there are, what they hold back, and how to end them."""

from __future__ import annotations

from collections.abc import Awaitable
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eagleray.broker.identities import TopicPartition
from eagleray.broker.transactions.descriptions import TransactionDescription
from eagleray.broker.transactions.preparation import NO_TIMEOUT_MS
from eagleray.broker.transactions.resolver import ResolverKind, ResolverName
from eagleray.broker.transactions.states import UNDECIDED_NAMES
from eagleray.cli.blocking import find_blocking, origin_dict, origin_text, print_blocking
from eagleray.cli.ending import end, ways_to_end
from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import ago, note, print_facts, print_json, print_rows, until
from eagleray.cli.running import run
from eagleray.cli.watching import Watch, WatchCommand
from eagleray.cli.watching import watch as repeat
from eagleray.client.admin.descriptions import BlockingTransaction, HangingTransaction

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="See transactions, what they hold back, and end them.")

TransactionalId = Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")]
Producer = Annotated[
    str | None,
    typer.Option("--producer", metavar="PRODUCER-ID:EPOCH", help="The transaction of this producer, and no other."),
]
Unprepared = Annotated[
    bool, typer.Option("--unprepared", help="With --producer: also if it is not prepared, as it is.")
]
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
    found = run(
        Connection(name, address),
        lambda session: session.cluster.admin.list_transactions(states=states, older_than_ms=older_than_ms),
    )
    if json:
        print_json([_as_dict(transaction) for transaction in found])
        return
    rows = (
        {
            "transactional id": transaction.transactional_id,
            "state": transaction.state,
            "producer": transaction.producer.producer_id,
            "epoch": transaction.producer.epoch,
            "open for": _open_for(transaction),
            "prepared for": ago(transaction.prepared_ms),
            "timeout": _timeout_of(transaction),
            "partitions": len(transaction.partitions),
            "context": _context_of(transaction),
            "resolver": None if transaction.resolver is None else transaction.resolver.name,
            "asked": transaction.questions if transaction.resolver is not None else None,
            "next question": _next_question(transaction),
        }
        for transaction in found
    )
    print_rows(rows, empty="there are no such transactions")


def _open_for(transaction: TransactionDescription) -> str:
    return ago(transaction.start_ms) if transaction.state == "Ongoing" else "-"


def _state(text: str) -> str:
    for state in _STATES:
        if state.lower() == text.lower():
            return state
    raise UsageError(f"--state is {text!r}; expected one of {', '.join(_STATES)}.")


def _timeout_of(transaction: TransactionDescription) -> str:
    has_none = transaction.prepared_ms >= 0 or transaction.timeout_ms == NO_TIMEOUT_MS
    return "none" if has_none else f"{transaction.timeout_ms / 1000:g} s"


def _context_of(transaction: TransactionDescription) -> str | None:
    """What a producer has said of its prepared transaction; what is no text is shown as bytes of Python."""
    context = transaction.context
    try:
        text = context.decode()
    except UnicodeDecodeError:
        return repr(context)
    return (text if text.isprintable() else repr(context)) or None


def _next_question(transaction: TransactionDescription) -> str | None:
    """In how long the resolver is asked next, or the transaction aborted because it has not answered."""
    if transaction.resolver is None:
        return None
    if transaction.next_question_ms < 0:
        return "when a producer asks"
    resolver = transaction.resolver
    is_last = resolver.aborts_when_exhausted and transaction.questions >= resolver.attempts
    return f"{'aborted in' if is_last else 'in'} {until(transaction.next_question_ms)}"


def _resolver_dict(resolver: ResolverName | None) -> dict[str, Any] | None:
    if resolver is None:
        return None
    where = {"namespace": resolver.namespace, "method": resolver.method}
    return {
        "kind": resolver.kind.name.lower(),
        "name": resolver.name,
        **(where if resolver.kind is ResolverKind.ACTOR else {}),
        "first_after_ms": resolver.first_after_ms,
        "interval_ms": resolver.interval_ms,
        "attempts": resolver.attempts,
        "exhausted": "abort" if resolver.aborts_when_exhausted else "keep",
    }


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
        "max_hold_ms": transaction.max_hold_ms,
        "origin": origin_dict(transaction.origin),
        "prepared_ms": None if transaction.prepared_ms < 0 else transaction.prepared_ms,
        "context": _context_of(transaction),
        "resolver": _resolver_dict(transaction.resolver),
        "questions": transaction.questions,
        "next_question_ms": None if transaction.next_question_ms < 0 else transaction.next_question_ms,
    }


@app.command(epilog=examples("eagleray txn describe loader-1"))
def describe(
    transactional_id: TransactionalId, *, json: Json = False, name: Name = "", address: Address = None
) -> None:
    """Show where a transactional id stands."""
    found = run(Connection(name, address), lambda session: session.cluster.admin.describe_transaction(transactional_id))
    if json:
        print_json(_as_dict(found))
        return
    facts = _as_dict(found) | {
        "open for": _open_for(found),
        "prepared for": ago(found.prepared_ms),
        "partitions": ", ".join(map(str, found.partitions)) or "-",
        "origin": origin_text(found.origin),
        "resolver": None if found.resolver is None else str(found.resolver),
        "next question": _next_question(found),
    }
    print_facts(facts)
    if found.state == "Ongoing":
        note(ways_to_end(found))


@app.command(epilog=examples("eagleray txn commit billing-1 --producer 42:7"))
def commit(
    transactional_id: TransactionalId,
    *,
    producer: Producer = None,
    unprepared: Unprepared = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Commit a prepared transaction, where the other system that takes part has committed."""
    _end(Connection(name, address), transactional_id, producer, commit=True, unprepared=unprepared)


@app.command(epilog=examples("eagleray txn abort loader-1", "eagleray txn abort billing-1 --producer 42:7"))
def abort(
    transactional_id: TransactionalId,
    *,
    producer: Producer = None,
    unprepared: Unprepared = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Abort what a transactional id has open, and fence its producer: it cannot go on without noticing.

    The name of a pool fences the whole pool, and aborts what is open in its slots and not prepared. What is prepared is
    aborted only with --producer, where the other system that takes part has not committed.
    """
    _end(Connection(name, address), transactional_id, producer, commit=False, unprepared=unprepared)


def _end(
    connection: Connection, transactional_id: str, producer: str | None, *, commit: bool, unprepared: bool
) -> None:
    note(
        run(connection, lambda session: end(session, transactional_id, producer, commit=commit, unprepared=unprepared))
    )


@app.command(
    cls=WatchCommand,
    epilog=examples(
        "eagleray txn blocking",
        "eagleray txn blocking orders --watch",
        "eagleray txn blocking orders --partition 3 --json",
        "eagleray txn blocking --group billing --watch 5",
    ),
)
def blocking(
    topics: Topics = None,
    *,
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="What this group reads, and its own offsets.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this partition of the topic.")
    ] = None,
    watch: Watch = None,
    json: Json = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Show what holds readers of committed records back: since when, whose transaction it is, and how to end it.

    Each partition with an open transaction shows the one at its last stable offset. How many offsets wait behind it
    counts markers and aborted records, too.
    """

    async def work(session: Session) -> None:
        def find() -> Awaitable[list[BlockingTransaction]]:
            return find_blocking(session, topics or [], group, partition)

        def show(found: list[BlockingTransaction]) -> None:
            print_blocking(found, json=json)

        if watch is None:
            show(await find())
        else:
            await repeat(find, show, watch)

    run(Connection(name, address), work)


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
    shown = (
        {
            "partition": f"{row['topic']}-{row['partition']}",
            "producer": row["producer_id"],
            "epoch": row["epoch"],
            "from offset": row["open_since_offset"],
            "last write": f"{ago(row['last_write_ms'])} ago",
            "to end it": row["end_with"],
        }
        for row in rows
    )
    print_rows(shown, empty="no transaction hangs")


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
    known = await session.cluster.admin.list_transactions(producer_ids=[producer_id], states=UNDECIDED_NAMES)
    for owner in known:
        if TopicPartition(topic, partition) in owner.partitions:
            end_with = f"eagleray txn abort {quote(owner.transactional_id)}"
            return f"producer {producer_id} belongs to {owner.transactional_id!r}; end it with `{end_with}`."
    return (
        f"producer {producer_id} has nothing open in {topic}-{partition}; "
        f"`eagleray txn blocking {topic}` shows who has."
    )
