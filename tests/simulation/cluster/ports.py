"""What a simulated node has in place of the operating system and of Ray."""

import posixpath
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from eagleray.protocol.records import scan_batches, split_batches
from tests.support.faults import Fault
from tests.support.node_disk import NodeDisk
from tests.support.simulated_disk import Inode

if TYPE_CHECKING:
    from tests.simulation.cluster.passing_watch import DirectoryWatch

CRC_POSITION = 17
"""From here on a checksum tells; the place of a batch comes before it."""


class MachineDisk(NodeDisk):
    """The disk of a machine, which rots and lies."""

    def __init__(self, directories: "DirectoryWatch") -> None:
        super().__init__()
        self._directories_watch = directories
        self.lies_about: Callable[[str], bool] | None = None
        self.has_lied = False
        self._may_have_holes = False
        self._holes_looked_for = -1
        self._rotten: set[str] = set()
        self._rot_looked_for = -1

    def rot_closed(self, suffix: str, chance: random.Random) -> bool:
        """Flip a bit of a record in a closed segment, if there is one; what is open is still in memory."""
        closed = [path for path, _ in self._closed_segments() if suffix not in path and self._names[path].cached]
        if not closed or self._has_holes():
            return False
        path = chance.choice(closed)
        inode = self._names[path]
        batch = chance.choice(split_batches(bytes(inode.cached), verify_crc=False))
        start = bytes(inode.cached).index(bytes(batch.view))
        position = start + chance.randrange(CRC_POSITION, batch.header.size_bytes)
        self._rotten.add(path)
        self.rot(path, position, 1 << chance.randrange(8))
        return True

    def put(self, path: str, content: bytes | None) -> None:
        """Have something else in a file, at rest, or no such file."""
        self._names.pop(path, None)
        self._durable_names.pop(path, None)
        self._pending_names = [change for change in self._pending_names if path not in change.paths]
        # Of a segment the end may be gone, or all of it.
        self._may_have_holes = self._may_have_holes or path.endswith(".log")
        self._holes_looked_for = -1
        if content is not None:
            inode = self._names[path] = self._durable_names[path] = Inode(self._sector_bytes)
            inode.append(content)
            inode.flush()
            if path.endswith(".log"):
                self._rotten.add(path)

    def tell_of_no_rot(self) -> None:
        """Take what is there for what was written: it is another's, or of earlier, and whole in itself."""
        self._rotten.clear()
        self._may_have_holes = False

    def rot_open(self, suffix: str, chance: random.Random) -> bool:
        """Flip a bit of a record in the last segment of a log that no process has open, but not in its last batch.

        That one may pass for a torn write. Any other has whole ones behind it, which no torn write has.
        """
        last = {posixpath.dirname(path): path for path in sorted(self._names) if path.endswith(".log")}
        found = [
            (path, batch)
            for path in last.values()
            if suffix not in path and not self._is_put_aside(path)
            for batch in scan_batches(bytes(self._names[path].cached)).batches[:-1]
        ]
        if not found or self._has_holes():
            return False
        path, batch = chance.choice(found)
        start = bytes(self._names[path].cached).index(bytes(batch.view))
        position = start + chance.randrange(CRC_POSITION, batch.header.size_bytes)
        self._rotten.add(path)
        self.rot(path, position, 1 << chance.randrange(8))
        return True

    @staticmethod
    def _is_put_aside(path: str) -> bool:
        """Whether a file is of a damaged log that waits until its replica is copied anew."""
        return "/damaged/" in path

    def _closed_segments(self) -> Iterator[tuple[str, str]]:
        """Every segment that is not the last of its log, and the one behind it."""
        directories: dict[str, list[str]] = {}
        for path in sorted(self._names):
            if path.endswith(".log") and not self._is_put_aside(path):
                directories.setdefault(posixpath.dirname(path), []).append(path)
        return (pair for paths in directories.values() for pair in pairwise(paths))

    @property
    def is_rotten(self) -> bool:
        """Whether there is damage at rest: bits that have flipped, or what was said to be flushed and was not."""
        return self._has_flipped_bits() or self._has_holes()

    def _has_holes(self) -> bool:
        """Whether a loss of power has taken something from the closed part of a log, and left its beginning or end."""
        if self._may_have_holes and self._holes_looked_for != len(self.trace):
            self._holes_looked_for = len(self.trace)
            self._may_have_holes = any(self._has_hole(*pair) for pair in self._closed_segments())
        return self._may_have_holes

    def _has_hole(self, path: str, following: str) -> bool:
        scan = scan_batches(bytes(self._names[path].cached))
        end, next_base_offset = map(_base_offset_of, (path, following))
        for batch in scan.batches:
            if batch.header.base_offset < end:
                # Its offset was lost, and the rest of it was not: no checksum covers where a batch lies.
                return True
            end = batch.header.next_offset
        return scan.stopped_by is not None or end != next_base_offset

    def _has_flipped_bits(self) -> bool:
        """Whether a file whose bits have flipped is still damaged; a process that starts may have copied it."""
        if self._rotten and self._rot_looked_for != len(self.trace):
            self._rot_looked_for = len(self.trace)
            there = {path: self._names[path] for path in self._rotten if path in self._names}
            scans = {path: scan_batches(bytes(inode.cached)) for path, inode in there.items()}
            self._rotten = {path for path, scan in scans.items() if scan.stopped_by is not None}
        return bool(self._rotten)

    def rename_directory(self, source: str, target: str) -> None:
        super().rename_directory(source, target)
        self._directories_watch.renamed(source, target)

    def move_tree(self, source: str, target: str) -> None:
        super().move_tree(source, target)
        self._directories_watch.renamed(source, target)

    def remove_tree(self, path: str) -> None:
        super().remove_tree(path)
        self._directories_watch.removed(path)

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

    def give_room(self) -> None:
        """Have as much room as anyone wants."""
        self.free_bytes = None

    def heal(self) -> None:
        """Have no faults any more, of any kind."""
        self.mend()
        self.give_room()
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

    def lose_power(self, keeps: Any) -> None:
        super().lose_power(keeps)
        self._may_have_holes = self._may_have_holes or self.has_lied
        self._holes_looked_for = -1
        for name in self._names:
            # What was removed and not flushed is back, with the directory that it was in.
            self.make_directories(posixpath.dirname(name))


def _base_offset_of(path: str) -> int:
    return int(posixpath.basename(path).removesuffix(".log"))
