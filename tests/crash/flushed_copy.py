"""A real disk that remembers what was flushed, and makes the copy that a loss of power leaves.

Of a file that is its content as of its last flush, of a directory its names as of the flush of the directory. Whatever
came behind that is lost, though the kernel has it and the process goes on. It is the hardest loss of power that
promises allow; `tests/support/simulated_disk.py` has those between.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from eagleray.actors.storage.disk import LocalDisk
from eagleray.broker.filesystem import LocalFile
from eagleray.protocol.records import BytesLike


class KeptFile:
    """A file, by whatever names it has."""

    def __init__(self) -> None:
        self.flushed: bytes | None = None


class KeptDirectory:
    """A directory, by whatever name it has."""

    def __init__(self) -> None:
        self.flushed: dict[str, KeptFile | KeptDirectory] = {}


class RememberingFile(LocalFile):
    """A real file, whose content is remembered when it is flushed."""

    __slots__ = ("_kept", "_may_flush")

    def __init__(self, descriptor: int, kept: KeptFile, may_flush: Callable[[], bool]) -> None:
        super().__init__(descriptor)
        self._kept = kept
        self._may_flush = may_flush

    def flush(self) -> None:
        super().flush()
        if self._may_flush():
            self._kept.flushed = self.read(0, self.size())

    def duplicate(self) -> "RememberingFile":
        return RememberingFile(os.dup(self._descriptor), self._kept, self._may_flush)

    def write(self, buffers: Sequence[BytesLike]) -> int:
        return super().write(buffers)


class RememberingDisk(LocalDisk):
    """A real disk below one directory, which is on stable storage itself."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = KeptDirectory()
        self._known: dict[int, KeptFile | KeptDirectory] = {os.stat(root).st_ino: self._root}
        self.lies = False
        """Whether it says that it has flushed batches, and does not."""

    def open(self, path: str) -> RememberingFile:
        is_new = not os.path.exists(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        number = os.fstat(descriptor).st_ino
        # The number of a file that is gone may be given to another.
        kept = KeptFile() if is_new else self._known[number]
        assert isinstance(kept, KeptFile)
        self._known[number] = kept
        return RememberingFile(descriptor, kept, lambda: not (self.lies and path.endswith(".log")))

    def make_directories(self, path: str) -> None:
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path)
        self.make_directories(parent)
        os.mkdir(path)
        self._known[os.stat(path).st_ino] = KeptDirectory()
        self.flush_directory(parent)

    def flush_directory(self, path: str) -> None:
        super().flush_directory(path)
        directory = self._known[os.stat(path).st_ino]
        assert isinstance(directory, KeptDirectory)
        with os.scandir(path) as entries:
            found = {entry.name: entry.inode() for entry in entries}
        # Locks and the like are not written through this port, and say nothing.
        directory.flushed = {name: self._known[number] for name, number in found.items() if number in self._known}

    def copy_flushed(self, target: Path) -> None:
        """Make what a loss of power at this moment leaves."""
        self._copy(self._root, target)

    def _copy(self, directory: KeptDirectory, target: Path) -> None:
        target.mkdir()
        for name, kept in directory.flushed.items():
            if isinstance(kept, KeptDirectory):
                self._copy(kept, target / name)
            else:
                # A name that was flushed before its file is there, with nothing in it.
                (target / name).write_bytes(kept.flushed or b"")


class OtherBoot(LocalDisk):
    """The disk of a machine that has booted since."""

    def boot_id(self) -> str:
        return "another boot"
