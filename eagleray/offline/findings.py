"""What was found wrong in a data directory, in words for a person."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

import msgspec


class Severity(enum.StrEnum):
    """How bad a finding is."""

    DAMAGE = "damage"
    """A file holds what was never written there, or lacks what was; acknowledged records may be concerned."""

    DERIVED = "derived"
    """A file is wrong that is made again from the batches: it costs time, and no record."""

    NOTICE = "notice"
    """Nothing is wrong, but a person may want to know."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was found."""

    severity: Severity
    path: str
    """The file or directory that it is about."""

    what: str
    """What is there, and what it means."""

    help: str = ""
    """What a person can do, with the command."""

    partition: str = ""
    """The partition's directory, where it is about one."""

    offset: int | None = None
    """Of a record, where it is about one."""

    position: int | None = None
    """A byte of the file."""

    @property
    def is_problem(self) -> bool:
        """Whether something is wrong."""
        return self.severity is not Severity.NOTICE


def or_unreadable(path: str, found: Iterator[Finding]) -> Iterator[Finding]:
    """Yield what is found, and where the disk does not give a file, that; the rest of a directory is read then, too."""
    try:
        yield from found
    except OSError as error:
        why = "the disk may be failing, or the file be that of another user"
        what = f"it cannot be read: {error.strerror or error}; {why}"
        yield Finding(severity=Severity.DAMAGE, path=str(error.filename or path), what=what)


def has_problems(findings: Iterable[Finding]) -> bool:
    """Whether anything is wrong."""
    return any(finding.is_problem for finding in findings)
