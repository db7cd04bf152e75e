"""A file system in memory that forgets, tears and fails as real ones do.

What is written lies in a page cache, which the death of a process leaves alone. The loss of power takes from it what
was not flushed: any sectors of any writes, and any names that were created, renamed or removed.
"""

import contextlib
import copy
import errno
import functools
import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import msgspec

from eagleray.protocol.records import BytesLike
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled, Step

MAX_BUFFERS_PER_WRITE = 1024

_folder = functools.lru_cache(4096)(posixpath.dirname)

Keeps = Callable[[], bool]
"""Decides, sector by sector and name by name, what survives of that which was not flushed."""


class Inode:
    """The contents of a file: as processes see them, and as they would be after a loss of power."""

    def __init__(self, sector_bytes: int) -> None:
        self._sector_bytes = sector_bytes
        self._pending: list[tuple[int, bytes] | int] = []
        self.cached = bytearray()
        self.durable = bytearray()
        self.allocated_bytes = 0
        """Room that it takes beside its contents."""

    @property
    def size_bytes(self) -> int:
        return len(self.cached) + self.allocated_bytes

    def __deepcopy__(self, _: object) -> "Inode":
        # What is pending never changes.
        other = Inode(self._sector_bytes)
        other._pending = [*self._pending]
        other.cached, other.durable = bytearray(self.cached), bytearray(self.durable)
        other.allocated_bytes = self.allocated_bytes
        return other

    def append(self, data: bytes) -> None:
        self._pending.append((len(self.cached), data))
        self.cached += data

    def resize(self, size_bytes: int) -> None:
        self._pending.append(size_bytes)
        resize(self.cached, size_bytes)

    def flush(self) -> None:
        """Make durable what was written since the last attempt, whether that one succeeded or not."""
        for change in self._pending:
            if isinstance(change, int):
                resize(self.durable, change)
            else:
                place(self.durable, *change)
        self._pending.clear()

    def settle(self, keeps: Keeps) -> None:
        """Make durable only what `keeps` says; the rest is never written any more."""
        for change in self._pending:
            if isinstance(change, int):
                if keeps():
                    resize(self.durable, change)
            else:
                for start, piece in self._sectors(*change):
                    if keeps():
                        place(self.durable, start, piece)
        if self._pending and len(self.durable) < len(self.cached) and keeps():
            # The new length was written, what belongs there was not.
            resize(self.durable, len(self.cached))
        self._pending.clear()

    def _sectors(self, position: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        end = position + len(data)
        while position < end:
            sector_end = (position // self._sector_bytes + 1) * self._sector_bytes
            size_bytes = min(sector_end, end) - position
            piece, data = data[:size_bytes], data[size_bytes:]
            yield position, piece
            position += size_bytes


class NameChange(msgspec.Struct, frozen=True):
    """A name that was added, taken away or, with both, renamed."""

    added: str | None = None
    inode: Inode | None = None
    removed: str | None = None

    @property
    def paths(self) -> set[str]:
        return {path for path in (self.added, self.removed) if path is not None}

    @property
    def folder(self) -> str:
        """Where it happened: the model knows no moves between directories."""
        return _folder(self.added or self.removed or "")

    def __deepcopy__(self, memo: dict[int, object]) -> "NameChange":
        return NameChange(self.added, copy.deepcopy(self.inode, memo), self.removed)

    def apply(self, names: dict[str, Inode]) -> None:
        if self.removed is not None:
            names.pop(self.removed, None)
        if self.added is not None and self.inode is not None:
            names[self.added] = self.inode


class SimulatedDisk:
    """A `FileSystem` that keeps what was written apart from what was flushed, and fails as it is told to.

    Directories survive everything, as the port promises. Space is unlimited unless `free_bytes` is set, which falls
    with what is written and rises with what is cut or removed. `trace` has every operation that changes something, so
    that a test can repeat a workload and break each of them in turn.
    """

    def __init__(self, *, sector_bytes: int = 32) -> None:
        self._sector_bytes = sector_bytes
        self._boot = 0
        self._process = 0
        self._is_process_dead = False
        self._directories = {"/"}
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._pending_names: list[NameChange] = []
        self._faults: list[Fault] = []
        self.free_bytes: int | None = None
        self.keeps_of_failed_flush: Keeps = lambda: False
        self.trace: list[Step] = []

    # What the test does to it

    @contextlib.contextmanager
    def injected(self, fault: Fault) -> Iterator[Fault]:
        """Have the fault until the end of the block, by which it has to have fired."""
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)
        assert fault.has_fired, "the workload never reached the operation with the fault"

    @contextlib.contextmanager
    def possibly(self, fault: Fault) -> Iterator[Fault]:
        """Have the fault until the end of the block, for a test that goes on either way."""
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)

    def break_once(self, fault: Fault) -> None:
        """Have the fault whenever it strikes, for a world that goes on either way and counts what it sees of it."""
        self._faults = [*(other for other in self._faults if not other.is_spent), fault]

    def mend(self) -> None:
        """Have no faults any more."""
        self._faults = []

    def crash_process(self) -> None:
        """Let the process die, unless a fault killed it already, and another begin: all that was written is there."""
        self._process += 1
        self._is_process_dead = False

    def lose_power(self, keeps: Keeps) -> None:
        """Let the machine die and boot again, with what was flushed and what `keeps` decides of the rest."""
        lost: set[str] = set()
        for change in self._pending_names:
            # What happened to one name happened in order: nothing survives that came after something lost.
            if lost.isdisjoint(change.paths) and keeps():
                change.apply(self._durable_names)
            else:
                lost |= change.paths
        self._pending_names.clear()
        self._names = dict(self._durable_names)
        for inode in self._names.values():
            inode.settle(keeps)
            inode.cached = bytearray(inode.durable)
        self._boot += 1
        self.crash_process()

    def write_back(self, directory: str) -> None:
        """Bring all files of a directory to rest, as the kernel does after a while."""
        self._flush_names(directory)
        for path, inode in self._names.items():
            if _folder(path) == directory:
                inode.flush()

    def rot(self, path: str, position: int, mask: int) -> None:
        """Flip bits of a byte that was at rest."""
        inode = self._names[path]
        inode.cached[position] ^= mask
        if position < len(inode.durable):
            inode.durable[position] ^= mask

    def copy(self) -> Self:
        """Return a disk of the same contents, to try one thing after another from the same beginning."""
        # The steps never change, and there are many.
        return copy.deepcopy(self, {id(self.trace): [*self.trace]})

    def tree(self) -> dict[str, bytes]:
        """Return every file as processes see it."""
        return {path: bytes(inode.cached) for path, inode in sorted(self._names.items())}

    # What the log asks of it

    def open(self, path: str) -> "SimulatedFile":
        self._require_directory(_folder(path))
        if path not in self._names:
            inode = Inode(self._sector_bytes)
            self._perform(Operation.CREATE, path, lambda _: self._change(NameChange(path, inode)))
        return SimulatedFile(self, path, self._names[path])

    def read_bytes(self, path: str) -> bytes:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        with contextlib.closing(self.open(path)) as file:
            return file.read(0, file.size())

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def list_directory(self, path: str) -> list[str]:
        self._require_directory(path)
        prefix = path if path.endswith("/") else f"{path}/"
        start = len(prefix)
        inside = [each[start:] for each in (*self._names, *self._directories) if each.startswith(prefix)]
        return sorted(name for name in inside if name and "/" not in name)

    def make_directories(self, path: str) -> None:
        while path not in self._directories:
            self._directories.add(path)
            path = posixpath.dirname(path)

    def rename(self, source: str, target: str) -> None:
        assert posixpath.dirname(source) == posixpath.dirname(target), "the model knows no moves between directories"
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        change = NameChange(target, self._names[source], source)
        self._perform(Operation.RENAME, target, lambda _: self._change(change))

    def discard(self, file: "SimulatedFile") -> None:
        file.close()

    def remove(self, path: str) -> None:
        if path in self._names:
            self._perform(Operation.REMOVE, path, lambda _: self._change(NameChange(removed=path)))

    def flush_directory(self, path: str) -> None:
        self._require_directory(path)
        self._perform(Operation.FLUSH_DIRECTORY, path, lambda _: self._flush_names(path))

    def flush_is_a_lie(self, path: str) -> bool:
        """Whether a flush does nothing, and says that all is well; this disk is honest."""
        return False

    def boot_id(self) -> str:
        return f"boot-{self._boot}"

    # How it does it

    def _perform(self, operation: Operation, path: str, effect: Callable[[int], None], size_bytes: int = 1) -> int:
        """Let as much happen as the faults and the space allow; return how much that was."""
        if self._is_process_dead:
            raise ProcessKilled
        step = Step(operation, path, size_bytes)
        if operation is not Operation.READ:
            self.trace.append(step)
        struck = [fault for fault in self._faults if fault.strikes(step)] if self._faults else ()
        done_bytes = min(size_bytes, *(fault.done_bytes for fault in struck)) if struck else size_bytes
        if operation is Operation.WRITE:
            done_bytes = self._take_space(done_bytes, path)
        if done_bytes:
            effect(done_bytes)
        for fault in struck:
            if fault.outcome is Outcome.KILL:
                self._is_process_dead = True
                raise ProcessKilled
            if fault.outcome is Outcome.FAIL:
                raise fault.error(path)
        return done_bytes

    def _take_space(self, size_bytes: int, path: str) -> int:
        if self.free_bytes is None:
            return size_bytes
        taken_bytes = min(size_bytes, self.free_bytes)
        if size_bytes and not taken_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.free_bytes -= taken_bytes
        return taken_bytes

    def _give_space_back(self, size_bytes: int) -> None:
        if self.free_bytes is not None:
            self.free_bytes += size_bytes

    def _change(self, change: NameChange) -> None:
        gone = [inode for path in change.paths if (inode := self._names.get(path)) is not None]
        change.apply(self._names)
        self._pending_names.append(change)
        if self.free_bytes is not None and gone:
            kept = {id(inode) for inode in self._names.values()}
            self._give_space_back(sum(inode.size_bytes for inode in gone if id(inode) not in kept))

    def _flush_names(self, directory: str) -> None:
        elsewhere: list[NameChange] = []
        for change in self._pending_names:
            if change.folder == directory:
                change.apply(self._durable_names)
            else:
                elsewhere.append(change)
        self._pending_names = elsewhere

    def _require_directory(self, path: str) -> None:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


