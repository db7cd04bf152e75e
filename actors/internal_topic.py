"""The partitions of an internal topic that a node leads: opened, loaded, appended to, and given up again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from eagleray.actors.disk import Disk, PartitionLocked
from eagleray.actors.shell import Host
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush, LogDamaged, LogError, PartitionLog
from eagleray.broker.messages import Message
from eagleray.broker.partitions.leaders import FLUSHED_ONE_BY_ONE
from eagleray.broker.replication.events import Replicated
from eagleray.broker.replication.leader import ReplicationLeader
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


class _Begun(msgspec.Struct, frozen=True):
    """What the machine is to know of a partition that is led here, as long as that is so at this epoch."""

    number: int
    epoch: int
    event: Any


class _Ended(msgspec.Struct, frozen=True):
    """What the machine is to know of a partition that is led here no longer."""

    event: Any


class _Unreplicated(msgspec.Struct, frozen=True):
    """Outcomes that the machine is told when everything before an offset is replicated."""

    end_offset: int
    outcomes: list[Message]


class InternalTopic:
    """What a coordinator has of the topic that its state is kept in.

    Owns: at which epochs this node leads partitions of the topic; the logs are those of the node's replicas, at whose
    leaders outcomes wait until what they tell of is replicated. A log is made when something is first written to it. A
    partition is loaded off the loop, once all that it holds is replicated, so that clients are told meanwhile that it
    loads. The machine is told by `post`, of which `admit` gives it what is due, when a partition is assigned, loaded
    and resigned. While the lease does not hold, nothing reaches the machine: another node may lead by now, and have
    answered. When it holds again, the machine hears first of what it has lost, before whoever has asked meanwhile; and
    of what it was given and has lost since, it never hears that it has it.
    """

    def __init__(
        self,
        host: Host,
        name: str,
        *,
        post: Callable[[Any], None],
        assigned: Callable[[int, int], Message],
        loaded: Callable[[int, int, Any], Message],
        resigned: Callable[[int, int], Message],
        replay: Callable[[Iterable[RecordBatch]], Any],
    ) -> None:
        self._host = host
        self._name = name
        self._post = post
        self._assigned = assigned
        self._loaded = loaded
        self._resigned = resigned
        self._replay = replay
        self._epochs: dict[int, int] = {}
        self._ended_epochs: dict[int, int] = {}
        self._is_replicated = False
        self._held: list[Any] = []
        self._look_again_ms: int | None = None
        self._changes_posted = 0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"load-{name}")
        self._tasks: set[asyncio.Task[None]] = set()
        host.replicas.serve(self, name)

    def _partition(self, number: int) -> TopicPartition:
        return TopicPartition(self._name, number)

    # Which partitions it leads

    def metadata_changed(self) -> None:
        """Take what this node is to lead at a new epoch, and give up what it leads no longer."""
        image, node_id = self._host.image, self._host.spec.node_id
        led = image.led_by(node_id) if self._host.is_registered else ()
        wanted = {partition.partition: image.find(partition) for partition in led if partition.topic == self._name}
        self._is_replicated = any(state is not None and len(state.replicas) > 1 for state in wanted.values())
        for number in [number for number in self._epochs if number not in wanted]:
            self._resign(number)
        for number, state in sorted(wanted.items()):
            assert state is not None, "a partition that is led exists"
            if state.leader_epoch > max(self._epochs.get(number, -1), self._ended_epochs.get(number, -1)):
                self._epochs[number] = state.leader_epoch
                self._tell(_Begun(number, state.leader_epoch, self._assigned(number, state.leader_epoch)))
                self._start(self._load(number, state.leader_epoch))

    def _resign(self, number: int) -> None:
        epoch = self._ended_epochs[number] = self._epochs.pop(number)
        self._tell(_Ended(self._resigned(number, epoch)))

    def _tell(self, change: _Begun | _Ended) -> None:
        self._changes_posted += 1
        self._post(change)

    async def _load(self, number: int, epoch: int) -> None:
        while self._epochs.get(number) == epoch:
            try:
                if await self._load_once(number, epoch):
                    return
            except LogDamaged as error:
                _log.error("%s-%s cannot be loaded: %s", self._name, number, error)
                self._host.replicas.damaged(self._partition(number))
                await asyncio.sleep(_DAMAGED_S)
            except (PartitionLocked, LogError, OSError) as error:
                _log.warning("%s-%s cannot be loaded yet: %s", self._name, number, error)
            except Exception as error:  # noqa: BLE001 - a log that cannot be understood is not to be written to
                # Where another leads by now, it may have cut off what was being read.
                if self._epochs.get(number) == epoch:
                    self._host.fail(error)
            await asyncio.sleep(_RETRY_S)

    def load_again(self, number: int, epoch: int) -> None:
        """Tell the machine anew what a partition holds, which it has lost sight of, once all of that is replicated."""
        self._start(self._load_again(number, epoch))

    async def _load_again(self, number: int, epoch: int) -> None:
        # A disk that has failed once may fail for a while.
        await asyncio.sleep(_RETRY_S)
        leader = self._host.replicas.leader(self._partition(number))
        while leader is not None and leader.is_leading and leader.log.high_watermark < leader.log.log_end_offset:
            await asyncio.sleep(_REPLICATED_S)
        await self._load(number, epoch)

    async def _load_once(self, number: int, epoch: int) -> bool:
        replicas, partition = self._host.replicas, self._partition(number)
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
            self._tell(_Begun(number, epoch, self._loaded(number, epoch, state)))
        return True

    async def _read(self, partition: TopicPartition, leader: ReplicationLeader) -> Any:  # noqa: ANN401 - what `replay` gives
        loading = self._host.replicas.loading
        loading.add(partition)
        try:
            log = leader.log
            return await self._host.loop.run_in_executor(self._executor, lambda: self._replay(log.batches()))
        finally:
            loading.discard(partition)

    def _start(self, coroutine: Any) -> None:  # noqa: ANN401 - a coroutine
        task = self._host.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What the replicas tell

    def led(self, partition: TopicPartition, leader: ReplicationLeader) -> None:
        """Nothing to do: what is led at which epoch is known from the metadata, and loaded."""

    def resigned(self, partition: TopicPartition, leader: ReplicationLeader) -> None:
        """Give up a partition that another node is about to lead."""
        if self._epochs.get(partition.partition) == leader.leader_epoch:
            self._resign(partition.partition)

    def replicated(self, replicated: Replicated[_Unreplicated]) -> None:
        """Tell the machine what has happened for good.

        What has not is in the log, and may be replicated yet: whatever else happens has to come after it, so it waits
        on. Where this node has resigned, the next leader knows whether it is there, and loads it.
        """
        if replicated.error_code is ErrorCode.NONE:
            for outcome in replicated.payload.outcomes:
                self._post(outcome)
            return
        leader = self._host.replicas.leader(replicated.partition)
        if leader is not None and leader.is_leading:
            leader.wait(replicated.payload, replicated.payload.end_offset, NEVER_MS)

    def advanced(self, partition: TopicPartition) -> None:
        """Nothing to do: clients that read these partitions look again when their time is up."""

    # Writing

    def admit(self, events: list[Any]) -> list[Any]:
        """Give what the machine may take now; the rest waits until it is known again who leads."""
        if self._is_replicated and not self._host.replicas.lease.holds(self._host.steady_ms()):
            self._held += events
            self._look_again_ms = self._host.steady_ms() + _LOOK_MS
            return []
        self._look_again_ms = None
        if self._held:
            events, self._held = [*self._held, *events], []
        return self._in_order(events) if self._changes_posted else events

    @property
    def next_due_ms(self) -> int | None:
        """When to look whether the lease holds again, where something waits for that; None where nothing does."""
        return self._look_again_ms

    def _in_order(self, events: list[Any]) -> list[Any]:
        """Put before everything else what is led here no longer, and leave out what was given and lost meanwhile."""
        endings, others = [], []
        for event in events:
            if type(event) is _Ended:
                endings.append(event.event)
            elif type(event) is not _Begun:
                others.append(event)
            elif self._epochs.get(event.number) == event.epoch:
                others.append(event.event)
            self._changes_posted -= type(event) in (_Begun, _Ended)
        return [*endings, *others]

    def log_to_write(self, number: int, epoch: int, steady_ms: int) -> PartitionLog | ErrorCode:
        """The log of a partition that is led here; one that was never written to begins now. Or why not."""
        leader = self._host.replicas.lead(self._partition(number))
        if leader is None or leader.leader_epoch != epoch:
            return ErrorCode.NOT_COORDINATOR
        code = leader.check_append(steady_ms, waits_for_all=True)
        if code is ErrorCode.NONE:
            return leader.log
        return ErrorCode.NOT_COORDINATOR if code is ErrorCode.NOT_LEADER_OR_FOLLOWER else _NOT_NOW

    def replicate(self, outcomes: dict[int, list[Message]]) -> list[Message]:
        """Make what was appended to partitions count: flushed where that is asked for, and replicated.

        Returns the outcomes of what is replicated by now; the others are posted when it is.
        """
        replicas = self._host.replicas
        leaders = {number: replicas.leader(self._partition(number)) for number in outcomes}
        logs = [leader.log for leader in leaders.values() if leader is not None]
        flush_all(self._host.disk, self._host.spec.data_dir, [log for log in logs if log.config.flush is Flush.COMMIT])
        # The disk may have taken its time.
        steady_ms = self._host.steady_ms()
        now: list[Message] = []
        for number, leader in leaders.items():
            assert leader is not None, "it was appended to in this turn"
            end_offset, effects = leader.log.log_end_offset, leader.appended(steady_ms)
            for effect in effects:
                if type(effect) is Replicated:
                    now += effect.payload.outcomes
            replicas.carry_out(effects)
            if leader.is_replicated(end_offset, steady_ms):
                now += outcomes[number]
            else:
                leader.wait(_Unreplicated(end_offset, outcomes[number]), end_offset, NEVER_MS)
        return now

    def close(self) -> None:
        """Stop to load."""
        for task in [*self._tasks]:
            task.cancel()
        self._executor.shutdown()


def flush_all(disk: Disk, data_dir: str, logs: Sequence[PartitionLog]) -> None:
    """Flush logs; many of them with one call for the whole file system, after which theirs have nothing left to do.

    That costs about as much as two files cost one by one. Each log still flushes, and would notice an error.
    """
    if len(logs) > FLUSHED_ONE_BY_ONE:
        disk.sync(data_dir)
    for log in logs:
        log.flush()
