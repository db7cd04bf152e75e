"""Every option of the data source, with its default and meaning: what the parser, the errors and the docs go by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from eagleray.pipelines.options.option import Option
from eagleray.pipelines.options.sink_table import SINK_OPTIONS
from eagleray.pipelines.options.source_table import SOURCE_OPTIONS

SHARED_OPTIONS: Final = (
    # Which cluster
    Option("cluster", "both", "both", "default", "The name of the Eagleray cluster.", "production"),
    Option("address", "both", "both", "auto", "The address of the Ray cluster that it runs on.", "ray-head:6379"),
    Option(
        "contact",
        "both",
        "both",
        None,
        "A file that tells how to reach the cluster.",
        "/etc/eagleray/contact",
    ),
)
OPTIONS: Final = (*SOURCE_OPTIONS, *SINK_OPTIONS, *SHARED_OPTIONS)


def options_of(side: Literal["source", "sink"]) -> dict[str, Option]:
    """Return the options of a source or a sink by their names."""
    return {option.name: option for option in OPTIONS if option.side in (side, "both")}


def render_table(options: Iterable[Option]) -> str:
    """Render options as a table in Markdown."""
    heading = ("option", "queries", "default", "meaning", "example")
    rows = [heading, ("---",) * len(heading), *(_row(option) for option in options)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(option: Option) -> tuple[str, ...]:
    names = f"`{option.name}`" + "".join(f", also `{alias}`" for alias in option.aliases)
    queries = "batch, streaming" if option.query == "both" else option.query
    return names, queries, _default(option), option.meaning, f"`{option.example}`"


def _default(option: Option) -> str:
    if option.default is None:
        return ""
    if option.streaming_default is None:
        return f"`{option.default}`"
    return f"batch `{option.default}`, streaming `{option.streaming_default}`"
