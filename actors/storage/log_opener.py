"""Opening logs off the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from eagleray.actors.storage.log_opening import LogOpening
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.openings import Openings, Urgency

if TYPE_CHECKING:
    from eagleray.actors.storage.context import StorageContext

MOST_AT_ONCE: Final = 2
"""One log is read while another one waits for the disk; more threads would only contend for the interpreter."""


class LogOpener:
    """Opens the logs of a node in threads: an opening may have to read all of a log.

    Owns: the threads, and every log from the beginning of its opening until it is handed over, opened or not. While it
    has a log, nothing else opens or removes that. Where the node keeps the log no longer when it is open, it is closed.
    """

    def __init__(
        self,
        context: StorageContext,
        begin: Callable[[TopicPartition], LogOpening],
        on_opened: Callable[[LogOpening, PartitionLog], None],
        on_failed: Callable[[TopicPartition, BaseException], None],
    ) -> None:
        self._context = context
        self._begin_opening = begin
        self._on_opened = on_opened
        self._on_failed = on_failed
        self._openings = Openings(MOST_AT_ONCE)
        self._under_way: dict[TopicPartition, LogOpening] = {}
        self._executor = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="open-log")
        self._is_beginning = self._is_stopped = False

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._openings

    def __len__(self) -> int:
        return len(self._openings)

    def open(self, partition: TopicPartition, state: PartitionImage, *, is_asked_for: bool) -> None:
        """Open a log as soon as it has its turn."""
        is_led = state.leader == self._context.spec.node_id
        urgency = Urgency.ASKED_FOR if is_asked_for else Urgency.LED if is_led else Urgency.FOLLOWED
        topic_id = self._topic_id_of(partition)
        assert topic_id is not None, f"{partition} is kept here, and so in the metadata"
        self._openings.want(partition, topic_id, urgency)
        self._begin_some()

    def asked_for(self, partition: TopicPartition) -> None:
        """Open a log before others, if it waits."""
        self._openings.asked_for(partition)

    def keep_only(self, kept: Mapping[TopicPartition, PartitionImage]) -> None:
        """Open no logs but those that the metadata give to this node."""
        if self._openings:
            topics = self._context.image.topics
            self._openings.keep_only({partition: topics[partition.topic].topic_id for partition in kept})

    def _topic_id_of(self, partition: TopicPartition) -> bytes | None:
        """The id of the topic that this node keeps a partition of; None where it does not."""
        state = self._context.image.find(partition)
        is_kept = state is not None and self._context.spec.node_id in state.replicas
        return self._context.image.topic_id(partition.topic) if is_kept else None

    def _begin_some(self) -> None:
        if self._is_beginning:
            return
        self._is_beginning = True
        try:
            while (following := self._openings.take()) is not None:
                self._begin(*following)
        finally:
            self._is_beginning = False

    def _begin(self, partition: TopicPartition, topic_id: bytes) -> None:
        if self._topic_id_of(partition) != topic_id:
            # The metadata have changed while this node was not registered.
            self._openings.ended(partition)
            return
        try:
            opening = self._under_way[partition] = self._begin_opening(partition)
        except Exception as error:  # noqa: BLE001 - it is told what has failed
            self._openings.ended(partition)
            self._on_failed(partition, error)
            return
        future = self._context.loop.run_in_executor(self._executor, self._run, opening)
        future.add_done_callback(partial(self._opened, opening))

    def _run(self, opening: LogOpening) -> PartitionLog | None:
        """Open a log, in a thread."""
        return None if self._is_stopped else opening.run()

    def _opened(self, opening: LogOpening, future: Any) -> None:  # noqa: ANN401 - a future of asyncio, or of a test's loop
        partition = opening.partition
        if partition not in self._under_way or future.cancelled():
            return
        error = future.exception()
        is_of_use = self._openings.is_of_use(partition, self._topic_id_of(partition))
        if error is None and not is_of_use:
            # Closing it flushes it.
            closing = self._context.loop.run_in_executor(self._executor, opening.give_up)
            closing.add_done_callback(lambda _: self._end(partition))
            return
        self._end(partition)
        if error is None:
            self._on_opened(opening, future.result())
        elif is_of_use:
            self._on_failed(partition, error)

    def _end(self, partition: TopicPartition) -> None:
        if self._under_way.pop(partition, None) is not None:
            self._openings.ended(partition)
            self._begin_some()

    def stop(self) -> None:
        """Open nothing more, and wait for what the threads are doing: they change files."""
        self._is_stopped = True
        self._openings.close()
        self._executor.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Stop, and close the logs that have not been handed over."""
        self.stop()
        while self._under_way:
            _, opening = self._under_way.popitem()
            opening.give_up()
