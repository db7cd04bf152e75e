"""A file system that reads what is there and keeps every change in memory.

A log that is opened on it goes through the same recovery as in a node, and shows what a node would do; no byte, no name
and no time of a file on the disk changes. Files below are opened for reading alone, so a disk that is mounted read-only
will do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from eagleray.broker.filesystem import File, LocalFileSystem
from eagleray.protocol.records import BytesLike

_NO_DESCRIPTOR = -1


class _Content:
    """One file: the beginning of a file of the disk, if there is one, and what was appended behind it."""

    __slots__ = ("added", "kept_bytes", "path_below")

    def __init__(self, path_below: str | None) -> None:
        self.path_below = path_below
        self.kept_bytes = 0 if path_below is None else os.stat(path_below).st_size
        self.added = bytearray()

    @property
    def size_bytes(self) -> int:
        return self.kept_bytes + len(self.added)

    def truncate(self, size_bytes: int) -> None:
        missing_bytes = size_bytes - self.size_bytes
        if missing_bytes > 0:
            self.added += bytes(missing_bytes)
        elif size_bytes < self.kept_bytes:
            self.kept_bytes = size_bytes
            self.added.clear()
        else:
            del self.added[size_bytes - self.kept_bytes :]


class _OverlayFile:
    """A `File` of an overlay."""

    __slots__ = ("_content", "_descriptor")

    def __init__(self, content: _Content) -> None:
        self._content = content
        path = content.path_below
        self._descriptor = _NO_DESCRIPTOR if path is None else os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def write(self, buffers: Sequence[BytesLike]) -> int:
        before = len(self._content.added)
        for buffer in buffers:
            self._content.added += buffer
        return len(self._content.added) - before

    def read(self, position: int, length: int) -> bytes:
        kept_bytes, added = self._content.kept_bytes, self._content.added
        data = b""
        if position < kept_bytes:
            data = os.pread(self._descriptor, min(length, kept_bytes - position), position)
            position, length = kept_bytes, length - len(data)
        start = position - kept_bytes
        return data + added[start : start + length] if length and start < len(added) else data

    def size(self) -> int:
        return self._content.size_bytes

    def truncate(self, size: int) -> None:
        self._content.truncate(size)

    def flush(self) -> None:
        """There is nothing to flush."""

    def duplicate(self) -> File:
        return _OverlayFile(self._content)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, _NO_DESCRIPTOR
        if descriptor != _NO_DESCRIPTOR:
            os.close(descriptor)


class Overlay(LocalFileSystem):
    """The operating system's file system, as it would be after some changes.

    Owns: the changes, in memory. Nothing of them reaches the disk.
    """

    def __init__(self) -> None:
        self._contents: dict[str, _Content | None] = {}
        self._directories: set[str] = set()

    def open(self, path: str) -> File:
        """Open a file; what is written to it stays in memory."""
        content = self._contents.get(path)
        if content is None:
            is_below = path not in self._contents and super().exists(path)
            content = self._contents[path] = _Content(path if is_below else None)
        return _OverlayFile(content)

    def read_bytes(self, path: str) -> bytes:
        """Return a whole file, as it would be."""
        if path not in self._contents:
            return super().read_bytes(path)
        content = self._contents[path]
        if content is None:
            raise FileNotFoundError(path)
        file = _OverlayFile(content)
        try:
            return file.read(0, content.size_bytes)
        finally:
            file.close()

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory would be there."""
        if path in self._contents:
            return self._contents[path] is not None
        return path in self._directories or super().exists(path)

    def list_directory(self, path: str) -> list[str]:
        """Return the names that would be in a directory."""
        names = {*super().list_directory(path)} if super().exists(path) else set()
        for each, content in self._contents.items():
            folder, _, name = each.rpartition("/")
            if folder == path:
                names.discard(name) if content is None else names.add(name)
        return sorted(names)

    def make_directories(self, path: str) -> None:
        """Note that a directory would be there."""
        if not super().exists(path):
            self._directories.add(path)

    def rename(self, source: str, target: str) -> None:
        """Give what is below another name, here alone."""
        self.open(source).close()
        self._contents[target] = self._contents[source]
        self._contents[source] = None

    def remove(self, path: str) -> None:
        """Note that a file would be gone."""
        if self.exists(path):
            self._contents[path] = None

    def flush_directory(self, path: str) -> None:
        """There is nothing to flush."""
