"""A simulated disk with what nodes need beyond a file system."""

import errno
import os
import posixpath

from eagleray.actors.storage.disk import Lock
from eagleray.broker.runtime.disk_watch import DiskSpace
from tests.support.faults import Operation
from tests.support.simulated_disk import NameChange, SimulatedDisk

TOTAL_BYTES = 10 * 1024**3


class NoLock:
    """There is one process at a time for what is locked on a simulated disk."""

    def release(self) -> None:
        pass


class NodeDisk(SimulatedDisk):
    """The port by which a node reaches what it keeps, in memory."""

    is_read_only = False

    def lock(self, path: str) -> Lock:
        self.make_directories(posixpath.dirname(path))
        return NoLock()

    def release_locks(self) -> None:
        """There are none."""

    def rename_directory(self, source: str, target: str) -> None:
        """Rename at once and for good: directories survive everything here."""
        assert source in self._directories, source
        assert target not in self._directories, target

        def moved(path: str) -> str:
            return target + path[len(source) :] if path == source or path.startswith(f"{source}/") else path

        self._perform(Operation.RENAME, target, lambda _: None)
        self._directories = {moved(each) for each in self._directories}
        self._names = {moved(path): inode for path, inode in self._names.items()}
        self._durable_names = {moved(path): inode for path, inode in self._durable_names.items()}
        self._pending_names = [
            NameChange(
                None if change.added is None else moved(change.added),
                change.inode,
                None if change.removed is None else moved(change.removed),
            )
            for change in self._pending_names
        ]

    def remove_tree(self, path: str) -> None:
        for name in sorted(name for name in self._names if name.startswith(f"{path}/")):
            self.remove(name)
        self._directories = {each for each in self._directories if each != path and not each.startswith(f"{path}/")}

    def begin_to_remove_tree(self, path: str) -> None:
        self.remove_tree(path)

    def move_tree(self, source: str, target: str) -> None:
        self._perform(Operation.RENAME, target, lambda _: self._move_tree(source, target))

    def _move_tree(self, source: str, target: str) -> None:
        """Move what is there, and what would be after a loss of power: the files keep what they have not flushed."""
        self._flush_names(source)

        def moved(path: str) -> str:
            return target + path[len(source) :] if path == source or path.startswith(f"{source}/") else path

        self._names = {moved(path): inode for path, inode in self._names.items()}
        self._durable_names = {moved(path): inode for path, inode in self._durable_names.items()}
        self._directories = {moved(path) for path in self._directories}

    def space(self, path: str) -> DiskSpace:
        """A disk without a limit is as large as its room when it gets one."""
        free_bytes = TOTAL_BYTES if self.free_bytes is None else self.free_bytes
        return DiskSpace(free_bytes, TOTAL_BYTES, self.is_read_only)

    def allocate(self, path: str, size_bytes: int) -> None:
        """Make a file that takes room and has nothing in it, for good."""
        if self.free_bytes is not None and self.free_bytes < size_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.open(path).close()
        self._flush_names(posixpath.dirname(path))
        self._names[path].allocated_bytes = size_bytes
        self._give_space_back(-size_bytes)

    def sync(self, path: str) -> None:
        """Nothing is promised, and nothing is done."""
