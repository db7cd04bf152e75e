"""A simulated machine: a disk, a clock, and the process of one real node on it, through all its incarnations."""

import contextlib
import posixpath
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.process.node import Node
from eagleray.actors.roles.group_coordinator import GroupCoordinatorRole
from eagleray.actors.roles.metadata_quorum import METADATA_PARTITION, MetadataLost
from eagleray.actors.roles.role import Role
from eagleray.actors.roles.transaction_coordinator import TransactionCoordinatorRole
from eagleray.actors.storage.data_directory import IDENTITY_SUFFIX, read_position
from eagleray.actors.storage.log_directories import METADATA_FILE
from eagleray.actors.storage.log_opening import LogOpening
from eagleray.broker.checked_file import FileDamaged
from eagleray.broker.generations import SECOND_SUFFIX
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush, LogConfig, LogError, PartitionLog
from eagleray.broker.log.names import CHECKPOINT_FILE, CUT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from eagleray.broker.log.partition_metadata import decode_partition_metadata
from eagleray.broker.messages import Message
from eagleray.broker.metadata.directory_identity import DirectoryRefused
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.kept_image import SUFFIX as IMAGE_SUFFIX
from eagleray.broker.metadata.losses import NO_LOSS
from eagleray.broker.metadata.positions import NO_POSITION
from eagleray.broker.quorum.election_state import read_election_state
from tests.simulation.cluster.backups import Backups
from tests.simulation.cluster.clocks import WallClock, watch_clock_of
from tests.simulation.cluster.file_damage import Damage, Held, OlderCopies, put_back, put_back_alone, strike
from tests.simulation.cluster.full_disks import watch_disk_of
from tests.simulation.cluster.lanes import Endpoint, SimulatedPeers
from tests.simulation.cluster.loop import Clock, SimulatedLoop
from tests.simulation.cluster.offsets_watch import LogEnd
from tests.simulation.cluster.passing_watch import DirectoryWatch, UnflushedWatch
from tests.simulation.cluster.places import OFFSETS, TRANSACTIONS
from tests.simulation.cluster.ports import MachineDisk
from tests.simulation.cluster.resolved import SimulatedResolvers
from tests.simulation.schedule import Violation
from tests.support.faults import ProcessKilled

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

_Role = TypeVar("_Role", bound=Role)

DATA = "/data"
_BOOT_MS = 1_700_000_000_000
_REPAIRED = 0.3
"""How often the checkpoint beside a rotten `partition.metadata` is whole."""

_IN_CHECKSUM = 10


class Stray(NamedTuple):
    """A directory that does not say any more which topic it is of, and what was in it then."""

    path: str
    rotten: list[tuple[str, int, int]]
    """Which bits were flipped: files, positions and masks."""

    directory: str
    files: dict[str, bytes]


class ProcessEnded(BaseException):
    """The node has ended its own process."""


class SimulatedNode(Node):
    """The real node, but for its disk, its clock, its chance and its lanes."""

    def __init__(self, machine: "SimulatedMachine", endpoint: Endpoint) -> None:
        self.simulated = machine
        self.endpoint = endpoint
        self._asked: dict[int, tuple[Message, LogEnd]] = {}
        super().__init__(machine.spec, SimulatedResolvers(machine), machine.disk)
        self.answer = self._answer_watched
        watch_disk_of(self)
        if machine.harness.jumps_clocks:
            watch_clock_of(self)
        self._watch_openings()
        endpoint.sessions = self.sessions

    def _make_peers(self) -> SimulatedPeers:
        return SimulatedPeers(self.endpoint)

    def _receivers(self) -> dict[type, Callable[[Any], None]]:
        watch = self.simulated.harness.watch

        def watching(receive: Callable[[Any], None]) -> Callable[[Any], None]:
            def take(message: Any) -> None:
                # The network may bring it twice, and the first that is answered may be the one that came first.
                self._asked.setdefault(message.request_id, (message, watch.offsets_end(self)))
                receive(message)

            return take

        receivers = super()._receivers()
        return {kind: watching(receive) if kind in watch.WATCHED else receive for kind, receive in receivers.items()}

    def _answer_watched(self, reply: Any) -> None:
        asked = self._asked.pop(reply.request_id, None)
        if asked is not None:
            self.simulated.harness.watch.answers(self, *asked, reply)
        self.sessions.answer(reply)

    def _watch_openings(self) -> None:
        logs, simulated = self.replica_manager.logs, self.simulated
        begin_opening = logs.begin_opening

        def begun(partition: TopicPartition, *args: Any, **named: Any) -> LogOpening:
            opening = begin_opening(partition, *args, **named)
            run = opening.run

            def run_watched() -> PartitionLog:
                log = run()
                simulated.opened(partition, opening.surroundings.topic_id, log)
                return log

            opening.run = run_watched  # type: ignore[method-assign]
            return opening

        logs.begin_opening = begun  # type: ignore[method-assign]

    def request_failed(self, host: str, request: str, error: BaseException) -> None:
        """A real node counts such a mistake of ours and goes on; a world is there to find it."""
        raise error

    def steady_ms(self) -> int:
        return self.simulated.clock.now_ms()

    def _now_us(self) -> int:
        return (_BOOT_MS + self.simulated.clock.now_ms() + self.simulated.wall_clock.ahead_ms) * 1000

    def chance(self) -> float:
        return self.simulated.harness.schedule.chance.random()

    def _take(self, image: MetadataImage, *, has_jumped: bool) -> None:
        self.simulated.takes(image)
        super()._take(image, has_jumped=has_jumped)

    async def _listen(self) -> None:
        self._listening.port = 1

    async def _register(self) -> None:
        if self.simulated.disk_lies and not self.simulated.is_among_others():
            raise Unanswered("alone it would be taken at its disk's word")
        await super()._register()

    def fail(self, error: BaseException) -> None:
        self.simulated.note(error)
        self.simulated.has_ended = True
        raise ProcessEnded


