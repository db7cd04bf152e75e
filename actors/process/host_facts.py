"""What a node says of its host and of its program, for those who compare nodes."""

from __future__ import annotations

import importlib.metadata
from functools import cache
from typing import Any

_PACKAGE = "eagleray"


@cache
def program_version() -> str:
    """The version of the installed package; empty where it is not installed."""
    try:
        return importlib.metadata.version(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return ""


def host_facts(now_ms: int) -> dict[str, Any]:
    """The version of the program, and the time of day."""
    return {"version": program_version(), "time_ms": now_ms}
