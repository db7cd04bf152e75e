"""What a command says when it cannot do what it was asked for: one line."""

from __future__ import annotations

from eagleray.broker.log import InvalidConfig
from eagleray.client.errors import EaglerayError


class Complaint(Exception):
    """Something to tell the user: what was wrong, what was expected, what to do."""


def line_for(error: Exception) -> str | None:
    """Return the line for an error that users can do something about; None for any other."""
    if isinstance(error, BrokenPipeError):
        return None
    if isinstance(error, Complaint | EaglerayError | InvalidConfig):
        return _one_line(str(error))
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return _one_line(f"{where}{error.strerror}")
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())
