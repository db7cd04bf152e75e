"""`eagleray bench`: how much a cluster does, seen by clients."""

from __future__ import annotations

import asyncio
import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from eagleray.broker.transactions.descriptions import TransactionDescription
from eagleray.broker.transactions.events import ForgetTransactionalId
from eagleray.cli.bench_load import Bench, Load, Report
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import counted, note, print_json, print_table
from eagleray.cli.running import prepare_ray, run, run_until_stopped
from eagleray.cli.signals import stop_signals
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.errors import TopicExists
from eagleray.client.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="Measure a cluster.")

_REFRESH_S: Final = 0.25
_AT_ONCE: Final = 100


@app.callback()
def bench() -> None:
    """Measure a cluster."""


@app.command(
    epilog=examples(
        "eagleray bench txn --local --producers 100 --seconds 5",
        "eagleray bench txn --producers 1000 --rate 5000 --json",
    )
)
def txn(
    *,
    producers: Annotated[int, typer.Option("--producers", min=1, help="How many, each with an id of its own.")] = 1000,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long.")] = 10,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.1, help="Transactions that arrive a second; else all it can do.")
    ] = None,
    transactions: Annotated[
        int, typer.Option("--transactions", min=1, help="How many at the most.", show_default="no limit")
    ] = sys.maxsize,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Partitions of the topic.")] = 8,
    records: Annotated[int, typer.Option("--records", min=1, help="Records in each transaction.")] = 1,
    size: Annotated[int, typer.Option("--size", min=0, help="Bytes in each record.")] = 100,
    topic: Annotated[
        str, typer.Option("--topic", help="Where to write; one that is not there is made, and deleted at the end.")
    ] = "bench",
    local: Annotated[bool, typer.Option("--local", help="Start a cluster for it and end it afterwards.")] = False,
    json: Json = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Commit transactions of many producers as fast as they go, or at a rate, and show how long they take.

    Without --rate each producer begins its next transaction when its last one has ended. With it, latencies count from
    when a transaction arrived, and those that no producer was free for are missed. What it made, it deletes.
    """
    load = Load(
        topic=topic,
        producers=producers,
        seconds=seconds,
        rate=rate,
        transactions=transactions,
        partitions=partitions,
        records=records,
        size=size,
    )

    async def work(session: Session) -> Report:
        return await _measure(session, load, is_quiet=json)

    report = _run_local(load, is_quiet=json) if local else run(Connection(name, address), work)
    if json:
        print_json(report)
    else:
        print_table(("measured", "value"), msgspec.to_builtins(report).items(), empty="nothing was measured")


def _run_local(load: Load, *, is_quiet: bool) -> Report:
    prepare_ray(None)
    from eagleray.cli import hosting, session  # noqa: PLC0415 - loads Ray

    async def work() -> Report:
        async with hosting.temporary_cluster({}) as local:
            return await _measure(local, load, is_quiet=is_quiet)

    note("starting a cluster on this machine...")
    with stop_signals.held(), session.joined_ray(None) as ray, stop_signals.at_once(ray.discard):
        return run_until_stopped(work())


async def _measure(session: Session, load: Load, *, is_quiet: bool) -> Report:
    is_ours = await _make_topic(session, load)
    # Names of its own: producers of others are not fenced, and what goes at the end was this command's.
    prefix = f"eagleray-bench-{secrets.token_hex(4)}"
    try:
        return await _measure_topic(session, load, prefix, is_quiet=is_quiet)
    finally:
        await _forget_ids(session, prefix)
        if is_ours:
            await session.cluster.admin.delete_topic(load.topic)


async def _make_topic(session: Session, load: Load) -> bool:
    """Create the topic; return whether it is new, so that the bench deletes it."""
    try:
        await session.cluster.admin.create_topic(load.topic, partitions=load.partitions)
    except TopicExists:
        return False
    return True


async def _measure_topic(session: Session, load: Load, prefix: str, *, is_quiet: bool) -> Report:
    count = await session.require_topic(load.topic)
    running = Bench(session.cluster, msgspec.structs.replace(load, partitions=count), prefix)
    try:
        note(f"getting {counted(load.producers, 'producer')} ready...")
        await running.prepare()
        display = asyncio.create_task(_show(running, is_quiet=is_quiet))
        try:
            return await running.run()
        finally:
            display.cancel()
            await asyncio.gather(display, return_exceptions=True)
    finally:
        await running.close()


async def _forget_ids(session: Session, prefix: str) -> None:
    """Have every transactional id forgotten that begins so; otherwise coordinators keep it for days."""
    listed = await session.cluster.admin.list_transactions()
    ours = [found for found in listed if found.transactional_id.startswith(prefix)]
    for first in range(0, len(ours), _AT_ONCE):
        await asyncio.gather(*(_forget(session, found) for found in ours[first : first + _AT_ONCE]))


async def _forget(session: Session, found: TransactionDescription) -> None:
    runtime, name = session.cluster.runtime, found.transactional_id
    await call_with_retries(
        runtime,
        lambda: runtime.view.transaction_coordinator(name),
        f"forgetting transactional id {name!r}",
        Question(ForgetTransactionalId, name, found.producer),
        retry_policy=RetryPolicy(),
    )


async def _show(running: Bench, *, is_quiet: bool) -> None:
    """Keep a line up to date on the terminal, until cancelled."""
    console = Console(stderr=True)
    if is_quiet or not console.is_terminal:
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            await asyncio.sleep(_REFRESH_S)
            live.update(_progress(running.report(), running.load), refresh=True)


def _progress(report: Report, load: Load) -> Table:
    table = Table.grid(padding=(0, 3))
    done = min(report.seconds / load.seconds, 1)
    bar = "█" * int(done * 24)
    table.add_row(
        f"[cyan]{bar:<24}[/] {report.seconds:.0f}/{load.seconds:g} s",
        f"[bold]{report.transactions_per_second:,.0f}[/] transactions/s",
        f"p50 {report.p50_ms:.1f} ms",
        f"p99 {report.p99_ms:.1f} ms",
        f"aborted {report.aborted}",
    )
    return table
