"""`eagleray storage restore-metadata`: a lost metadata log, made again from what the nodes have kept."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from eagleray.actors.storage.disk import LocalDisk
from eagleray.actors.storage.restore_metadata import carry_out, data_directories, in_use_by_none
from eagleray.actors.storage.restore_plan import CannotRestore, RestorePlan, plan_restore
from eagleray.broker.metadata.directory_identity import DirectoryRefused
from eagleray.cli.errors import UsageError
from eagleray.cli.options import Json, examples
from eagleray.cli.output import note, print_facts, print_json

EXAMPLES: Final = examples(
    "eagleray storage restore-metadata ./data",
    "eagleray storage restore-metadata /mnt/machine-0 /mnt/machine-1 /mnt/machine-2 --yes",
)
_LISTED: Final = 10


def restore_metadata(
    directories: Annotated[
        list[str], typer.Argument(metavar="DIR...", help="The data directories of all machines, as far as they exist.")
    ],
    *,
    voter: Annotated[
        list[str] | None,
        typer.Option("--voter", metavar="NODE=DIR", help="A new directory for a voter whose own is gone; repeat it."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; otherwise only say what would be done.")] = False,
    json: Json = False,
) -> None:
    """Make a metadata log again that all voters, or most of them, have lost.

    Each node keeps the last metadata that it has had. The newest of these is what the log begins with; what no node
    has kept is given up. Partitions are led by the replica that has most, and new producer ids are above every id in
    any partition, so give the directories of all machines. The log that a voter had stays in the folder damaged.

    The cluster has to be stopped. Ends with an error where the metadata are not lost.
    """
    disk = LocalDisk()
    try:
        data_dirs = [found for path in directories for found in data_directories(disk, path.rstrip("/"))]
        with in_use_by_none(disk, data_dirs):
            plan = plan_restore(disk, data_dirs, _replaced(voter))
            put_aside = carry_out(disk, plan, time.time_ns() // 1_000_000) if yes else {}
    except (CannotRestore, DirectoryRefused) as error:
        raise UsageError(f"{error}.") from None
    if json:
        print_json(_facts(plan) | {"written": yes, "put_aside": put_aside})
        return
    print_facts({name.replace("_", " "): _short(value) for name, value in _facts(plan).items()})
    for node_id, path in put_aside.items():
        note(f"wrote the metadata log of node {node_id}; the one that it had is {path or 'gone'}")
    if not yes:
        note("nothing was changed; --yes does it")
    elif plan.absent_voters:
        voters = ", ".join(map(str, plan.absent_voters))
        note(f"nodes {voters} keep the metadata too: start each with an empty directory, or without its metadata log")


def _replaced(voters: list[str] | None) -> dict[int, str]:
    pairs = [each.partition("=") for each in voters or ()]
    for node_id, separator, path in pairs:
        if not node_id.isdecimal() or not separator or not path:
            raise UsageError(f"--voter is {node_id + separator + path!r}; expected NODE=DIR, for example 0=/mnt/new.")
    return {int(node_id): path.rstrip("/") for node_id, _, path in pairs}


def _facts(plan: RestorePlan) -> dict[str, Any]:
    return {
        "cluster": plan.image.cluster_id,
        "taken_from": plan.source,
        "position": str(plan.source_position),
        "changes_given_up": plan.given_up,
        "topics": sorted(plan.image.topics),
        "first_producer_id": plan.image.next_producer_id,
        "term": plan.term,
        "voters": [f"{node_id} in {path}" for node_id, path in plan.voters.items()],
        "voters_without_directory": list(plan.absent_voters),
        "partitions_without_files": [str(partition) for partition in plan.partitions_without_files],
        "unknown_directories": list(plan.strays),
        "problems": list(plan.problems),
    }


def _short(value: object) -> object:
    if not isinstance(value, list):
        return value
    shown = ", ".join(map(str, value[:_LISTED]))
    return f"{shown} and {len(value) - _LISTED} more" if len(value) > _LISTED else shown or None
