"""`eagleray storage strays`: directories that nodes neither serve nor remove."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from eagleray.cli.errors import UsageError
from eagleray.cli.options import Json, examples
from eagleray.cli.output import counted, note, print_json, print_rows
from eagleray.offline.layout import DirectoryInUse, NoDataDirectory
from eagleray.offline.strays import Stray, StrayKept, find_stray, list_strays, records_in
from eagleray.offline.strays import adopt as adopt_stray
from eagleray.offline.strays import remove as remove_stray

app = typer.Typer(no_args_is_help=True, help="See the directories that no node opens, and say what becomes of them.")

_Directory = Annotated[str, typer.Argument(metavar="DIR", help="The data directory.")]
_StrayName = Annotated[str, typer.Argument(metavar="NAME", help="The directory in logs/, as `list` shows it.")]
_DoIt = Annotated[bool, typer.Option("--yes", "-y", help="Do it; otherwise only say what would be done.")]
_STRAYS_FOUND = 1


@app.command("list", epilog=examples("eagleray storage strays list ./data"))
def list_all(directory: _Directory, *, json: Json = False) -> None:
    """List the strays of a data directory: their size, the topic that they name, and why no node opens them.

    Where no voter of the cluster is on the machine, only those are listed whose files say that they are strays;
    `eagleray status` names the others while the cluster runs. Ends with 1 where there are any.
    """
    try:
        strays = list_strays(directory)
    except NoDataDirectory as error:
        raise UsageError(f"{error}.") from None
    if json:
        print_json(strays)
    else:
        rows = (
            {
                "stray": stray.name,
                "directory": stray.directory,
                "bytes": stray.size_bytes,
                "topic id": stray.topic_id or None,
                "records": records_in(stray),
                "can be adopted": bool(stray.adopted_as),
                "why": stray.why,
            }
            for stray in strays
        )
        print_rows(rows, empty="there are no strays")
    if strays:
        raise typer.Exit(_STRAYS_FOUND)


@app.command(epilog=examples("eagleray storage strays adopt ./data orders-0 --yes"))
def adopt(directory: _Directory, stray_name: _StrayName, *, yes: _DoIt = False, json: Json = False) -> None:
    """Write the partition.metadata of a stray anew, where it alone is wrong, so that nodes open the directory again.

    That is certain where the checkpoint beside it, which has a checksum, names the topic id, and the metadata of the
    cluster do not contradict it. Anything else is refused. A node that runs opens it within a minute.
    """
    stray = _found(directory, stray_name)
    if not yes and stray.adopted_as:
        note(f"{stray.directory} would be that of topic id {stray.adopted_as}; nothing was changed, --yes does it")
    else:
        _do(lambda: adopt_stray(stray))
        if not json:
            typer.echo(f"{stray.directory} is that of topic id {stray.adopted_as} again")
    if json:
        print_json({"stray": msgspec.to_builtins(stray), "adopted": yes})


@app.command(epilog=examples("eagleray storage strays remove ./data orders-0 --yes"))
def remove(directory: _Directory, stray_name: _StrayName, *, yes: _DoIt = False, json: Json = False) -> None:
    """Remove a stray with all its records, for good.

    Only what is listed as a stray is removed, and only by its name.
    """
    stray = _found(directory, stray_name)
    if yes:
        _do(lambda: remove_stray(stray))
    said = f"{stray.directory}, {counted(stray.size_bytes, 'byte')}"
    if json:
        print_json({"stray": msgspec.to_builtins(stray), "removed": yes})
    elif yes:
        typer.echo(f"removed {said}")
    else:
        note(f"{said} would be removed ({stray.why}); nothing was changed, --yes does it")


def _found(directory: str, name: str) -> Stray:
    try:
        return find_stray(directory, name)
    except (NoDataDirectory, StrayKept) as error:
        raise UsageError(f"{error}.") from None


def _do(change: Callable[[], None]) -> None:
    try:
        change()
    except (DirectoryInUse, StrayKept) as error:
        raise UsageError(f"{error}.") from None
