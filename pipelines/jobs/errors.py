"""What is wrong with a job, and how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InvalidJob(ValueError):
    """A job cannot be run as it is written: what was wrong, what was expected, what to do."""


class NoFreeCpu(RuntimeError):
    """Ray tasks would wait for ever, because all of the cluster is taken."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the name that was probably meant, and all known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}expected one of {', '.join(names)}."
