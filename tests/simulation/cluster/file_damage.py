"""What a disk does to the files of a node that is down, and how a person puts them back."""

import posixpath
from collections.abc import Iterable, Mapping
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from eagleray.broker.generations import SECOND_SUFFIX
from eagleray.broker.log.checkpoint import Checkpoint
from eagleray.broker.log.names import BOOKMARK_FILE, CHECKPOINT_FILE
from eagleray.protocol.records import scan_batches
from tests.simulation.cluster.file_kinds import EPOCH_OF_BATCH, HELD, NOTED_END, OPEN_SEGMENT, FileKind, Way
from tests.simulation.cluster.ports import CRC_POSITION
from tests.simulation.schedule import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import SimulatedMachine

EPOCH_POSITION = 12
"""Where a batch says of which leader epoch it is."""

HIGH_BIT = 0x40

Contents = Mapping[str, bytes | None]
"""By path: what a disk gives back; None for a file that is not there."""


class Damage(NamedTuple):
    """What is about to happen to some files of a machine."""

    kind: FileKind
    way: Way
    after: Contents

    @property
    def folders(self) -> set[str]:
        """Where they are."""
        return {posixpath.dirname(path) for path in self.after}

    @property
    def is_held(self) -> bool:
        """Whether a person is needed."""
        return self.kind.ways[self.way] == HELD


class Held(NamedTuple):
    """Files that a node has to leave as they are, and what a person puts there."""

    before: dict[str, bytes]
    folders: dict[str, dict[str, bytes]]
    """What was in their folders, with the damage."""


class OlderCopies:
    """What files of a machine have been, for a disk that gives it back."""

    def __init__(self) -> None:
        self._older: dict[str, bytes] = {}

    def note(self, tree: Mapping[str, bytes]) -> None:
        """Remember what is there for the first time."""
        for path, content in tree.items():
            self._older.setdefault(path, content)

    def take(self, path: str, now: bytes) -> bytes | None:
        """Return another content than a file has now, if there is one, and begin to remember anew."""
        older = self._older.pop(path, now)
        return None if older == now else older


def plan_damage(
    machine: "SimulatedMachine", others: "Iterable[SimulatedMachine]", kind: FileKind, way: Way, chance: Random
) -> Damage | None:
    """Choose files of a kind, and what becomes of them; None where there are none that this can happen to."""
    tree = machine.disk.tree()
    groups = kind.groups(_paths(kind, tree))
    chance.shuffle(groups)
    for paths in groups:
        after = _after(machine, others, kind, way, paths, tree, chance)
        if after is not None and all(after[path] != tree[path] for path in paths):
            return Damage(kind, way, after)
    return None


def _paths(kind: FileKind, tree: Mapping[str, bytes]) -> list[str]:
    kept = [path for path in tree if "-delete/" not in path and "/damaged/" not in path and tree[path]]
    if kind.name in (OPEN_SEGMENT, EPOCH_OF_BATCH, NOTED_END):
        last = {posixpath.dirname(path): path for path in kept if kind.matches(path)}
        return [path for path in last.values() if len(scan_batches(tree[path]).batches) > 1]
    if kind.name != "closed segment":
        return kept
    logs = [path for path in kept if kind.matches(path)]
    # The first and the last have none beside them that says where they begin and end.
    return [
        path
        for (_, path), (_, following) in pairwise(pairwise(logs))
        if posixpath.dirname(path) == posixpath.dirname(following)
    ]


def _after(
    machine: "SimulatedMachine",
    others: "Iterable[SimulatedMachine]",
    kind: FileKind,
    way: Way,
    paths: list[str],
    tree: Mapping[str, bytes],
    chance: Random,
) -> Contents | None:
    match way:
        case Way.LOSS:
            return dict.fromkeys(paths)
        case Way.ROT if kind.name == EPOCH_OF_BATCH:
            return _with_rotten_epoch(paths[0], tree, chance)
        case Way.CUT if kind.name == NOTED_END:
            return _without_noted_end(paths[0], tree, chance)
        case Way.ROT:
            return {path: _rotten(tree[path], chance, is_log=kind.name == OPEN_SEGMENT) for path in paths}
        case Way.CUT:
            return {path: tree[path][: chance.randrange(len(tree[path]))] for path in paths}
        case Way.SWAP:
            return _swapped(machine, others, paths, tree, chance)
        case Way.OLD:
            older = {path: machine.older.take(path, tree[path]) for path in paths}
            return None if None in older.values() else older


def _rotten(content: bytes, chance: Random, *, is_log: bool) -> bytes:
    """Flip a bit; of a log one that a checksum covers, and not of its last batch."""
    start, end = 0, len(content)
    if is_log:
        batch = chance.choice(scan_batches(content).batches[:-1])
        start = content.index(bytes(batch.view))
        start, end = start + CRC_POSITION, start + len(batch.view)
    flipped = bytearray(content)
    flipped[chance.randrange(start, end)] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def _with_rotten_epoch(path: str, tree: Mapping[str, bytes], chance: Random) -> Contents:
    """Have a batch say that it is of an epoch that has never been. Even the last does not pass for torn then."""
    batch = chance.choice(scan_batches(tree[path]).batches)
    content = bytearray(tree[path])
    content[tree[path].index(bytes(batch.view)) + EPOCH_POSITION] ^= HIGH_BIT
    bookmark = f"{posixpath.dirname(path)}/{BOOKMARK_FILE}"
    return {path: bytes(content)} | ({bookmark: None} if bookmark in tree else {})


