"""The partitions of an internal topic that a node leads: opened, loaded, appended to, and given up again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.storage.disk import Disk
from eagleray.actors.storage.disk_guard import DiskGuard
from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged, LogError, PartitionLog
from eagleray.broker.messages import Message
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.replication.events import Replicated
from eagleray.broker.replication.leader import ReplicationLeader, flush_all
from eagleray.broker.runtime.coordinator_events import PartitionAssigned, PartitionLoaded, PartitionResigned
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch

_log = logging.getLogger(__name__)

_RETRY_S: Final = 0.1
_DAMAGED_S: Final = 5.0
_REPLICATED_S: Final = 0.01
_LOOK_MS: Final = 50
"""How soon it is looked again whether the lease holds, while something waits for it."""

_NOT_NOW: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


class _Begun(Message, frozen=True):
    """What the state machine is to know of a partition that is led here, as long as that is so at this epoch."""

    number: int
    epoch: int
    event: PartitionAssigned | PartitionLoaded


class _Ended(Message, frozen=True):
    """What the state machine is to know of a partition that is led here no longer."""

    event: PartitionResigned


class _Unreplicated(msgspec.Struct, frozen=True):
    """Outcomes that the state machine is told when everything before an offset is replicated."""

    end_offset: int
    outcomes: list[Message]


class CoordinatorLogContext(Protocol):
    """What a coordinator's log uses of its node."""

    spec: NodeSpec
    loop: asyncio.AbstractEventLoop
    image: MetadataImage
    is_registered: bool
    replica_manager: ReplicaManager
    disk: Disk
    disk_guard: DiskGuard

    def steady_ms(self) -> int:
        """The time by a clock that is never set."""

    def fail(self, error: BaseException) -> None:
        """End the process."""


