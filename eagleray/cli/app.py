"""The program: its groups of commands, and how it fails.

Packages that sit above this one, or beside it, add a group of commands with

    [project.entry-points."eagleray.commands"]
    pipeline = "eagleray.pipelines.cli:app"

where the object is a Typer. Loading it should be quick: `eagleray --help` does so, to say what the group is for.
"""

from __future__ import annotations

import importlib.metadata
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperGroup

from eagleray.cli import (
    benching,
    consuming,
    contacting,
    doctor,
    groups,
    hosting_commands,
    logs,
    nodes,
    producing,
    status,
    storage,
    topics,
    transactions,
)
from eagleray.cli.errors import line_for
from eagleray.cli.options import examples
from eagleray.cli.signals import Interrupted, stop_signals
from eagleray.cli.streams import StdoutClosed, keep_stdout

if TYPE_CHECKING:
    from typer._click.core import Command, Context


_ADDED: Final = "eagleray.commands"


class OneLineErrors(TyperGroup):
    """Says what was wrong in one line, and leaves the traceback to `--debug`."""

    def invoke(self, ctx: Context) -> object:
        """Run the command that was asked for."""
        try:
            with stop_signals.taken():
                return super().invoke(ctx)
        except Interrupted as interrupted:
            raise typer.Exit(interrupted.exit_code) from None
        except Exception as error:
            line = None if ctx.params.get("debug") else line_for(error)
            if line is None:
                raise
            typer.echo(f"error: {line}", err=True)
            raise typer.Exit(stop_signals.exit_code or 1) from None

    def list_commands(self, ctx: Context) -> list[str]:
        """The names of our own commands, then of those that were added."""
        ours = super().list_commands(ctx)
        return [*ours, *(name for name in _names_of_added() if name not in ours)]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of this name; an added one is loaded now."""
        return super().get_command(ctx, cmd_name) or _added_command(cmd_name)


def _names_of_added() -> list[str]:
    return sorted({point.name for point in importlib.metadata.entry_points(group=_ADDED)})


def _added_command(name: str) -> Command | None:
    """Load the group of a name; None where no module has added it."""
    for point in importlib.metadata.entry_points(group=_ADDED, name=name):
        command = typer.main.get_command(point.load())
        command.name = name
        return command
    return None


app = typer.Typer(
    name="eagleray",
    cls=OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "eagleray start --data-dir ./data",
        "eagleray topic create orders --partitions 3",
        "seq 10 | eagleray produce orders --transactional-id loader-1",
        "eagleray consume orders --timeout 2",
        "eagleray status",
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"eagleray {importlib.metadata.version('eagleray')}")
        raise typer.Exit


@app.callback()
def eagleray(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback when something fails.")] = False,
) -> None:
    """Exactly-once streams on the Ray cluster you already have.

    Start a cluster, make topics, write records in transactions, read them, and see what holds readers back.
    """
    del version, debug  # the first was dealt with before, the second is for `main`, which catches errors


for module in (hosting_commands, logs, status, doctor, contacting, producing, consuming):
    app.add_typer(module.app)
app.add_typer(topics.app, name="topic")
app.add_typer(nodes.app, name="node")
app.add_typer(transactions.app, name="txn")
app.add_typer(groups.app, name="group")
app.add_typer(storage.app, name="storage")
app.add_typer(benching.app, name="bench")


def main() -> None:
    """Run the command that the process was started for."""
    keep_stdout()
    try:
        with stop_signals.taken():
            app()
    except StdoutClosed as error:  # by the help or the version, which are printed before any command runs
        typer.echo(f"error: {error.strerror}", err=True)
        sys.exit(1)
