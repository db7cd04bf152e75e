"""`eagleray node`: what each node has to do, and how to do without one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from eagleray.cli.complaints import Complaint
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import note, print_json, print_table
from eagleray.cli.running import run
from eagleray.client.descriptions import NodeDescription

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer(
    no_args_is_help=True, help="See what nodes have to do, add a machine, and move everything away from one."
)

Node = Annotated[str, typer.Argument(metavar="NODE|MACHINE", help="The id of a node, or a machine with all its nodes.")]
_LOOK_S: Final = 0.2


@app.command("list", epilog=examples("eagleray node list", "eagleray node list --json"))
def list_nodes(*, json: Json = False, name: Name = "default", address: Address = None) -> None:
    """List the nodes: machine and roles, whether each is there, and how many partitions it leads and keeps."""

    async def work(session: Session) -> list[NodeDescription]:
        return await session.cluster.admin.list_nodes()

    nodes = run(Connection(name, address), work)
    if json:
        print_json(msgspec.to_builtins(nodes))
        return
    columns = ("node", "machine", "roles", "registered", "draining", "leads", "keeps")
    rows = (
        (
            node.node_id,
            node.machine or None,
            ", ".join(node.roles),
            node.registered,
            node.draining,
            node.leads,
            node.keeps,
        )
        for node in nodes
    )
    print_table(columns, rows, empty="no node is planned")


@app.command(epilog=examples("eagleray node add 10.0.0.8", "eagleray node add 10.0.0.8 --wait 300"))
def add(
    machine: Annotated[str, typer.Argument(metavar="ADDRESS", help="Of a machine on which Ray has been started.")],
    *,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait until it has joined Ray.")
    ] = 0.0,
    name: Name = "default",
    address: Address = None,
) -> None:
    """Let the cluster have nodes on one machine more, while it runs.

    New partitions may be put there, and those of machines that are drained. What there is stays where it is.
    """

    async def work(session: Session) -> tuple[int, ...]:
        return await session.add_machine(machine, wait_s=wait)

    nodes = run(Connection(name, address), work)
    note(f"machine {machine} has joined, with node {', '.join(map(str, nodes))}")


@app.command(epilog=examples("eagleray node drain 100", "eagleray node drain 10.0.0.7 --wait"))
def drain(
    node: Node,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing is left there.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="With --wait: for how long.")
    ] = None,
    name: Name = "default",
    address: Address = None,
) -> None:
    """Move all partitions away from a node, or a machine, so that it can be switched off.

    Each partition needs another machine that has none of it yet. Nothing new is put there until
    `eagleray node undrain`.
    """

    async def work(session: Session) -> None:
        meant = await _meant(session, node)
        count = await session.cluster.admin.drain_node(meant)
        note(f"{_partitions(count)} on the way from {_named(meant)} to others")
        if wait:
            await _until_empty(session, meant, timeout)
            note(f"nothing is left on {_named(meant)}")

    run(Connection(name, address), work)


@app.command(epilog=examples("eagleray node undrain 100"))
def undrain(node: Node, *, name: Name = "default", address: Address = None) -> None:
    """Let a node, or a machine, have partitions again: new ones, for the old do not come back by themselves."""

    async def work(session: Session) -> int | str:
        meant = await _meant(session, node)
        await session.cluster.admin.undrain_node(meant)
        return meant

    note(f"{_named(run(Connection(name, address), work))} may have partitions again")


async def _meant(session: Session, text: str) -> int | str:
    """Find out whether a node or a machine is meant."""
    nodes = await session.cluster.admin.list_nodes()
    if text.isdecimal() and any(node.node_id == int(text) for node in nodes):
        return int(text)
    if text and any(node.machine == text for node in nodes):
        return text
    raise Complaint(f"there is no node or machine {text!r}; `eagleray node list` shows those there are.")


async def _until_empty(session: Session, meant: int | str, timeout_s: float | None) -> None:
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    told = 0
    while left := await session.cluster.admin.kept_by(meant):
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise Complaint(
                f"{_partitions(len(left))} still on {_named(meant)} after {timeout_s:g} s; they go on moving."
            )
        if told not in (0, len(left)):
            note(f"{_partitions(len(left))} left there")
        told = len(left)
        await asyncio.sleep(_LOOK_S)


def _named(meant: int | str) -> str:
    return f"node {meant}" if isinstance(meant, int) else f"machine {meant}"


def _partitions(count: int) -> str:
    return "1 partition is" if count == 1 else f"{count} partitions are"
