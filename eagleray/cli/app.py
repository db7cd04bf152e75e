"""The program: its groups of commands, and how it fails."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from eagleray.cli import (
    benching,
    consuming,
    contacting,
    groups,
    hosting_commands,
    logs,
    nodes,
    producing,
    status,
    topics,
    transactions,
)
from eagleray.cli.added_commands import added_command, names_of_added
from eagleray.cli.errors import line_for
from eagleray.cli.options import examples
from eagleray.cli.signals import Interrupted, stop_signals
from eagleray.cli.streams import StdoutClosed, keep_stdout


class OneLineErrors(TyperGroup):
    """Says what was wrong in one line, and leaves the traceback to `--debug`."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as the class above has it
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

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - as the class above has it
        """The names of our own commands, then of those that were added."""
        ours = super().list_commands(ctx)
        return [*ours, *(name for name in names_of_added() if name not in ours)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - as the class above has it
        """The command of this name; an added one is loaded now."""
        return super().get_command(ctx, cmd_name) or added_command(cmd_name)


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


hosting_commands.add_to(app)
logs.add_to(app)
status.add_to(app)
contacting.add_to(app)
producing.add_to(app)
consuming.add_to(app)
app.add_typer(topics.app, name="topic")
app.add_typer(nodes.app, name="node")
app.add_typer(transactions.app, name="txn")
app.add_typer(groups.app, name="group")
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
