"""A small file system of its own, which a test may fill."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_CHUNK_BYTES = 64 * 1024


class SmallFileSystem:
    """A file system in memory, with a file that takes whatever room is left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Take all of the room, to the last byte."""
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(_CHUNK_BYTES))
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1))

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize


@contextmanager
def small_file_system(path: Path, size_bytes: int) -> Iterator[SmallFileSystem]:
    """Mount a file system at a directory until the end of the block; only root may do that."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "eagleray-test", path], check=True)
    try:
        yield SmallFileSystem(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
        path.rmdir()
