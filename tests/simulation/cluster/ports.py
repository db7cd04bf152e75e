"""What a simulated node has in place of the operating system and of Ray."""

import posixpath
import random
from collections.abc import Callable
from typing import Any

from eagleray.actors.disk import Lock
from eagleray.protocol.records import split_batches
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
        self._rotten: list[tuple[Inode, int, int]] = []

    def rot_closed(self, suffix: str, chance: random.Random) -> bool:
        """Flip a bit of a record in a closed segment, if there is one; what is open is still in memory."""
        directories: dict[str, list[str]] = {}
        for path in sorted(self._names):
            if path.endswith(".log") and suffix not in path:
                directories.setdefault(posixpath.dirname(path), []).append(path)
        closed = [path for paths in directories.values() for path in paths[:-1] if self._names[path].cached]
        if not closed:
            return False
        path = chance.choice(closed)
        inode = self._names[path]
        batch = chance.choice(split_batches(bytes(inode.cached), verify_crc=False))
        start = bytes(inode.cached).index(bytes(batch.view))
        position = start + chance.randrange(_CRC_POSITION, batch.header.size_bytes)
        self._rotten.append((inode, position, inode.cached[position]))
        self.rot(path, position, 1 << chance.randrange(8))
        return True

    @property
    def is_rotten(self) -> bool:
        """Whether what has rotted is still there."""
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
        for name in self._names:
            # What was removed and not flushed is back, with the directory that it was in.
            self.make_directories(posixpath.dirname(name))


class NoSupervisor:
    """Nobody starts or stops nodes in a simulated world but the world."""

    def actor_of(self, node_id: int) -> Any:
        raise LookupError(node_id)

    def start_nodes(self, nodes: Any) -> None:
        raise AssertionError("no topic has nodes of its own")

    def stop_nodes(self, node_ids: Any) -> None:
        raise AssertionError("no topic has nodes of its own")
