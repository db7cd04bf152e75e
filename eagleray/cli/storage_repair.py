"""`eagleray storage repair`: mending one partition, where that needs a person."""

from __future__ import annotations

from typing import Annotated

import typer

from eagleray.broker.log import LogError
from eagleray.cli.errors import UsageError
from eagleray.cli.findings import print_findings
from eagleray.cli.options import Json
from eagleray.cli.output import counted, note, print_json
from eagleray.offline.layout import DirectoryInUse, NoDataDirectory
from eagleray.offline.repairing import Loss, Plan, accept, plan_repair, rebuild

_PROBLEMS_LEFT = 1


def repair(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The data directory.")],
    *,
    partition: Annotated[str, typer.Option("--partition", metavar="TOPIC-N", help="Which partition.")],
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Let the log go on without what is damaged, where no replica has it."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; otherwise only say what would be done.")] = False,
    json: Json = False,
) -> None:
    """Make a partition's indexes, snapshots and epochs again from its batches, or accept that the end of it is lost.

    Without --yes nothing is changed. Nothing is removed: what is replaced is kept under a name that ends in .damaged,
    and what is cut off in files that end in .cut. The node cuts a log whose loss was accepted when it opens it next; a
    node that runs does so within a minute.

    Ends with 1 where something is left that is wrong.
    """
    try:
        plan = plan_repair(directory, partition)
        kept, is_left = _carry_out(plan, accept_loss=accept_loss) if yes else ([], _is_anything_wrong(plan))
    except (DirectoryInUse, NoDataDirectory, LogError) as error:
        raise UsageError(f"{error}.") from None
    if json:
        print_json(_as_json(plan, kept, is_done=yes, is_accepted=yes and accept_loss))
    else:
        _print(plan, kept, is_done=yes, accept_loss=accept_loss)
    if is_left:
        raise typer.Exit(_PROBLEMS_LEFT)


def _is_anything_wrong(plan: Plan) -> bool:
    return bool(plan.derived or plan.others or plan.loss)


def _carry_out(plan: Plan, *, accept_loss: bool) -> tuple[list[str], bool]:
    """Do what there is to do; return what was kept, and whether something wrong is left."""
    kept = rebuild(plan) if plan.derived else []
    if plan.loss is not None and accept_loss:
        accept(plan)
        return kept, False
    return kept, bool(plan.others)


def _as_json(plan: Plan, kept: list[str], *, is_done: bool, is_accepted: bool) -> dict[str, object]:
    return {
        "data_dir": plan.data_dir,
        "partition": plan.partition,
        "rebuilt" if is_done else "would_rebuild": [finding.path for finding in plan.derived],
        "kept": kept,
        "loss": plan.loss,
        "loss_accepted": plan.loss is not None and (is_accepted or plan.loss.is_accepted),
        "other_problems": plan.others,
    }


def _print(plan: Plan, kept: list[str], *, is_done: bool, accept_loss: bool) -> None:
    for finding in plan.derived:
        typer.echo(f"{'made anew' if is_done else 'would be made anew'}: {finding.path} ({finding.what})")
    if kept:
        typer.echo(f"kept in {plan.directory}: {', '.join(kept)}")
    if plan.loss is not None:
        _print_loss(plan, plan.loss, is_accepted=is_done and accept_loss)
    print_findings(plan.others if plan.loss is None else ())
    if not _is_anything_wrong(plan):
        typer.echo(f"{plan.partition} needs no repair")
    elif not is_done and (plan.derived or accept_loss):
        note("nothing was changed; --yes does it")


def _print_loss(plan: Plan, loss: Loss, *, is_accepted: bool) -> None:
    kept = f" {counted(loss.cut_bytes, 'byte')} are kept as {', '.join(loss.kept_files)}." if loss.kept_files else ""
    if loss.offset is None:
        what = (
            f"{plan.partition} is read anew from its batches, up to offset {loss.end_offset}: no checkpoint can be "
            f"read, and records that were deleted on request may come back.{kept}"
        )
    else:
        what = (
            f"{plan.partition} goes on without everything from offset {loss.offset} on; it is known to have "
            f"gone up to offset {max(loss.known_end_offset - 1, loss.offset)}.{kept}"
        )
    if is_accepted or loss.is_accepted:
        typer.echo(
            f"loss accepted: {what}\nThe node does this when it opens the partition, within a minute if it runs."
        )
    else:
        typer.echo(f"needs a person: {what}")
        note("bring a good copy of the directory back, or accept the loss with --accept-loss --yes")
