"""A file system that can be made to hang: every write to it waits in the kernel until it is let go."""

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

_SIZE_BYTES = 128 * 1024 * 1024


class HangingDisk:
    """A file system in a file, which `fsfreeze` freezes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_frozen = False

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "--freeze", self.path], check=True)
        self.is_frozen = True

    def thaw(self) -> None:
        if self.is_frozen:
            subprocess.run(["fsfreeze", "--unfreeze", self.path], check=True)
            self.is_frozen = False


@contextmanager
def hanging_disk(path: Path):
    """Mount a file system at a directory until the end of the block, or skip where that is not possible."""
    if not all(map(shutil.which, ("mkfs.ext4", "fsfreeze"))):
        pytest.skip("mkfs.ext4 or fsfreeze is missing")
    path.mkdir(parents=True)
    image = path.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(_SIZE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, path], check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted from a file here")
    disk = HangingDisk(path)
    try:
        yield disk
    finally:
        disk.thaw()
        subprocess.run(["umount", "--lazy", path], check=True)