class SimulatedMachine:
    """One machine. What its node sends leaves at once; what comes waits while it is paused, and is lost while down.

    A process that ends by itself is started again soon, as Ray does it.
    """

    def __init__(self, harness: "Harness", spec: NodeSpec, clock: Clock) -> None:
        self.harness = harness
        self.spec = spec
        self.node_id = spec.node_id
        self.clock = clock
        self.wall_clock = WallClock(self)
        self.directories = DirectoryWatch(self)
        self.disk = MachineDisk(self.directories)
        self.process = 0
        self.loop: SimulatedLoop | None = None
        self.node: SimulatedNode | None = None
        self.endpoint: Endpoint | None = None
        self.has_ended = False
        self._never_finished: list[object] = []
        self._has_cut_metadata = False
        """Whether its metadata log has lost some since it was last up, which its election state does not say yet."""
        self._strays: list[Stray] = []
        self._has_lost_lies = False
        self.older = OlderCopies()
        self.held: Held | None = None
        """Files that may wait for a person to put them back."""
        self.is_refused = False
        """Whether its node does not start with them."""
        self.backups = Backups(self)
        self.known = NO_POSITION
        """How much its node knew of the metadata; it never takes less."""

        self._is_struck = False
        """Whether its disk has changed a file, and its node may not have come upon it yet."""
        self.may_have_lost = False
        """Whether it has lost something and has told the controller nothing of it yet."""
        harness.network.connect(self.node_id, self.receive)

    @property
    def is_up(self) -> bool:
        return self.loop is not None

    @property
    def is_serving(self) -> bool:
        """Whether its node is registered, and not paused."""
        return self.loop is not None and not self.loop.is_paused and self.node is not None and self.node.is_registered

    @property
    def has_doubts(self) -> bool:
        """Whether others have to have what it has: it may be gone already, or go with the next loss of power."""
        return self.may_have_lost or self.is_unsound or self._has_failed or self.has_strays or self.is_struck

    @property
    def has_strays(self) -> bool:
        """Whether it has directories that its node has to leave as they are, which other faults spare meanwhile."""
        return bool(self._strays) or self.held is not None

    @property
    def is_struck(self) -> bool:
        """Whether a file was changed, and the node has not opened everything since."""
        if self._is_struck and self.held is None and self.node is not None and self.node.is_registered:
            watches = self.harness.watch.partitions.items()
            kept = [each for each, watch in watches if watch.state and self.node_id in watch.state.replicas]
            self._is_struck = not all(self.log_of(each) is not None for each in kept)
        return self._is_struck

    @property
    def is_alone(self) -> bool:
        """Whether it is all that there is."""
        return len(self.harness.machines) == 1

    @staticmethod
    def is_metadata(path: str) -> bool:
        """Whether a file is of the metadata log."""
        return f"/{METADATA_PARTITION}/" in path

    @property
    def is_unsound(self) -> bool:
        """Whether its disk has not what it was given, and its node does not know it."""
        return self.disk.has_lied or self.disk.is_rotten or self.disk_lies

    @property
    def disk_lies(self) -> bool:
        """Whether power was lost after a lie, and its node has not come back among others since."""
        return self.may_have_lost and self._has_lost_lies

    def is_among_others(self) -> bool:
        """Whether others live with whom it is in sync, wherever there are some."""
        machines = [machine for machine in self.harness.machines.values() if machine is not self and machine.is_serving]
        living = {machine.node_id for machine in machines}
        states = [watch.state for watch in self.harness.watch.partitions.values() if watch.state is not None]
        others = [{*state.isr} - {self.node_id} for state in states if self.node_id in state.isr]
        return all(living & each for each in others if each)

    @property
    def _has_failed(self) -> bool:
        """Whether logs have failed, or been found damaged, of which the controller has not been told."""
        if self.node is None:
            return False
        told = NO_LOSS if self.node.is_registered else self.node._incarnation.loss
        return bool(told) or self.node.replica_manager.failures.are_more_than(told)

    @property
    def is_whole(self) -> bool:
        """Whether the disk has everything that this voter has said."""
        path = f"{DATA}/logs/{METADATA_PARTITION}/quorum-state"
        try:
            return not self._has_cut_metadata and read_election_state(self.disk, path).is_whole
        except FileDamaged:
            return False

    def lies_about(self, path: str) -> bool:
        """What a lying disk may lie about.

        A quorum rests on what its voters have flushed, and on nothing else. And nothing tells that the list of a closed
        segment's aborted transactions has lost some of them: it has no checksum, as in Kafka. A directory that does not
        say any more which topic it is of waits for a person, whom only `mend_strays` has; so does a node that does not
        know any more whose it is, or how much it knew.
        """
        known = (str(METADATA_PARTITION), TRANSACTION_INDEX_SUFFIX, METADATA_FILE, IDENTITY_SUFFIX, IMAGE_SUFFIX)
        return not any(each in path for each in known)

    def takes(self, image: MetadataImage) -> None:
        """Look at an image that its node takes."""
        if not image.includes(self.known):
            raise Violation(f"node {self.node_id} takes metadata up to {image.position}, and knew {self.known}")
        self.known = image.position

    def _find_known(self) -> None:
        """See what the disk has kept of how much its node knew."""
        with contextlib.suppress(DirectoryRefused):
            self.known = read_position(self.disk, DATA, self.node_id)[0]

    def opened(self, partition: TopicPartition, topic_id: bytes, log: PartitionLog) -> None:
        """Look at a log that its node has opened, and has said of what it found."""
        directory, watch = f"{DATA}/logs/{partition}", self.harness.watch.partitions.get(partition)
        self.directories.opened(directory, topic_id)
        if isinstance(watch, UnflushedWatch) and self.harness.watch.image.topic_id(partition.topic) == topic_id:
            # An opening that died has left what it has cut, under the offset of the cut.
            cut = f"{log.log_end_offset:020d}{CUT_SUFFIX}"
            watch.opened(log, is_kept=any(name.startswith(cut) for name in self.disk.list_directory(directory)))

    def log_of(self, partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition, where it is open; not that of an earlier topic of the same name."""
        logs = None if self.node is None else self.node.replica_manager.logs
        if logs is None or partition not in logs:
            return None
        topic_id = self.harness.watch.image.topic_id(partition.topic)
        return logs[partition] if logs.topic_id_of(partition) == topic_id else None

    def role(self, kind: type[_Role]) -> _Role | None:
        """A role of the node, where it has it."""
        roles = () if self.node is None else self.node._roles
        return next((role for role in roles if isinstance(role, kind)), None)

    def coordinates_at(self, partition: TopicPartition) -> int | None:
        """The epoch at which a coordinator here believes to lead a partition, -1 while it loads it; None for none."""
        groups, transactions = self.role(GroupCoordinatorRole), self.role(TransactionCoordinatorRole)
        shard: Any = None
        if partition == OFFSETS and groups is not None:
            shard = groups._state_machine._context.runtime.shards.get(partition.partition)
        elif partition == TRANSACTIONS and transactions is not None:
            shard = transactions._state_machine._context.runtime.shards.get(partition.partition)
        if shard is None:
            return None
        epoch: int = shard.epoch
        return epoch if shard.is_loaded else -1

    # Incarnation and death

    def start(self) -> None:
        if self.is_up:
            return
        self.process += 1
        self.has_ended = False
        loop = self.loop = SimulatedLoop(self.harness.schedule, self.clock, self._guard)
        self.endpoint = Endpoint(self.harness.network, self.node_id, self.process, loop)
        loop.run(self._boot)

    def _boot(self) -> None:
        assert self.loop is not None
        assert self.endpoint is not None
        self.node = SimulatedNode(self, self.endpoint)
        self._has_cut_metadata = False
        self.loop.create_task(self._start_node(self.node))

    async def _start_node(self, node: SimulatedNode) -> None:
        try:
            await node.start()
        except Exception as error:  # noqa: BLE001 - Ray would start the process again
            node.fail(error)

    def _guard(self, error: BaseException | None) -> None:
        """See whether the process has survived what it has just done; a task keeps to itself what it has died of."""
        self.harness.touched.add(self.node_id)
        if self.loop is None:
            return
        if self.disk.is_process_dead or isinstance(error, ProcessKilled):
            self.harness.schedule.fired["death in the middle of a write"] += 1
            self._end_and_restart()
        elif self.has_ended:
            self._end_and_restart()
        elif error is not None:
            self.note(error)
            self._end_and_restart()

    def note(self, error: BaseException) -> None:
        """Look at what a process ends of: disks fail, and nothing else may."""
        if isinstance(error, DirectoryRefused | MetadataLost) and self.held is not None:
            self.is_refused = True
        elif not isinstance(error, LogError | OSError):
            self.harness.violate(error)
        self.harness.schedule.fired["process ended by its disk"] += 1

    def _end_and_restart(self) -> None:
        self.crash()
        self.harness.schedule.after(self.harness.schedule.chance.randint(1, 300), self.start)

    def crash(self) -> None:
        """End the process as kill -9 does; the operating system tells those who are connected."""
        endpoint = self.endpoint
        with self.disk.outlived():
            self.harness.watch.last_look(self)
        self._stop()
        self.disk.crash_process()
        if endpoint is not None:
            endpoint.hang_up()

    def lose_power(self) -> None:
        """Go dark: what was not flushed may be gone, and no other machine is told."""
        for partition, watch in self.harness.watch.partitions.items():
            if isinstance(watch, UnflushedWatch):
                watch.power_lost(self.log_of(partition))
        self._stop()
        self._has_lost_lies = self.disk.has_lied or self.disk_lies
        chance = self.harness.schedule.chance
        kept = chance.choice([0.0, 0.5, 0.95])
        self.disk.lose_power(lambda: chance.random() < kept)
        self._find_known()
        self.may_have_lost = True

    def replace_disk(self) -> None:
        """Come back with an empty disk, as a new machine in place of one that is gone."""
        self.directories = DirectoryWatch(self)
        self.disk = MachineDisk(self.directories)
        self._strays.clear()
        self.older, self.held, self._is_struck, self.is_refused = OlderCopies(), None, False, False
        self._has_lost_lies = False
        self.may_have_lost = True
        self.backups = Backups(self)
        self.known = NO_POSITION
        self.harness.watch.quorum.replaced(self.node_id)

    def strike(self, damage: Damage) -> None:
        """Have the disk give back something else, while the process is down."""
        strike(self, damage)
        self._find_known()
        self._is_struck = self.may_have_lost = True
        self._has_cut_metadata = self._has_cut_metadata or damage.kind.is_of_voters
        if damage.kind.is_vote:
            self.harness.watch.quorum.replaced(self.node_id)

    def put_back(self) -> None:
        """Have a person put back what the node waits for, if it does."""
        if self.is_alone:
            self.put_back_alone()
        if self.held is None:
            return
        if not self.backups.is_foreign and not self.is_refused and not self._has_looked_at_its_logs:
            self.harness.schedule.after(200, self.put_back)
            return
        if self.backups.is_foreign and self.node is not None and self.node.is_registered:
            raise Violation(f"node {self.node_id} has joined with the disk of another cluster")
        if self.backups.is_foreign:
            self.is_refused = True
        strays = set() if self.node is None else self.node.replica_manager.failures.strays
        is_missed = any(f"{DATA}/logs/{each}" in self.held.folders for each in strays)
        if not self.is_refused and not is_missed and not any(map(self.directories.was_deleted, self.held.folders)):
            # What counts is another copy.
            self.held = None
            return
        was_up = self.is_up
        if was_up:
            self.crash()
        self.harness.schedule.fired["files put back by a person"] += 1
        put_back(self)
        self.backups.put_back()
        self.is_refused = False
        if was_up:
            self.start()

    @property
    def _has_looked_at_its_logs(self) -> bool:
        """Whether the node has joined, and has opened each log that it has files of, or found that it cannot."""
        if self.node is None or not self.node.is_registered:
            return False
        replicas = self.node.replica_manager
        kept = self.node.image.kept_by(self.node_id)
        return all(each in replicas or each in replicas.offline or not replicas.logs.has_files(each) for each in kept)

    def put_back_alone(self) -> None:
        """Have a person put back what the disk has changed. Until then nothing that was acknowledged has gone."""
        was_up = self.is_up
        if was_up:
            self.crash()
        self.harness.schedule.fired["files put back by a person"] += 1
        put_back_alone(self)
        self.backups.put_back()
        self.is_refused = False
        if was_up:
            self.start()

    def lose_metadata(self, keeps: float) -> None:
        """Have the end of the metadata log gone, or all of it, while the process is down."""
        self._has_cut_metadata = True
        log = PartitionLog.open(
            self.disk, f"{DATA}/logs/{METADATA_PARTITION}", LogConfig(flush=Flush.COMMIT), now_ms=_BOOT_MS
        )
        start, end = log.log_start_offset, log.log_end_offset
        log.truncate(start + int((end - start) * keeps), now_ms=_BOOT_MS)
        log.close()

    def flip_partition_metadata(self, chance: Random) -> bool:
        """Flip a bit of what says which topic a directory is of, mostly of its copies too; the process is down."""
        tree, looked_for = self.disk.tree(), [stray.path for stray in self._strays]
        marked = [path for path in tree if path.endswith(METADATA_FILE) and str(METADATA_PARTITION) not in path]
        # What was put aside is opened by no node.
        is_aside = ("-delete/", "/damaged/")
        kept = [path for path in marked if path not in looked_for and not any(each in path for each in is_aside)]
        if not kept:
            return False
        path = chance.choice(kept)
        position, mask = chance.randrange(len(tree[path])), 1 << chance.randrange(8)
        self.disk.rot(path, position, mask)
        if decode_partition_metadata(self.disk.tree()[path]) == decode_partition_metadata(tree[path]):
            self.disk.rot(path, position, mask)
            return False
        directory = posixpath.dirname(path)
        copy = f"{directory}/{CHECKPOINT_FILE}"
        copies = [each for each in (copy, copy + SECOND_SUFFIX) if each in tree]
        if copies and chance.random() < _REPAIRED:
            # The checkpoint is whole, and its node repairs the file from it.
            return True
        for each in copies:
            self.disk.rot(each, _IN_CHECKSUM, 1)
        # What its node has to leave as it is must not change by a loss of power.
        self.disk.write_back(directory)
        rotten = [(path, position, mask), *((each, _IN_CHECKSUM, 1) for each in copies)]
        self._strays.append(Stray(path, rotten, directory, self._files_of(directory)))
        return True

    def _files_of(self, directory: str) -> dict[str, bytes]:
        return {path: content for path, content in self.disk.tree().items() if path.startswith(f"{directory}/")}

    def mend_strays(self) -> None:
        """Have a person look at what the node has left alone, which has to be there, and flip the bits back."""
        for stray in self._strays:
            if self._files_of(stray.directory) != stray.files:
                raise Violation(f"node {self.node_id} has touched {stray.directory}, which it cannot know")
            for path, position, mask in stray.rotten:
                self.disk.rot(path, position, mask)
        self._strays.clear()

    def _stop(self) -> None:
        if self.loop is not None:
            self.loop.kill()
        if self.node is not None:
            # A compaction that no process holds any more would clean up after itself, on the disk of the next process.
            self._never_finished += self.node.replica_manager.logs._compactions.values()
        self.loop = self.node = self.endpoint = None

    def pause(self) -> None:
        if self.loop is not None:
            self.loop.is_paused = True

    def wake(self) -> None:
        if self.loop is not None and self.loop.is_paused:
            self.loop.is_paused = False
            self.loop.drain()

    # What comes

    def receive(self, source: object, frame: Any) -> None:
        if self.loop is None or self.endpoint is None:
            self.harness.network.dropped(source, self.node_id, frame)
        else:
            self.loop.run(self.endpoint.arrive, source, frame)