class CoordinatorLog:
    """What a coordinator has of the topic that its state is kept in.

    Owns: at which epochs this node leads partitions of the topic; the logs are those of the node's replicas, at whose
    leaders outcomes wait until what they tell of is replicated. A log is made when something is first written to it. A
    partition is opened and loaded off the loop, once all that it holds is replicated, so that clients are told
    meanwhile that it loads. The state machine is told by `post`, of which `admit` gives it what is due, when a
    partition is assigned, loaded and resigned. While the lease does not hold, nothing reaches the state machine:
    another node may lead by now, and have answered. When it holds again, the state machine first hears which partitions
    it lost, then takes what clients asked meanwhile. It never hears of a partition that was assigned and lost in
    between.
    """

    def __init__(
        self,
        context: CoordinatorLogContext,
        name: str,
        *,
        post: Callable[[Message], None],
        replay: Callable[[Iterable[RecordBatch]], object],
    ) -> None:
        self._context = context
        self._name = name
        self._post = post
        self._replay = replay
        self._epochs: dict[int, int] = {}
        self._ended_epochs: dict[int, int] = {}
        self._led: dict[int, asyncio.Event] = {}
        """Of partitions that are to be loaded as soon as they are led."""
        self._leaders: dict[int, ReplicationLeader] = {}
        """The leaders of the partitions whose logs are open, as the replica manager has told."""
        self.writable: dict[int, ReplicationLeader] = {}
        """The partitions that `check_append` has found can be appended to, until the next `commit`."""
        self._steady_ms = 0
        """Since when the turn at hand is at hand."""
        self._is_replicated = False
        self._held: list[Message] = []
        self._look_again_ms: int | None = None
        self._changes_posted = 0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"load-{name}")
        self._tasks: set[asyncio.Task[None]] = set()
        context.replica_manager.serve(self, name)

    def _partition(self, number: int) -> TopicPartition:
        return TopicPartition(self._name, number)

    # Which partitions it leads

    def metadata_changed(self) -> None:
        """Take what this node is to lead at a new epoch, and give up what it leads no longer."""
        image, node_id = self._context.image, self._context.spec.node_id
        led = image.led_by(node_id) if self._context.is_registered else ()
        wanted = {partition.partition: image.find(partition) for partition in led if partition.topic == self._name}
        self._is_replicated = any(state is not None and len(state.replicas) > 1 for state in wanted.values())
        for number in [number for number in self._epochs if number not in wanted]:
            self._resign(number)
        for number, state in sorted(wanted.items()):
            assert state is not None, "a partition that is led exists"
            if state.leader_epoch > max(self._epochs.get(number, -1), self._ended_epochs.get(number, -1)):
                self._epochs[number] = state.leader_epoch
                self._tell(_Begun(number, state.leader_epoch, PartitionAssigned(number, state.leader_epoch)))
                self._start(self._load(number, state.leader_epoch))

    def _resign(self, number: int) -> None:
        epoch = self._ended_epochs[number] = self._epochs.pop(number)
        self._tell(_Ended(PartitionResigned(number, epoch)))

    def _tell(self, change: _Begun | _Ended) -> None:
        self._changes_posted += 1
        self._post(change)

    async def _load(self, number: int, epoch: int) -> None:
        while self._epochs.get(number) == epoch:
            try:
                if await self._load_once(number, epoch):
                    return
                await self._until_led(number)
            except LogDamaged as error:
                self._context.replica_manager.damaged(self._partition(number), error)
                await asyncio.sleep(_DAMAGED_S)
            except (LogError, OSError) as error:
                _log.warning("%s-%s cannot be loaded yet: %s", self._name, number, error)
                await asyncio.sleep(_RETRY_S)
            except Exception as error:  # noqa: BLE001 - a log that cannot be understood is not to be written to
                # Where another leads by now, it may have cut off what was being read.
                if self._epochs.get(number) == epoch:
                    self._context.fail(error)
                await asyncio.sleep(_RETRY_S)

    async def _until_led(self, number: int) -> None:
        """Wait until a partition is led, or it is to be looked again what has become of it."""
        led = self._led[number] = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(_RETRY_S):
                await led.wait()

    def load_again(self, number: int, epoch: int) -> None:
        """Load a partition again, whose state was thrown away, once all that its log holds is replicated."""
        self._start(self._load_again(number, epoch))

    async def _load_again(self, number: int, epoch: int) -> None:
        # A disk that has failed once may fail for a while.
        await asyncio.sleep(_RETRY_S)
        leader = self._context.replica_manager.leader(self._partition(number))
        while leader is not None and leader.is_leading and leader.log.high_watermark < leader.log.log_end_offset:
            await asyncio.sleep(_REPLICATED_S)
        await self._load(number, epoch)

    async def _load_once(self, number: int, epoch: int) -> bool:
        replicas, partition = self._context.replica_manager, self._partition(number)
        if replicas.leader(partition) is None and not replicas.logs.has_files(partition):
            # Making a hundred empty logs takes longer than everything else that a new cluster does.
            state = self._replay(())
        else:
            leader = replicas.lead(partition)
            if leader is None or leader.leader_epoch != epoch:
                return False
            # What the last leader wrote may be undone as long as it is not replicated.
            while leader.is_leading and not leader.knows_high_watermark:
                await asyncio.sleep(_REPLICATED_S)
            if not leader.is_leading:
                return False
            state = await self._read(partition, leader)
        if self._epochs.get(number) == epoch:
            self._tell(_Begun(number, epoch, PartitionLoaded(number, epoch, state)))
        return True

    async def _read(self, partition: TopicPartition, leader: ReplicationLeader) -> object:
        loading = self._context.replica_manager.loading
        loading.add(partition)
        try:
            log = leader.log
            return await self._context.loop.run_in_executor(self._executor, lambda: self._replay(log.batches()))
        finally:
            loading.discard(partition)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._context.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What the replicas tell

    def led(self, partition: TopicPartition, leader: ReplicationLeader) -> None:
        """Write through this leader, and load its partition where its log had to be opened first.

        At which epoch it is led is known from the metadata.
        """
        self._leaders[partition.partition] = leader
        led = self._led.pop(partition.partition, None)
        if led is not None:
            led.set()

    def resigned(self, partition: TopicPartition, leader: ReplicationLeader) -> None:
        """Give up a partition that another node is about to lead."""
        self._leaders.pop(partition.partition, None)
        if self._epochs.get(partition.partition) == leader.leader_epoch:
            self._resign(partition.partition)

    def replicated(self, replicated: Replicated[_Unreplicated]) -> None:
        """Tell the state machine what has happened for good.

        What has not is in the log, and may be replicated yet: whatever else happens has to come after it, so it waits
        on. Where this node has resigned, the next leader knows whether it is there, and loads it.
        """
        if replicated.error_code is ErrorCode.NONE:
            for outcome in replicated.payload.outcomes:
                self._post(outcome)
            return
        leader = self._context.replica_manager.leader(replicated.partition)
        if leader is not None and leader.is_leading:
            leader.wait(replicated.payload, replicated.payload.end_offset, NEVER_MS)

    def advanced(self, partition: TopicPartition) -> None:
        """Nothing to do: clients that read these partitions look again when their time is up."""

    # Writing

    def admit(self, events: list[Message]) -> list[Message]:
        """Begin a turn: give what the state machine may take now; the rest waits until it is known again who leads."""
        self._steady_ms = self._context.steady_ms()
        if self._is_replicated and not self._context.replica_manager.lease.holds(self._steady_ms):
            self._held += events
            self._look_again_ms = self._steady_ms + _LOOK_MS
            return []
        self._look_again_ms = None
        if self._held:
            events, self._held = [*self._held, *events], []
        return self._in_order(events) if self._changes_posted else events

    @property
    def next_due_ms(self) -> int | None:
        """When to look whether the lease holds again, where something waits for that; None where nothing does."""
        return self._look_again_ms

    def _in_order(self, events: list[Message]) -> list[Message]:
        """Put before everything else what is led here no longer, and leave out what was given and lost meanwhile."""
        endings: list[Message] = []
        others: list[Message] = []
        for event in events:
            if type(event) is _Ended:
                endings.append(event.event)
            elif type(event) is not _Begun:
                others.append(event)
            elif self._epochs.get(event.number) == event.epoch:
                others.append(event.event)
            self._changes_posted -= type(event) in (_Begun, _Ended)
        return [*endings, *others]

    def check_append(self, number: int, epoch: int) -> ErrorCode:
        """Why nothing can be appended to a partition in this turn, or NONE; a log that has no files begins now."""
        if self._context.disk_guard.watch.refusal:
            return _NOT_NOW
        leader = self._leaders.get(number)
        if leader is None:
            replicas, partition = self._context.replica_manager, self._partition(number)
            leader = replicas.lead(partition)
            if leader is None and (partition in replicas.offline or partition in replicas.opening):
                return _NOT_NOW
        if leader is None or leader.leader_epoch != epoch:
            return ErrorCode.NOT_COORDINATOR
        code = leader.check_append(self._steady_ms, waits_for_all=True)
        if code is ErrorCode.NONE:
            self.writable[number] = leader
            return code
        return ErrorCode.NOT_COORDINATOR if code is ErrorCode.NOT_LEADER_OR_FOLLOWER else _NOT_NOW

    def log_of(self, number: int) -> PartitionLog | None:
        """The log of a partition that is led here; None for one that was never written to."""
        leader = self._leaders.get(number)
        return None if leader is None else leader.log

    def commit(self, outcomes: dict[int, list[Message]]) -> list[Message]:
        """Make what was appended to partitions count: flushed where that is asked for, and replicated.

        Returns the outcomes of what is replicated by now; the others are posted when it is. Raises LogError where a log
        cannot be flushed.
        """
        written = [(self.writable[number], waiting) for number, waiting in outcomes.items()]
        self.writable.clear()
        failed = flush_all([leader for leader, _ in written], self._sync)
        if failed:
            raise next(iter(failed.values()))
        # The disk may have taken its time.
        steady_ms = self._context.steady_ms()
        now: list[Message] = []
        for leader, waiting in written:
            end_offset, effects = leader.log.log_end_offset, leader.replicate(steady_ms)
            if effects:
                self._context.replica_manager.carry_out(effects)
            if leader.when_replicated(_Unreplicated(end_offset, waiting), end_offset, NEVER_MS, steady_ms):
                now += waiting
        return now

    def _sync(self) -> None:
        self._context.disk.sync(self._context.spec.data_dir)

    def close(self) -> None:
        """Stop loading."""
        for task in [*self._tasks]:
            task.cancel()
        self._executor.shutdown()
