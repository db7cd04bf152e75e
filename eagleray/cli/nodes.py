"""`eagleray node`: list nodes, add a machine, drain a node."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from eagleray.broker.metadata.image import MetadataImage
from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import counted, note, print_json, print_rows
from eagleray.cli.running import run
from eagleray.client.admin.descriptions import NodeDescription

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer(
    no_args_is_help=True, help="See what nodes have to do, add a machine, and move everything away from one."
)

Node = Annotated[str, typer.Argument(metavar="NODE|MACHINE", help="The id of a node, or a machine with all its nodes.")]
_LOOK_S: Final = 0.2
_ALONE: Final = ""
"""What a cluster on one machine calls it."""


@app.command("list", epilog=examples("eagleray node list", "eagleray node list --json"))
def list_nodes(*, json: Json = False, name: Name = "", address: Address = None) -> None:
    """List the nodes: machine and roles, whether each is there, and how many partitions it leads and keeps."""
    nodes = run(Connection(name, address), _named_nodes)
    if json:
        print_json(msgspec.to_builtins(nodes))
        return
    rows = (
        {
            "node": node.node_id,
            "machine": node.machine or None,
            "roles": ", ".join(node.roles),
            "registered": node.registered,
            "draining": node.draining,
            "leads": node.leads,
            "keeps": node.keeps,
        }
        for node in nodes
    )
    print_rows(rows, empty="no node is planned")


@app.command(epilog=examples("eagleray node add 10.0.0.8", "eagleray node add 10.0.0.8 --wait 300"))
def add(
    machine: Annotated[str, typer.Argument(metavar="ADDRESS", help="Of a machine on which Ray has been started.")],
    *,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait until it has joined Ray.")
    ] = 0.0,
    name: Name = "",
    address: Address = None,
) -> None:
    """Let the cluster have nodes on one machine more, while it runs.

    New partitions may be put there, and those of machines that are drained. What there is stays where it is.
    """
    nodes = run(Connection(name, address), lambda session: session.add_machine(machine, wait_s=wait))
    note(f"machine {machine} has joined, with node {', '.join(map(str, nodes))}")


@app.command(epilog=examples("eagleray node drain 100", "eagleray node drain 10.0.0.7 --wait"))
def drain(
    node: Node,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing is left there.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="With --wait: for how long.")
    ] = None,
    name: Name = "",
    address: Address = None,
) -> None:
    """Move all partitions away from a node, or a machine, so that it can be switched off.

    Each partition needs another machine that has none of it yet. Nothing new is put there until
    `eagleray node undrain`.
    """

    async def work(session: Session) -> None:
        meant = await _meant(session, node)
        if meant.target == _ALONE:
            raise UsageError(
                f"{meant.named} is the only one, and its partitions have nowhere to go; only a cluster on 3 or more "
                "machines can have another. Start one with `--machines 3` and another data directory."
            )
        count = await session.cluster.admin.drain_node(meant.target)
        note(f"{_are(count)} on the way from {meant.named} to others")
        if wait:
            await _until_empty(session, meant, timeout)
            note(f"nothing is left on {meant.named}")

    run(Connection(name, address), work)


@app.command(epilog=examples("eagleray node undrain 100"))
def undrain(node: Node, *, name: Name = "", address: Address = None) -> None:
    """Let a node, or a machine, have partitions again: new ones, for the old do not come back by themselves."""

    async def work(session: Session) -> Meant:
        meant = await _meant(session, node)
        await session.cluster.admin.undrain_node(meant.target)
        return meant

    note(f"{run(Connection(name, address), work).named} may have partitions again")


@app.command("accept-clock", epilog=examples("eagleray node accept-clock 100", "eagleray node accept-clock 10.0.0.7"))
def accept_clock(node: Node, *, name: Name = "", address: Address = None) -> None:
    """Say that the wall clock of a node, or a machine, is right, although it has jumped.

    A node whose wall clock has moved by more than `clock.max.jump.ms` keeps the time that it had, and nothing expires
    by the time of day. From this command on it goes by its wall clock, and what is old by that expires.
    `eagleray doctor` says which clocks have jumped, and by how much.
    """

    async def work(session: Session) -> dict[int, int]:
        meant = await _meant(session, node)
        return await session.cluster.admin.accept_clock(meant.target)

    for node_id, by_ms in run(Connection(name, address), work).items():
        changed = f"set by {by_ms / 1000:.0f} s" if by_ms else "as it was"
        note(f"node {node_id} goes by its wall clock; its time is {changed}")


class Meant(msgspec.Struct, frozen=True):
    """A node, or a machine with all its nodes, as the admin calls it and as it was printed."""

    target: int | str
    named: str


def machine_names(image: MetadataImage) -> dict[int, str | None]:
    """The machine of each node: its name, or its host where a machine alone has no name; None as long as none is known.

    A cluster on one machine does not name it; its nodes share the host.
    """
    hosts = [node.host for _, node in sorted(image.nodes.items())]
    return {
        node_id: planned.machine or (image.nodes[node_id].host if node_id in image.nodes else next(iter(hosts), None))
        for node_id, planned in image.plan.items()
    }


async def _named_nodes(session: Session) -> list[NodeDescription]:
    """The nodes, each with the name of its machine that commands print and take."""
    nodes = await session.cluster.admin.list_nodes()
    machines = machine_names(session.cluster.runtime.view.image)
    return [msgspec.structs.replace(node, machine=machines.get(node.node_id) or "") for node in nodes]


async def _meant(session: Session, text: str) -> Meant:
    nodes = await _named_nodes(session)
    plan = session.cluster.runtime.view.image.plan
    if text.isdecimal() and any(node.node_id == int(text) for node in nodes):
        return Meant(int(text), f"node {int(text)}")
    for node in nodes:
        if text and node.machine == text:
            return Meant(plan[node.node_id].machine, f"machine {text}")
    raise UsageError(f"there is no node or machine {text!r}; `eagleray node list` shows those there are.")


async def _until_empty(session: Session, meant: Meant, timeout_s: float | None) -> None:
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    told = 0
    while left := await session.cluster.admin.kept_by(meant.target):
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise UsageError(f"{_are(len(left))} still on {meant.named} after {timeout_s:g} s; they go on moving.")
        if told not in (0, len(left)):
            note(f"{_are(len(left))} left there")
        told = len(left)
        await asyncio.sleep(_LOOK_S)


def _are(count: int) -> str:
    return f"{counted(count, 'partition')} {'is' if count == 1 else 'are'}"
