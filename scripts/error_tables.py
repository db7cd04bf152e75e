"""Write docs/errors.md from the exceptions of the client, or check that it is up to date.

python scripts/error_tables.py            # write it
python scripts/error_tables.py --check    # fail if it would change
"""

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

from eagleray import errors

DOCUMENT = Path(__file__).parents[1] / "docs" / "errors.md"

INTRODUCTION = """# Errors

What clients raise, from `eagleray.errors`. Each exception belongs to one of four groups, which say what an
application does next; an application catches the group, or one exception where it can do better. Each has a `message`,
an `advice`, which is the last column here, and the broker's `error_code` where a broker's answer is its cause.

This page is written by `scripts/error_tables.py` from the code.
"""

GROUPS = (errors.RetriableError, errors.AbortableError, errors.FatalError, errors.RefusedError)
HEADING = ("exception", "meaning", "what to do")

Row = tuple[str, ...]


def rows_of(group: type[errors.EaglerayError]) -> list[Row]:
    """A row for a group, and one for each exception that belongs to it, in the order of the code."""
    members = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, group)]
    return [_row(each) for each in sorted(members, key=lambda each: inspect.getsourcelines(each)[1])]


def _row(exception: type[errors.EaglerayError]) -> Row:
    return f"`{exception.__name__}`", _meaning(exception), exception.advice


def _meaning(exception: type[Exception]) -> str:
    return " ".join((inspect.getdoc(exception) or "").split())


def render() -> str:
    """Render the whole document."""
    sections = (f"\n## {group.__name__.removesuffix('Error')}\n\n{_table(HEADING, rows_of(group))}" for group in GROUPS)
    return "".join((INTRODUCTION, *sections))


def _table(heading: Row, rows: Sequence[Row]) -> str:
    lines = [heading, ("---",) * len(heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    from generated_document import write_or_check  # type: ignore[import-not-found] # it lies beside this script

    sys.exit(write_or_check(DOCUMENT, render(), __doc__))
