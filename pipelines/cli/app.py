"""The command group `eagleray pipeline`, and how it reports errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup

from eagleray.cli.options import examples
from eagleray.pipelines.cli import example_commands, generating, loadtesting, running
from eagleray.pipelines.cli.errors import translated

if TYPE_CHECKING:
    from typer._click.core import Context


class SparkErrors(TyperGroup):
    """Turns what Spark raises into one line, which the program above prints."""

    def invoke(self, ctx: Context) -> object:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            usage_error = translated(error)
            if usage_error is None:
                raise
            raise usage_error from error


app = typer.Typer(
    name="pipeline",
    cls=SparkErrors,
    no_args_is_help=True,
    help="Run exactly-once pipelines by Spark on the same Ray cluster.",
    epilog=examples(
        "eagleray pipeline generate --topic orders --rows 100000 --seed 7",
        "eagleray pipeline run job.toml",
        "eagleray pipeline example revenue --local",
        "eagleray pipeline loadtest --local --seconds 20",
    ),
)


@app.callback()
def pipeline() -> None:
    """Run exactly-once pipelines by Spark on the same Ray cluster."""


for module in (generating, running, example_commands, loadtesting):
    app.add_typer(module.app)
