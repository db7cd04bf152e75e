"""`--watch`: a command that shows its answer again and again, until it is interrupted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

_CLEAR = "\x1b[H\x1b[2J"
_EVERY_S = "1"

Result = TypeVar("Result")

Watch = Annotated[
    float | None,
    typer.Option(
        "--watch", metavar="[SECONDS]", min=0.1, help="Show it again every second, or so often, until Ctrl-C."
    ),
]


class WatchCommand(TyperCommand):
    """A command whose `--watch` may be given without a number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer gives its context no name
        """Give `--watch` the number that it lacks; what else stands behind it is an argument of its own."""
        given: list[str] = []
        for place, arg in enumerate(args):
            given.append(arg)
            if arg == "--watch" and not _is_number(args[place + 1 : place + 2]):
                given.append(_EVERY_S)
        return super().parse_args(ctx, given)


def _is_number(args: list[str]) -> bool:
    try:
        float(args[0])
    except (IndexError, ValueError):
        return False
    return True


async def watch(find: Callable[[], Awaitable[Result]], show: Callable[[Result], None], every_s: float) -> None:
    """Show what is found, again and again; on a terminal always in the same place."""
    while True:
        found = await find()
        if sys.stdout.isatty():
            typer.echo(_CLEAR, nl=False)
        show(found)
        await asyncio.sleep(every_s)
