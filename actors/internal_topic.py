"""The partitions of an internal topic that a node leads: opened, loaded, appended to, and given up again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from eagleray.actors.logs import Logs, PartitionLocked
from eagleray.actors.shell import Host
from eagleray.broker.filesystem import sync_file_system
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush, Isolation, LogError, PartitionLog
from eagleray.broker.messages import Message
from eagleray.broker.partitions.leaders import FLUSHED_ONE_BY_ONE
from eagleray.protocol.records import RecordBatch, split_batches

_log = logging.getLogger(__name__)

_READ_BYTES: Final = 1024 * 1024
_RETRY_S: Final = 0.1


class InternalTopic:
    """What a coordinator has of the topic that its state is kept in.

    Owns: the logs of the partitions that the metadata gives to this node, each at the epoch that it was given at. A log
    is made when something is first written to it. A partition is loaded off the loop, so that clients are told
    meanwhile that it loads. The machine is told by `post` when a partition is assigned, loaded and resigned.
    """

    def __init__(
        self,
        host: Host,
        name: str,
        *,
        post: Callable[[Message], None],
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
        self.logs = Logs(host.spec.data_dir, host.spec.settings)
        self._epochs: dict[int, int] = {}
        self._loading: set[int] = set()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"load-{name}")
        self._tasks: set[asyncio.Task[None]] = set()

    def log_of(self, number: int) -> PartitionLog:
        """The log of a partition that is led here; one that was never written to begins now."""
        partition = TopicPartition(self._name, number)
        return self.logs[partition] if partition in self.logs else self._open(partition)

    def _open(self, partition: TopicPartition) -> PartitionLog:
        topic = self._host.image.topics[self._name]
        log = self.logs.open(partition, topic.configs, topic.topic_id, now_ms=self._host.now_ms())
        log.advance_high_watermark(log.log_end_offset)
        return log

    # Which partitions it leads

    def metadata_changed(self) -> None:
        """Take what this node is to lead at a new epoch, and give up what it leads no longer."""
        image, node_id = self._host.image, self._host.spec.node_id
        wanted = {partition.partition for partition in image.led_by(node_id) if partition.topic == self._name}
        for number in [number for number in self._epochs if number not in wanted]:
            self._resign(number)
        for number in sorted(wanted):
            epoch = image.leader_epoch_of(TopicPartition(self._name, number))
            if self._epochs.get(number) != epoch:
                self._epochs[number] = epoch
                self._post(self._assigned(number, epoch))
                self._start(self._load(number, epoch))

    def _resign(self, number: int) -> None:
        self._post(self._resigned(number, self._epochs.pop(number)))
        if number not in self._loading:
            self._close_if_given_up(number)

    async def _load(self, number: int, epoch: int) -> None:
        while self._epochs.get(number) == epoch:
            if number not in self._loading:
                self._loading.add(number)
                try:
                    await self._load_once(number, epoch)
                except (PartitionLocked, LogError, OSError) as error:
                    _log.warning("%s-%s cannot be loaded yet: %s", self._name, number, error)
                except Exception as error:  # noqa: BLE001 - a log that cannot be understood is not to be written to
                    self._host.fail(error)
                else:
                    return
                finally:
                    self._loading.discard(number)
                    self._close_if_given_up(number)
            await asyncio.sleep(_RETRY_S)

    def _close_if_given_up(self, number: int) -> None:
        partition = TopicPartition(self._name, number)
        if number not in self._epochs and partition in self.logs:
            self.logs.close(partition)

    async def _load_once(self, number: int, epoch: int) -> None:
        partition = TopicPartition(self._name, number)
        if partition in self.logs or self.logs.has_files(partition):
            log = self._open(partition)
            state = await self._host.loop.run_in_executor(self._executor, lambda: self._replay(batches_of(log)))
        else:
            # Making a hundred empty logs takes longer than everything else that a new cluster does.
            state = self._replay(())
        if self._epochs.get(number) == epoch:
            self._post(self._loaded(number, epoch, state))

    def _start(self, coroutine: Any) -> None:  # noqa: ANN401 - a coroutine
        task = self._host.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Writing

    def replicate(self, written: Sequence[int]) -> None:
        """Make what was appended to these partitions count: flushed where that is asked for, and replicated."""
        logs = [self.log_of(number) for number in written]
        flush_all(self._host.spec.data_dir, [log for log in logs if log.config.flush is Flush.COMMIT])
        for log in logs:
            log.advance_high_watermark(log.log_end_offset)

    def tick(self) -> None:
        """Keep the logs in order, once they are loaded."""
        if not self._loading:
            self.logs.housekeep(self._host.now_ms())

    def close(self) -> None:
        """Close the logs."""
        for task in [*self._tasks]:
            task.cancel()
        self._executor.shutdown()
        self.logs.close_all()


def batches_of(log: PartitionLog) -> Iterator[RecordBatch]:
    """Give every batch of a log, from its start to its end."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.read(offset, max_bytes=_READ_BYTES, isolation=Isolation.READ_UNCOMMITTED)
        batches = split_batches(found.records)
        yield from batches
        offset = batches[-1].header.next_offset


def flush_all(data_dir: str, logs: Sequence[PartitionLog]) -> None:
    """Flush logs; many of them with one call for the whole file system, after which theirs have nothing left to do.

    That costs about as much as two files cost one by one. Each log still flushes, and would notice an error.
    """
    if len(logs) > FLUSHED_ONE_BY_ONE:
        sync_file_system(data_dir)
    for log in logs:
        log.flush()
