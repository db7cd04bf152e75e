"""`eagleray group`: what groups have committed, and how far they are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from eagleray.cli.options import Address, Connection, Json, Name, Yes, examples
from eagleray.cli.output import counted, note, print_json, print_table
from eagleray.cli.running import run
from eagleray.client.admin.descriptions import GroupOffset
from eagleray.client.errors import GroupNotFound

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="See how far groups of consumers have come, and forget them.")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]


@app.command("list", epilog=examples("eagleray group list"))
def list_groups(*, json: Json = False, name: Name = "", address: Address = None) -> None:
    """List the groups that have committed offsets."""
    groups = run(Connection(name, address), lambda session: session.cluster.admin.list_groups())
    if json:
        print_json([{"group": group} for group in groups])
    else:
        print_table(("group",), ((group,) for group in groups), empty="there are no groups")


@app.command(epilog=examples("eagleray group describe audit", "eagleray group describe audit --json"))
def describe(group: Group, *, json: Json = False, name: Name = "", address: Address = None) -> None:
    """Show how far a group has come in each partition, and how many offsets are left for it (its lag)."""

    async def work(session: Session) -> list[GroupOffset]:
        admin = session.cluster.admin
        await _require(session, group)
        return await admin.describe_group(group)

    rows = [_row(offset) for offset in run(Connection(name, address), work)]
    if json:
        print_json({"group": group, "lag": sum(row["lag"] for row in rows), "partitions": rows})
        return
    columns = ("topic", "partition", "offset", "end", "lag", "metadata")
    print_table(columns, (tuple(row.values()) for row in rows), empty=f"group {group} has no offsets")


def _row(offset: GroupOffset) -> dict[str, Any]:
    return {
        "topic": offset.partition.topic,
        "partition": offset.partition.partition,
        "offset": offset.offset,
        "log_end_offset": offset.log_end_offset,
        "lag": offset.lag,
        "metadata": offset.metadata,
    }


async def _require(session: Session, group: str) -> None:
    if group not in await session.cluster.admin.list_groups():
        raise GroupNotFound(f"there is no group {group!r}; `eagleray group list` shows those there are.")


@app.command(epilog=examples("eagleray group delete audit", "eagleray group delete audit --yes"))
def delete(group: Group, *, yes: Yes = False, name: Name = "", address: Address = None) -> None:
    """Have the cluster forget a group and all its offsets."""

    async def look(session: Session) -> int:
        await _require(session, group)
        return len(await session.cluster.admin.describe_group(group))

    async def work(session: Session) -> None:
        await _require(session, group)
        await session.cluster.admin.delete_group(group)

    connection = Connection(name, address)
    if not yes:
        offsets = counted(run(connection, look), "partition")
        typer.confirm(f"Delete group {group} with its offsets in {offsets}?", abort=True, err=True)
    run(connection, work)
    note(f"deleted group {group}")
