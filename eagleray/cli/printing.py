"""Writing records to the standard output, so that it is known which of them have got there."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import stat
import struct
import sys
import termios
from collections.abc import Sequence
from typing import Final, TextIO

_LOOKS_AT_ONCE: Final = 200
_LOOK_S: Final = 0.001


class StreamPrinter:
    """Writes to a terminal, a file, or whatever takes all that it is given: what is flushed is printed.

    Raises OSError where that is not possible.
    """

    def __init__(self) -> None:
        self.printed = 0

    async def write(self, pieces: Sequence[bytes]) -> None:
        """Write all and flush."""
        sys.stdout.buffer.write(b"".join(pieces))
        sys.stdout.buffer.flush()
        self.printed += len(pieces)


class PipePrinter:
    """Writes to a pipe, one piece after the other, each when the reader has taken the one before.

    A pipe takes 64 KiB that its reader may never look at: behind `| head -3` that would be hundreds of records. What
    the reader has left in the pipe when it went away is not printed, and raises BrokenPipeError.
    """

    def __init__(self, descriptor: int) -> None:
        self.printed = 0
        self._pipe = descriptor
        self._gone = select.poll()
        # Errors are told of without being asked for: POLLERR says that no reader is left.
        self._gone.register(descriptor, 0)

    async def write(self, pieces: Sequence[bytes]) -> None:
        """Write each piece, and wait until it has been read."""
        for piece in pieces:
            await self._write_all(piece)
            await self._until_read()
            self.printed += 1

    async def _write_all(self, piece: bytes) -> None:
        left = memoryview(piece)
        while left:
            # No more than a pipe takes at once without waiting, so that an interrupt is not kept waiting either.
            left = left[os.write(self._pipe, left[: select.PIPE_BUF]) :]
            if left:
                await self._until_read()

    async def _until_read(self) -> None:
        looks = 0
        while unread_bytes(self._pipe):
            if self._gone.poll(0):
                # It may have read the rest between the two looks, and gone then.
                if not unread_bytes(self._pipe):
                    return
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            looks += 1
            # A reader that waits for us is quick; one that works is not woken up more often by our looking.
            await asyncio.sleep(0 if looks < _LOOKS_AT_ONCE else _LOOK_S)


Printer = StreamPrinter | PipePrinter


def unread_bytes(pipe: int) -> int:
    """How much of what was written to a pipe has not been read."""
    found: tuple[int] = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return found[0]


def printer_for(*, is_exact: bool) -> Printer:
    """Choose how to write to the standard output; `is_exact` where it matters what a reader has taken."""
    pipe = _pipe_of(sys.stdout) if is_exact else None
    return StreamPrinter() if pipe is None else PipePrinter(pipe)


def _pipe_of(stream: TextIO) -> int | None:
    try:
        descriptor = stream.fileno()
    except (OSError, AttributeError, ValueError):  # a stand-in may lack it
        return None
    return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
