"""The disk of a machine as a node uses it: the file system, locks, and the removal of directories."""

from __future__ import annotations

import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Protocol
from weakref import WeakSet

from eagleray.broker.filesystem import File, FileSystem, LocalFileSystem, sync_file_system
from eagleray.broker.runtime.disk_watch import DiskSpace


class PartitionLocked(Exception):
    """Another process has the partition open: an earlier incarnation of its leader that has not ended yet."""


class Lock(Protocol):
    """A lock that one process at a time holds."""

    def release(self) -> None:
        """Release the lock."""


class DirectoryLock:
    """A lock that the operating system takes back when the process ends, however it ends."""

    def __init__(self, path: str) -> None:
        """Take the lock; raises PartitionLocked where another process has it."""
        self._is_held = False
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise PartitionLocked(f"{path} is locked by another process") from None
        self._is_held = True

    def release(self) -> None:
        """Give the lock back, if it was not given back before."""
        if self._is_held:
            self._is_held = False
            os.close(self._descriptor)


class Disk(FileSystem, Protocol):
    """The port by which a node reaches everything that it keeps, so that tests can put a simulated disk below it."""

    def lock(self, path: str) -> Lock:
        """Take a lock that ends with the process; raises PartitionLocked where another process holds it."""

    def release_locks(self) -> None:
        """Give back every lock that was taken here, as the operating system does where a process ends."""

    def rename_directory(self, source: str, target: str) -> None:
        """Give a directory another name beside the old one, on stable storage; there is none of that name yet."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it, as far as that can be done."""

    def begin_to_remove_tree(self, path: str) -> None:
        """Remove a directory as `remove_tree` does, soon: it may be large."""

    def move_tree(self, source: str, target: str) -> None:
        """Give a directory another path, with all that is in it; it is on stable storage when this returns."""

    def sync(self, path: str) -> None:
        """Put all that was written to the file system of a directory on stable storage: a hint, not a promise."""

    def space(self, path: str) -> DiskSpace:
        """Tell how much room the file system of a directory has."""

    def allocate(self, path: str, size_bytes: int) -> None:
        """Make a file that takes so much room; where there is not enough, none is made, and OSError is raised."""


class LocalDisk(LocalFileSystem):
    """The operating system's own disk."""

    def __init__(self) -> None:
        self._locks: WeakSet[DirectoryLock] = WeakSet()

    @cached_property
    def _remover(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix="remove-files")

    def discard(self, file: File) -> None:
        """Close a file in a thread: with the last handle of a large one its room is given back, which takes a while."""
        self._remover.submit(file.close)

    def lock(self, path: str) -> Lock:
        """Have the operating system lock a file."""
        lock = DirectoryLock(path)
        self._locks.add(lock)
        return lock

    def release_locks(self) -> None:
        """Unlock every file that is locked."""
        for lock in self._locks:
            lock.release()

    def rename_directory(self, source: str, target: str) -> None:
        """Rename a directory, and flush the one that it is in."""
        os.rename(source, target)
        self.flush_directory(os.path.dirname(target))

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        shutil.rmtree(path, ignore_errors=True)

    def begin_to_remove_tree(self, path: str) -> None:
        """Remove a directory in a thread."""
        self._remover.submit(shutil.rmtree, path, ignore_errors=True)

    def move_tree(self, source: str, target: str) -> None:
        """Rename a directory."""
        os.rename(source, target)
        self.flush_directory(os.path.dirname(target))
        self.flush_directory(os.path.dirname(source))

    def sync(self, path: str) -> None:
        """Have the file system of a directory written out."""
        sync_file_system(path)

    def space(self, path: str) -> DiskSpace:
        """Ask the operating system."""
        found = os.statvfs(path)
        is_read_only = bool(found.f_flag & os.ST_RDONLY)
        return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, is_read_only)

    def allocate(self, path: str, size_bytes: int) -> None:
        """Have the file system set blocks aside, which costs no writing where it can do that."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
        except OSError:
            os.remove(path)
            raise
        finally:
            os.close(descriptor)
