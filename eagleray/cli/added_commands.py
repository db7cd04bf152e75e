"""Commands from packages that sit above this one, or beside it: found by entry points, and loaded when they are wanted.

A package adds a group of commands with

    [project.entry-points."eagleray.commands"]
    pipeline = "eagleray.pipelines.cli:app"

where the object is a Typer. Loading it should be quick: `eagleray --help` does so, to say what the group is for.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any, Final

import typer

_GROUP: Final = "eagleray.commands"


def names_of_added() -> list[str]:
    """The names of all groups that packages have added."""
    return sorted({point.name for point in importlib.metadata.entry_points(group=_GROUP)})


def added_command(name: str) -> Any | None:  # noqa: ANN401 - a command, in whichever Click Typer has
    """Load the group of a name; None where nobody has added it."""
    for point in importlib.metadata.entry_points(group=_GROUP, name=name):
        command = typer.main.get_command(point.load())
        command.name = name
        return command
    return None
