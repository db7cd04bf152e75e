"""The standard streams of the program, also where some of them are closed."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Self


class StdoutClosed(OSError):
    """Something was to be printed, and the standard output is closed."""

    def __init__(self) -> None:
        super().__init__(errno.EBADF, "the standard output is closed, so that nothing can be printed; open it")


class ClosedStdout(io.TextIOBase):
    """Stands in for a standard output that is closed: whatever is printed fails with one line that says so."""

    def write(self, text: str) -> int:  # noqa: ARG002 - as the class above has it
        """Refuse."""
        raise StdoutClosed

    @property
    def buffer(self) -> Self:
        """What takes bytes, and refuses them as well."""
        return self


def keep_stdout() -> None:
    """Keep the standard output for what commands print.

    Ray and the processes that it starts write where they like to; all of that goes to the standard error, so that
    who reads our output gets nothing else. A stream that is closed is opened on nothing first: the next file that
    is opened would get its number, and what is printed would go there.
    """
    is_closed = not _is_open(1)
    for number in (0, 1, 2):
        if not _is_open(number):
            os.dup2(opened := os.open(os.devnull, os.O_RDWR), number)
            if opened != number:
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if is_closed:
        sys.stdout = ClosedStdout()
    else:
        sys.stdout.flush()
        sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    os.dup2(2, 1)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
