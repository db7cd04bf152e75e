"""The file-system port: everything that the log asks of a disk.

The log never calls `os` itself. It works on this port, so that tests can put a simulated disk below it
that tears writes, fills up, forgets what was never flushed and fails to flush.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from eagleray.protocol.records import BytesLike

# The kernel takes at most this many buffers in one writev (IOV_MAX on Linux).
MAX_BUFFERS_PER_WRITE = 1024

# A number that no open file has, so that a use after `close` fails with EBADF.
_NO_DESCRIPTOR = 2**31 - 1

_TEMPORARY = ".tmp"

_BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Whether a disk, or a quota, has no room for what was asked; a flush that failed so is a failed flush."""
    return error.errno in _FULL and not isinstance(error, FlushFailed)


class FlushFailed(OSError):
    """What was written may never reach the disk, even if it can be read now and a later flush succeeds."""


class File(Protocol):
    """An open file that grows at its end and is read anywhere.

    Promises: `write` returns how many bytes the disk took, which may be fewer than were given; what it took
    is visible to `read` at once and survives the death of the process. Only `flush` makes it survive the
    loss of power. After an OSError the end of the file is unknown to the caller until `size` is asked.
    """

    def write(self, buffers: Sequence[BytesLike]) -> int:
        """Append what fits and return the number of bytes taken."""

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer only at the end of the file."""

    def size(self) -> int:
        """Return the length of the file in bytes."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""

    def flush(self) -> None:
        """Return once everything written is on stable storage."""

    def duplicate(self) -> File:
        """Return another handle of the same file, for another thread, which stays when this one is closed.

        An error of the disk is told to one of them only.
        """

    def close(self) -> None:
        """Give the file back; it is not used again."""


class FileSystem(Protocol):
    """A tree of files named by plain path strings."""

    def open(self, path: str) -> File:
        """Open for reading and appending; create the file where it is missing."""

    def read_bytes(self, path: str) -> bytes:
        """Return a whole file; FileNotFoundError where there is none."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory is there."""

    def list_directory(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""

    def make_directories(self, path: str) -> None:
        """Create a directory and its parents where they are missing, on stable storage."""

    def rename(self, source: str, target: str) -> None:
        """Replace `target` by `source` atomically."""

    def remove(self, path: str) -> None:
        """Remove a file; one that is missing already is no error."""

    def discard(self, file: File) -> None:
        """Close a file whose names are removed; the room that it takes may be given back a little later."""

    def flush_directory(self, path: str) -> None:
        """Return once created, renamed and removed names in `path` are on stable storage."""

    def boot_id(self) -> str:
        """Return a name that changes when the machine loses what was not flushed, that is, at each boot."""


class LocalFile:
    """A `File` on the operating system's own file."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: str) -> LocalFile:
        """Open a file, or create it."""
        return cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))

    def write(self, buffers: Sequence[BytesLike]) -> int:
        return os.writev(self._descriptor, buffers)

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def flush(self) -> None:
        os.fdatasync(self._descriptor)

    def duplicate(self) -> File:
        return LocalFile(os.dup(self._descriptor))

    def close(self) -> None:
        # The number may soon belong to another file, which a late use of this one must not touch.
        descriptor, self._descriptor = self._descriptor, _NO_DESCRIPTOR
        os.close(descriptor)


def sync_file_system(path: str) -> None:
    """Put everything that was written to the file system of a directory on stable storage, where the system can."""
    if _SYNCFS is None:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _SYNCFS(descriptor)
    finally:
        os.close(descriptor)


# A hint to the disk, not a promise: a log that relies on a file flushes that file as well, and learns of errors by
# that.
_SYNCFS = getattr(ctypes.CDLL(None), "syncfs", None)


class LocalFileSystem:
    """The operating system's file system."""

    def open(self, path: str) -> File:
        return LocalFile.open(path)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directories(self, path: str) -> None:
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path) or os.curdir
        self.make_directories(parent)
        os.makedirs(path, exist_ok=True)
        self.flush_directory(parent)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        if os.path.lexists(path):
            os.remove(path)

    def discard(self, file: File) -> None:
        file.close()

    def flush_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def boot_id(self) -> str:
        try:
            return self.read_bytes(_BOOT_ID_PATH).decode().strip()
        except OSError:
            # Without a boot id every unclean start is taken for a loss of power: slower, never wrong.
            return ""


def write_fully(file: File, buffers: Sequence[BytesLike], size_bytes: int) -> None:
    """Append all of `buffers`, which are `size_bytes` together, however often the disk takes only a part."""
    if len(buffers) <= MAX_BUFFERS_PER_WRITE:
        written = file.write(buffers)
        if written < size_bytes:
            _write_rest(file, b"".join(buffers), written)
        return
    for start in range(0, len(buffers), MAX_BUFFERS_PER_WRITE):
        chunk = buffers[start : start + MAX_BUFFERS_PER_WRITE]
        write_fully(file, chunk, sum(map(len, chunk)))


def _write_rest(file: File, data: bytes, written: int) -> None:
    rest = memoryview(data)[written:]
    while rest:
        taken = file.write((rest,))
        if taken <= 0:
            raise OSError(f"the disk took none of the last {len(rest)} bytes of a write")
        rest = rest[taken:]


def replace_file(file_system: FileSystem, path: str, data: bytes) -> None:
    """Replace the file at `path` so that after the death of the process it holds either the old bytes or the new.

    Nothing is flushed: after a loss of power it may hold anything. After an OSError it holds the old bytes.
    """
    _write_temporary(file_system, path, data, flush=False)
    file_system.rename(path + _TEMPORARY, path)


def write_atomically(file_system: FileSystem, path: str, data: bytes) -> None:
    """Replace the file at `path` so that after any crash it holds either the old bytes or the new.

    FlushFailed means that it may hold either, and either may come back after a loss of power. After any other OSError
    it holds the old bytes.
    """
    _write_temporary(file_system, path, data, flush=True)
    try:
        file_system.rename(path + _TEMPORARY, path)
        file_system.flush_directory(os.path.dirname(path))
    except OSError as error:
        raise FlushFailed(*error.args) from error


def _write_temporary(file_system: FileSystem, path: str, data: bytes, *, flush: bool) -> None:
    file_system.remove(path + _TEMPORARY)
    file = file_system.open(path + _TEMPORARY)
    try:
        write_fully(file, (data,), len(data))
        if flush:
            file.flush()
    except OSError:
        # On a disk that is full, what was written of it would take the room that the next attempt needs.
        with suppress(OSError):
            file_system.remove(path + _TEMPORARY)
        raise
    finally:
        file.close()
