"""Nodes with one rule about their disks broken, and what each is caught by.

The disks of these worlds do little else than what the rule is about, so that a few worlds are enough.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple
from unittest import mock

import msgspec

from eagleray.actors.process.node import Node
from eagleray.actors.storage.data_directory import DataDirectory
from eagleray.actors.storage.log_directories import LogDirectories
from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker import generations
from eagleray.broker.controller.placement import first_kept_by
from eagleray.broker.generations import Generations, read_generations
from eagleray.broker.log import opening
from eagleray.broker.log.settling import Settling, Stop
from eagleray.broker.log.torn_or_rotten import ScanEnd, Verdict, judge
from eagleray.broker.metadata.directories import DirectoryFate, fate_of
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import Push
from tests.simulation.cluster import faults, file_damage
from tests.simulation.cluster.fault_plan import FaultPlan
from tests.simulation.cluster.file_kinds import CELLS, EPOCH_OF_BATCH, NOTED_END, OPEN_SEGMENT, FileKind
from tests.simulation.cluster.harness import simulate_alone, simulate_disks, simulate_topics
from tests.simulation.cluster.places import PASSING
from tests.simulation.quorum.quorum_harness import simulate_quorum
from tests.simulation.replacing import replacing

Mutation = Callable[[], AbstractContextManager[Any]]


class Rule(NamedTuple):
    """A mutation, the world that has to catch it, and what the world says then."""

    breaks: Mutation
    simulate: Callable[[int], object]
    reason: str
    """A regular expression."""

    world: Mutation = contextlib.nullcontext
    """What else the world is like, with the mutation and without."""

    first_seed: int = 0
    """Where to begin to look for what is rare, so that the tests are quick."""

    @contextlib.contextmanager
    def mutation(self) -> Iterator[None]:
        """Have the world, with the rule broken."""
        with self.world(), self.breaks():
            yield


@contextlib.contextmanager
def _in_worlds_of(*kinds: str, cell: str = "", topics: str = "") -> Iterator[None]:
    """Have few faults, and damage to one kind of files, perhaps of some topics alone."""
    with ExitStack() as stack:
        for draw in ("alone", "damaging", "moving"):
            original = getattr(FaultPlan, draw)

            def drawn(self: FaultPlan, *args: Any, original: Any = original) -> FaultPlan:
                return msgspec.structs.replace(original(self, *args), kinds=kinds)

            stack.enter_context(mock.patch.object(FaultPlan, draw, drawn))
        stack.enter_context(mock.patch.object(faults, "CELLS", tuple(each for each in CELLS if each[0].name == cell)))
        paths = file_damage._paths

        def those(kind: FileKind, tree: Any) -> list[str]:
            return [path for path in paths(kind, tree) if topics in path]

        stack.enter_context(mock.patch.object(file_damage, "_paths", those))
        yield


def _having(*kinds: str, **only: str) -> Mutation:
    return lambda: _in_worlds_of(*kinds, **only)


# Identity and deletion


def _taking_any_directory() -> AbstractContextManager[Any]:
    """Nodes that do not look at which cluster a directory is of."""
    return mock.patch.object(DataDirectory, "cluster_id", "")


@contextlib.contextmanager
def _ignoring_deleted_ids() -> Iterator[None]:
    """Nodes that do not look at which topics were deleted: what is unknown stays."""

    def judged(name: str, topic_id: bytes | None, image: MetadataImage, machine: str) -> DirectoryFate:
        return fate_of(name, topic_id, msgspec.structs.replace(image, deleted_topics={}), machine)

    original = LogDirectories.claim

    def claim(self: LogDirectories, directory: str, topic_id: bytes, deleted: Any) -> None:
        original(self, directory, topic_id, ())

    with replacing(fate_of, judged), mock.patch.object(LogDirectories, "claim", claim):
        yield


def _taking_pushes_of_any_topic() -> AbstractContextManager[Any]:
    """Followers and leaders that know a topic by its name alone, whose epochs begin at 0 each time."""
    stack = ExitStack()
    original = ReplicaManager._take_push

    def take(self: ReplicaManager, push: Push, now_ms: int) -> Any:
        return original(self, msgspec.structs.replace(push, topic_id=b""), now_ms)

    def kept(replicas: tuple[int, ...], registered: Any, leader_epoch: int) -> PartitionImage:
        return first_kept_by(replicas, registered, 0)

    stack.enter_context(mock.patch.object(ReplicaManager, "_take_push", take))
    stack.enter_context(replacing(first_kept_by, kept))
    return stack


# Metadata


@contextlib.contextmanager
def _taking_older_images() -> Iterator[None]:
    """Nodes that do not say how much they know, and take what the controller has."""
    position = property(lambda self: msgspec.structs.replace(self._position, term=0, version=0))
    with (
        mock.patch.object(DataDirectory, "position", position),
        mock.patch.object(Node, "_check_not_older"),
    ):
        yield


# Generations


def _taking_the_older_generation() -> AbstractContextManager[Any]:
    def read(file_system: Any, path: str, decode: Any) -> Generations[Any]:
        found = read_generations(file_system, path, decode)
        second = path + generations.SECOND_SUFFIX
        if found.newest is None or not (file_system.exists(path) and file_system.exists(second)):
            return found
        both = [decode(file_system.read_bytes(each)) for each in (path, second)]
        return Generations(min(filter(None, both), key=lambda each: each.sequence), found.damaged)

    return replacing(read_generations, read)


def _reading_one_generation() -> AbstractContextManager[Any]:
    def read(file_system: Any, path: str, decode: Any) -> Generations[Any]:
        if not file_system.exists(path):
            return Generations(None, 0)
        only = decode(file_system.read_bytes(path))
        return Generations(only, int(only is None))

    return replacing(read_generations, read)


# Torn or rotten


def _judging(**ignored: Any) -> Mutation:
    """Logs that are judged without something that is known of them."""

    def judged(end: ScanEnd) -> Verdict:
        return judge(msgspec.structs.replace(end, **ignored))

    return lambda: replacing(judge, judged)


@contextlib.contextmanager
def _ignoring_the_known_end() -> Iterator[None]:
    with mock.patch.object(Settling, "known_end", return_value=0), _judging(known_end=0)():
        yield


def _cutting_without_a_word() -> AbstractContextManager[Any]:
    """Logs that are cut, and say nothing of it."""
    original = opening._Opening._settle

    def settle(self: Any, stop: Stop, *, is_trusted: bool) -> None:
        original(self, stop, is_trusted=is_trusted)
        self.report.verdict = None

    return mock.patch.object(opening._Opening, "_settle", settle)


def _losing_an_end_without_a_word() -> AbstractContextManager[Any]:
    return mock.patch.object(Settling, "may_have_lost_end", False)


@contextlib.contextmanager
def _believing_any_epoch() -> Iterator[None]:
    """Logs that do not compare the epochs of batches with those of the metadata."""
    original = opening._Opening._expected

    def expected(self: Any, next_offset: int, epoch: int = -1) -> Any:
        with mock.patch.object(self, "_latest_epoch", None):
            return original(self, next_offset, epoch)

    with mock.patch.object(opening._Opening, "_expected", expected):
        yield


_DAMAGE = ("damage files", "damage files", "crash")
LATE_FLUSHED = f"{PASSING}1"
"""What the names of the topics begin with that a machine alone flushes late."""

RULES: dict[str, Rule] = {
    "directory of another cluster that is taken": Rule(
        _taking_any_directory,
        simulate_disks,
        "lacks committed|with the disk of another cluster|where .* was committed",
        _having("swap in foreign disk"),
    ),
    "ids of deleted topics that are ignored": Rule(
        _ignoring_deleted_ids, simulate_topics, r"did not become well.*deleted topics \{.*/logs/", _having("crash")
    ),
    "older image that is taken": Rule(
        _taking_older_images, simulate_alone, "takes metadata up to", _having("roll back metadata")
    ),
    "older generation that is taken": Rule(_taking_the_older_generation, simulate_quorum, "its term fell"),
    "second generation that is not read": Rule(_reading_one_generation, simulate_quorum, "its term fell"),
    "recovery point that is ignored": Rule(
        _judging(recovery_point=0),
        simulate_alone,
        "all before .* was flushed, and the log ends at",
        _having(*_DAMAGE, cell=OPEN_SEGMENT, topics=LATE_FLUSHED),
    ),
    "known end that is ignored": Rule(
        _ignoring_the_known_end,
        simulate_disks,
        "lacks committed|where .* was committed",
        _having(*_DAMAGE, cell=NOTED_END),
    ),
    "unflushed end that is cut without a word": Rule(
        _cutting_without_a_word, simulate_alone, "says nothing of it", _having("lose power")
    ),
    "unflushed end that is gone without a word": Rule(
        _losing_an_end_without_a_word, simulate_alone, "says nothing of it", _having("lose power")
    ),
    "leader epochs that are believed": Rule(
        _believing_any_epoch,
        simulate_disks,
        "epoch=10737418|lacks committed",
        _having(*_DAMAGE, cell=EPOCH_OF_BATCH),
    ),
    "pushes of a deleted topic that are taken": Rule(
        _taking_pushes_of_any_topic,
        simulate_topics,
        "does not know epoch|lacks committed|where .* was committed|is in sync",
        first_seed=3,
    ),
}
