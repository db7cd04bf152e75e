"""What a simulated node has in place of the operating system and of Ray."""

import posixpath
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from eagleray.actors.disk import Lock
from eagleray.protocol.records import scan_batches, split_batches
from tests.support.faults import Fault
from tests.support.simulated_disk import Inode, SimulatedDisk

_CRC_POSITION = 17
"""From here on a checksum tells; the place of a batch comes before it."""


class NoLock:
    """There is one process at a time on a simulated machine."""

    def release(self) -> None:
        pass


class MachineDisk(SimulatedDisk):
    """A simulated disk with what nodes need beyond a file system."""

    def __init__(self) -> None:
        super().__init__()
        self.lies_about: Callable[[str], bool] | None = None
        self.has_lied = False
        self._has_lost_lies = False
        self._holes_looked_for = -1
        self._rotten: list[tuple[Inode, int, int]] = []

    def rot_closed(self, suffix: str, chance: random.Random) -> bool:
        """Flip a bit of a record in a closed segment, if there is one; what is open is still in memory."""
        closed = [path for path, _ in self._closed_segments() if suffix not in path and self._names[path].cached]
        if not closed or self._has_holes():
            return False
        path = chance.choice(closed)
        inode = self._names[path]
        batch = chance.choice(split_batches(bytes(inode.cached), verify_crc=False))
        start = bytes(inode.cached).index(bytes(batch.view))
        position = start + chance.randrange(_CRC_POSITION, batch.header.size_bytes)
        self._rotten.append((inode, position, inode.cached[position]))
        self.rot(path, position, 1 << chance.randrange(8))
        return True

    def _closed_segments(self) -> Iterator[tuple[str, str]]:
        """Every segment that is not the last of its log, and the one behind it."""
        directories: dict[str, list[str]] = {}
        for path in sorted(self._names):
            if path.endswith(".log"):
                directories.setdefault(posixpath.dirname(path), []).append(path)
        return (pair for paths in directories.values() for pair in pairwise(paths))

    @property
    def is_rotten(self) -> bool:
        """Whether there is damage at rest: bits that have flipped, or what was said to be flushed and was not."""
        return self._has_flipped_bits() or self._has_holes()

    def _has_holes(self) -> bool:
        """Whether a loss of power has taken something from the closed part of a log, and left its beginning or end."""
        if self._has_lost_lies and self._holes_looked_for != len(self.trace):
            self._holes_looked_for = len(self.trace)
            self._has_lost_lies = any(self._has_hole(*pair) for pair in self._closed_segments())
        return self._has_lost_lies

    def _has_hole(self, path: str, following: str) -> bool:
        scan = scan_batches(bytes(self._names[path].cached))
        base_offset, next_base_offset = map(_base_offset_of, (path, following))
        end = scan.batches[-1].header.next_offset if scan.batches else base_offset
        return scan.stopped_by is not None or end != next_base_offset

    def _has_flipped_bits(self) -> bool:
        if not self._rotten:
            return False
        there = set(map(id, self._names.values()))
        self._rotten = [
            (inode, position, byte)
            for inode, position, byte in self._rotten
            if id(inode) in there and position < len(inode.cached) and inode.cached[position] != byte
        ]
        return bool(self._rotten)

    def flush_is_a_lie(self, path: str) -> bool:
        """Whether this flush does nothing, and says that all is well."""
        is_lie = self.lies_about is not None and self.lies_about(path)
        self.has_lied = self.has_lied or is_lie
        return is_lie

    def tell_the_truth(self) -> None:
        """Flush from now on, and put on stable storage what was said to be there."""
        self.lies_about = None
        if self.has_lied:
            self.has_lied = False
            for inode in self._names.values():
                inode.flush()

    def mend_one(self, fault: Fault) -> None:
        """Have a fault no more, if it is still there."""
        self._faults = [each for each in self._faults if each is not fault]

    def heal(self) -> None:
        """Have no faults any more, of any kind."""
        self.mend()
        self.tell_the_truth()

    @contextmanager
    def outlived(self) -> Iterator[None]:
        """Let the files be read of a process that is dying; they are as it leaves them, and no fault strikes."""
        is_dead, self._is_process_dead = self._is_process_dead, False
        faults, self._faults = self._faults, []
        try:
            yield
        finally:
            self._is_process_dead, self._faults = is_dead, faults

    @property
    def is_process_dead(self) -> bool:
        return self._is_process_dead

    def lock(self, path: str) -> Lock:
        self.make_directories(posixpath.dirname(path))
        return NoLock()

    def remove_tree(self, path: str) -> None:
        for name in sorted(name for name in self._names if name.startswith(f"{path}/")):
            self.remove(name)
        self._directories = {each for each in self._directories if each != path and not each.startswith(f"{path}/")}

    def sync(self, path: str) -> None:
        """Nothing is promised, and nothing is done."""

    def lose_power(self, keeps: Any) -> None:
        super().lose_power(keeps)
        self._has_lost_lies = self._has_lost_lies or self.has_lied
        self._holes_looked_for = -1
        for name in self._names:
            # What was removed and not flushed is back, with the directory that it was in.
            self.make_directories(posixpath.dirname(name))


def _base_offset_of(path: str) -> int:
    return int(posixpath.basename(path).removesuffix(".log"))


class NoSupervisor:
    """Only the harness starts or stops nodes in a simulated world."""

    def actor_of(self, node_id: int) -> Any:
        raise LookupError(node_id)

    def start_nodes(self, nodes: Any) -> None:
        raise AssertionError("no topic has nodes of its own")

    def stop_nodes(self, node_ids: Any) -> None:
        raise AssertionError("no topic has nodes of its own")

    def plan_changed(self, plan: Any) -> None:
        pass
