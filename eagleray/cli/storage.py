"""`eagleray storage`: the files of nodes that do not run."""

from __future__ import annotations

from typing import Annotated

import typer

from eagleray.cli import restore_metadata, storage_dump, storage_repair, storage_strays
from eagleray.cli.errors import UsageError
from eagleray.cli.findings import allow_many_files, print_findings
from eagleray.cli.options import Json, examples
from eagleray.cli.output import counted, note, print_json
from eagleray.offline.layout import NoDataDirectory
from eagleray.offline.verifying import Verified
from eagleray.offline.verifying import verify as verify_directory

app = typer.Typer(no_args_is_help=True)

Directory = Annotated[
    str, typer.Argument(metavar="DIR", help="The --data-dir of `eagleray start`, on a machine that has nodes.")
]
PROBLEMS_FOUND = 1


@app.callback()
def storage() -> None:
    """Look at data directories, and mend them, where no node has them open."""
    allow_many_files()


@app.command(
    epilog=examples("eagleray storage verify ./data", "eagleray storage verify ./data --partition orders-0 --json")
)
def verify(
    directory: Directory,
    *,
    partition: Annotated[
        str, typer.Option("--partition", metavar="TOPIC-N", help="Read this one alone.", show_default="all of them")
    ] = "",
    json: Json = False,
) -> None:
    """Read every file of a data directory, and say what is wrong. Nothing is changed.

    Each batch is read with its checksum, its offset and its epoch, by the code that a node opens a log with; each index
    is compared with its batches; and each small file of the partitions, the nodes and the metadata is read.

    Ends with 0 where all is whole, and with 1 where something is wrong, or is open in a running node and was not read.
    """
    try:
        found = verify_directory(directory, partition)
    except NoDataDirectory as error:
        raise UsageError(f"{error}.") from None
    if json:
        print_json([_as_json(each) for each in found])
    else:
        for each in found:
            _print(each)
    if not all(each.is_whole for each in found):
        raise typer.Exit(PROBLEMS_FOUND)


def _as_json(verified: Verified) -> dict[str, object]:
    return {
        "data_dir": verified.data_dir,
        "cluster_id": verified.cluster_id,
        "nodes": verified.node_ids,
        "partitions": verified.partitions,
        "in_use": verified.in_use,
        "findings": verified.findings,
        "whole": verified.is_whole,
    }


def _print(verified: Verified) -> None:
    whose = ", ".join(map(str, verified.node_ids)) or "none that say so"
    note(f"{verified.data_dir}: nodes {whose}, of cluster {verified.cluster_id or 'unknown'}")
    print_findings(verified.findings)
    if verified.in_use:
        names = ", ".join(verified.in_use)
        note(f"not read, because a running node has them open: {names}; stop it first, or verify a copy")
    problems = sum(finding.is_problem for finding in verified.findings)
    read = counted(len(verified.partitions), "partition")
    said = f"{counted(problems, 'problem')} found" if problems else "nothing is wrong"
    typer.echo(f"{read} read: {said}")


app.command(
    epilog=examples(
        "eagleray storage dump data/logs/orders-0/00000000000000000000.log --print-data-log",
        "eagleray storage dump data/logs/__transaction_state-0 --print-data-log",
        "eagleray storage dump data/nodes",
    )
)(storage_dump.dump)
app.command(
    epilog=examples(
        "eagleray storage repair ./data --partition orders-0",
        "eagleray storage repair ./data --partition orders-0 --accept-loss --yes",
    )
)(storage_repair.repair)
app.add_typer(storage_strays.app, name="strays")
app.command("restore-metadata", epilog=restore_metadata.EXAMPLES)(restore_metadata.restore_metadata)