class SimulatedFile:
    """A `File` of a simulated disk; it follows its inode when its name goes, and dies with its process."""

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._process = disk._process
        self._is_open = True

    def write(self, buffers: Sequence[BytesLike]) -> int:
        self._require_open()
        if len(buffers) > MAX_BUFFERS_PER_WRITE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self._path)
        data = b"".join(buffers)
        return self._disk._perform(
            Operation.WRITE, self._path, lambda taken: self._inode.append(data[:taken]), len(data)
        )

    def read(self, position: int, length: int) -> bytes:
        self._require_open()
        self._disk._perform(Operation.READ, self._path, lambda _: None)
        return bytes(self._inode.cached[position : position + length])

    def size(self) -> int:
        self._require_open()
        return len(self._inode.cached)

    def truncate(self, size: int) -> None:
        self._require_open()
        self._disk._perform(Operation.TRUNCATE, self._path, lambda _: self._resize(size))

    def _resize(self, size: int) -> None:
        self._disk._give_space_back(max(len(self._inode.cached) - size, 0))
        self._inode.resize(size)

    def flush(self) -> None:
        self._require_open()
        if self._disk.flush_is_a_lie(self._path):
            return
        try:
            self._disk._perform(Operation.FLUSH, self._path, lambda _: self._inode.flush())
        except OSError:
            # The kernel reports the error once and then takes the pages for clean, whatever became of them.
            self._inode.settle(self._disk.keeps_of_failed_flush)
            raise

    def duplicate(self) -> "SimulatedFile":
        self._require_open()
        return SimulatedFile(self._disk, self._path, self._inode)

    def close(self) -> None:
        self._require_open()
        self._is_open = False

    def _require_open(self) -> None:
        if not self._is_open or self._process != self._disk._process:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)


def resize(content: bytearray, size_bytes: int) -> None:
    """Cut the content, or lengthen it with zeros."""
    del content[size_bytes:]
    content += bytes(size_bytes - len(content))


def place(content: bytearray, position: int, data: bytes) -> None:
    """Write over the content at a position; what lies between its end and there becomes zeros."""
    if len(content) < position:
        resize(content, position)
    content[position : position + len(data)] = data