def _without_noted_end(path: str, tree: Mapping[str, bytes], chance: Random) -> Contents | None:
    """Have the last batches gone, as if they had never been written, and one before the end that is noted with them."""
    batches = scan_batches(tree[path]).batches
    noted_end = _noted_end(posixpath.dirname(path), tree)
    noted = [number for number, batch in enumerate(batches) if batch.header.base_offset < noted_end]
    if not noted:
        return None
    kept = batches[: chance.choice(noted)]
    return {path: b"".join(bytes(batch.view) for batch in kept)}


def _noted_end(folder: str, tree: Mapping[str, bytes]) -> int:
    """How far a log went by what lies beside it, and is read by the next process of the same boot."""
    checkpoints = [
        Checkpoint.decode(tree.get(f"{folder}/{CHECKPOINT_FILE}{each}", b"")) for each in ("", SECOND_SUFFIX)
    ]
    newest = max((each for each in checkpoints if each is not None), key=lambda each: each.sequence, default=None)
    return 0 if newest is None else max(newest.recovery_point, newest.high_watermark)


def _swapped(
    machine: "SimulatedMachine",
    others: "Iterable[SimulatedMachine]",
    paths: list[str],
    tree: Mapping[str, bytes],
    chance: Random,
) -> Contents | None:
    """What other files of the same name have, of another partition or, where each node has one, of another node."""
    if "/nodes/" in paths[0] or machine.is_metadata(paths[0]):
        rest = [each for each in others if each is not machine]
        if not rest:
            return None
        other = chance.choice(rest)
        elsewhere = other.disk.tree()
        wanted = {path: path.replace(f"/nodes/{machine.node_id}.", f"/nodes/{other.node_id}.") for path in paths}
    elif paths[0].endswith(".log"):
        # Nothing tells a batch at the same offset, and of the same epoch, of another partition from its own.
        elsewhere = tree
        folder = posixpath.dirname(paths[0])
        logs = [path for path in tree if path.startswith(folder) and path.endswith(".log") and path != paths[0]]
        wanted = {paths[0]: chance.choice(logs)}
    else:
        folder, elsewhere = posixpath.dirname(paths[0]), tree
        folders = {posixpath.dirname(path) for path in tree if path.startswith("/data/logs/")} - {folder}
        folders = {each for each in folders if not machine.is_metadata(f"{each}/") and "-delete" not in each}
        names = [posixpath.basename(path) for path in paths]
        found = sorted(each for each in folders if all(f"{each}/{name}" in tree for name in names))
        if not found:
            return None
        chosen = chance.choice(found)
        wanted = {path: f"{chosen}/{posixpath.basename(path)}" for path in paths}
    if not all(elsewhere.get(each) for each in wanted.values()):
        return None
    return {path: elsewhere[each] for path, each in wanted.items()}


def strike(machine: "SimulatedMachine", damage: Damage) -> None:
    """Do it, while the process is down. What its node has to leave as it is must not change by a loss of power."""
    disk = machine.disk
    tree = disk.tree()
    for folder in damage.folders:
        disk.write_back(folder)
    for path, content in damage.after.items():
        disk.put(path, content)
    if damage.is_held or machine.is_alone:
        before = {path: tree[path] for path in damage.after}
        if machine.held is not None:
            before |= machine.held.before
        machine.held = Held(
            before, {posixpath.dirname(path): _files_in(machine, posixpath.dirname(path)) for path in before}
        )


def put_back(machine: "SimulatedMachine") -> None:
    """Have a person put back, while the process is down, what was there before. Nothing has touched it."""
    held, machine.held = machine.held, None
    if held is None:
        return
    for folder, files in held.folders.items():
        if machine.directories.was_deleted(folder):
            continue
        if folder != "/data/nodes" and _files_in(machine, folder) != files:
            raise Violation(f"node {machine.node_id} has touched {folder}, which it cannot know")
    for path, content in held.before.items():
        if not machine.disk.exists(posixpath.dirname(path)):
            # Its topic was deleted meanwhile.
            continue
        if machine.disk.tree().get(path) != held.folders[posixpath.dirname(path)].get(path):
            raise Violation(f"node {machine.node_id} has changed {path}, which it cannot know")
        machine.disk.put(path, content)


def put_back_alone(machine: "SimulatedMachine") -> None:
    """Have a person put back what the disk has changed: all of it where the node has not started, otherwise what the
    node has not written anew since.
    """
    held, machine.held = machine.held, None
    tree = machine.disk.tree()
    for path, content in held.before.items() if held is not None else ():
        if not machine.disk.exists(posixpath.dirname(path)):
            # Its topic was deleted meanwhile.
            continue
        now, damaged = tree.get(path), held.folders[posixpath.dirname(path)].get(path)
        if machine.is_refused or now == damaged:
            machine.disk.put(path, content)
        elif path.endswith(".log") and now is not None and damaged and now.startswith(damaged):
            # A bookmark spared the node the damaged batch, and it has appended more.
            machine.disk.put(path, content + now[len(damaged) :])


def _files_in(machine: "SimulatedMachine", folder: str) -> dict[str, bytes]:
    return {path: content for path, content in machine.disk.tree().items() if posixpath.dirname(path) == folder}
