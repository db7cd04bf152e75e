"""A machine's disk as a node uses it: the file system, the locks on it, and how whole directories go."""

from __future__ import annotations

import fcntl
import os
import shutil
from typing import Protocol

from eagleray.broker.filesystem import FileSystem, LocalFileSystem, sync_file_system


class PartitionLocked(Exception):
    """Another process has the partition open: an earlier incarnation of its leader that has not ended yet."""


class Lock(Protocol):
    """Something that one process at a time has."""

    def release(self) -> None:
        """Give the lock back."""


class DirectoryLock:
    """A lock that the operating system takes back when the process ends, however it ends."""

    def __init__(self, path: str) -> None:
        """Take the lock; raises PartitionLocked where somebody has it."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise PartitionLocked(f"{path} is locked by another process") from None

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._descriptor)


class Disk(FileSystem, Protocol):
    """The port by which a node reaches everything that it keeps, so that tests can put a simulated disk below it."""

    def lock(self, path: str) -> Lock:
        """Take a lock that ends with the process; raises PartitionLocked where somebody has it."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it, as far as that can be done."""

    def sync(self, path: str) -> None:
        """Put all that was written to the file system of a directory on stable storage: a hint, not a promise."""


class LocalDisk(LocalFileSystem):
    """The operating system's own."""

    def lock(self, path: str) -> Lock:
        """Have the operating system lock a file."""
        return DirectoryLock(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        shutil.rmtree(path, ignore_errors=True)

    def sync(self, path: str) -> None:
        """Have the file system of a directory written out."""
        sync_file_system(path)
