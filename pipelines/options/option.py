"""What an option is."""

from __future__ import annotations

from typing import Literal

import msgspec

Side = Literal["source", "sink", "both"]
Query = Literal["batch", "streaming", "both"]


class Option(msgspec.Struct, frozen=True):
    """One option: its documented spelling, where it applies, its default as text (None for none) and its meaning."""

    name: str
    side: Side
    query: Query
    default: str | None
    meaning: str
    example: str
    streaming_default: str | None = None
    aliases: tuple[str, ...] = ()

    def default_for(self, *, streaming: bool) -> str | None:
        """Return the default of one kind of query."""
        return self.streaming_default if streaming and self.streaming_default is not None else self.default
