"""Opening the replicas that a node keeps: at once, off the loop, or later."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from eagleray.actors.storage.disk import PartitionLocked
from eagleray.actors.storage.failures import surroundings_of
from eagleray.actors.storage.log_directories import StrayLog
from eagleray.actors.storage.log_opener import LogOpener
from eagleray.actors.storage.log_opening import LogOpening
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged, LogError, PartitionLog
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topics import PartitionImage

if TYPE_CHECKING:
    from eagleray.actors.storage.context import StorageContext
    from eagleray.actors.storage.replica_manager import ReplicaManager

_log = logging.getLogger(__name__)

_MAKING_MS: Final = 20
"""How long new logs are made on the loop when the metadata have changed. One takes a few milliseconds, and a client may
be about to write to it."""


class ReplicaOpening:
    """Opens the replicas of a node, as the leaders and followers that the metadata make them.

    The log of a user's partition is opened when the node is to keep it. That of an internal topic, most of which are
    never used, is opened when it has files, its coordinator writes to it, a leader pushes to it, or a replica of it has
    to catch up; the last is done little by little, as there may be hundreds. A new log is made at once, or off the loop
    where there are many. One that has files is opened off the loop, the one that is asked for first; until then its
    partition is not led here, and pushes wait. What cannot be opened is tried again, soon if another process has it
    locked, and ever more rarely if it is offline.
    On failure: a damaged log is copied anew as soon as the controller does not count on it.
    """

    def __init__(self, context: StorageContext, replicas: ReplicaManager, is_lazy: Callable[[str], bool]) -> None:
        self._context = context
        self._replicas = replicas
        self._is_lazy = is_lazy
        self._opener = LogOpener(context, self._begin_opening, self._opened, self._not_opened)
        self.keep_only = self._opener.keep_only
        self.asked_for = self._opener.asked_for
        self.stop = self._opener.stop
        self.close = self._opener.close

    def __contains__(self, partition: TopicPartition) -> bool:
        """Whether a log is being opened off the loop, or waits for that."""
        return partition in self._opener

    def __len__(self) -> int:
        return len(self._opener)

    def begin_all(self, previous: MetadataImage, missing: Mapping[TopicPartition, PartitionImage]) -> None:
        """Begin with the replicas that this incarnation does not have yet, as far as they are due."""
        # One look at the disk: each may have to wait for the interpreter afterwards, while logs are opened in threads.
        on_disk = {*self._replicas.logs.on_disk()} if missing else ()
        making_until_ms = self._context.steady_ms() + _MAKING_MS
        for partition, state in missing.items():
            if previous.find(partition) != state:
                self._replicas.offline.hurry(partition)
            if str(partition) in on_disk:
                self._open(partition, state, is_new=False)
            elif not self._is_lazy(partition.topic):
                self._open(partition, state, is_new=self._context.steady_ms() < making_until_ms)
            elif state.leader == self._context.spec.node_id and self._has_to_catch_up(state):
                # Making a log takes as long as a hundred writes to it, and there is no hurry.
                self._replicas.chores.open_later(partition)

    def _has_to_catch_up(self, state: PartitionImage) -> bool:
        """Whether a registered replica is not in sync: even with an empty log, a push has to bring it in."""
        return any(node_id in self._context.image.nodes for node_id in state.replicas if node_id not in state.isr)

    def open(self, partition: TopicPartition, *, is_asked_for: bool = False) -> bool:
        """Open a replica, before others if it `is_asked_for`; return whether it is open now."""
        state = self._context.image.find(partition)
        if state is not None:
            has_files = partition in self._opener or self._replicas.logs.has_files(partition)
            self._open(partition, state, is_new=not has_files, is_asked_for=is_asked_for)
        return partition in self._replicas

    def _open(
        self, partition: TopicPartition, state: PartitionImage, *, is_new: bool, is_asked_for: bool = False
    ) -> None:
        replicas = self._replicas
        if replicas.offline.is_waiting(partition, self._context.steady_ms()):
            return
        try:
            has_gone = self._put_away_if_damaged(partition, state)
            if partition not in replicas.logs:
                if partition in self._opener or not (is_new or has_gone):
                    self._opener.open(partition, state, is_asked_for=is_asked_for)
                    return
                opening = self._begin_opening(partition)
                self._adopt(opening, opening.run())
            if self._context.is_registered:
                replicas.begin(partition)
        except (PartitionLocked, LogError, OSError) as error:
            self._not_opened(partition, error)

    def _put_away_if_damaged(self, partition: TopicPartition, state: PartitionImage) -> bool:
        """Put a damaged log aside as soon as the controller does not count on it, as it is copied anew.

        Return whether that was done.
        """
        failures = self._replicas.failures
        if partition not in failures.damaged or partition in self._opener:
            return False
        if self._context.spec.node_id in state.isr:
            return False
        self._replicas.logs.put_away(partition)
        failures.forget(partition)
        return True

    def _begin_opening(self, partition: TopicPartition) -> LogOpening:
        """Begin to open the log of a replica, on the loop or off it. Raises PartitionLocked and OSError."""
        topic, now_ms = self._context.image.topics[partition.topic], self._context.now_ms()
        known = surroundings_of(topic.partitions[partition.partition], self._context.spec.node_id)
        deleted = self._context.image.deleted_topics
        return self._replicas.logs.begin_opening(
            partition, topic.configs, topic.topic_id, now_ms=now_ms, surroundings=known, deleted=deleted
        )

    def _adopt(self, opening: LogOpening, log: PartitionLog) -> None:
        self._replicas.logs.adopt(opening, log)
        self._replicas.failures.served.pop(opening.partition, None)

    def _opened(self, opening: LogOpening, log: PartitionLog) -> None:
        """Take a log that was opened off the loop; it has a replica when this incarnation has registered."""
        self._adopt(opening, log)
        self._replicas.offline.forget(opening.partition)
        if self._context.is_registered:
            self._replicas.begin(opening.partition)
            self._replicas.take_early_pushes(opening.partition)

    def _not_opened(self, partition: TopicPartition, error: BaseException) -> None:
        if isinstance(error, LogDamaged):
            self._replicas.damaged(partition, error)
        elif isinstance(error, StrayLog):
            self._replicas.strayed(partition, error)
        elif isinstance(error, PartitionLocked):
            _log.warning("%s cannot be opened yet: %s", partition, error)
            self._replicas.chores.open_later(partition)
        elif isinstance(error, LogError | OSError):
            self._disk_failed(partition, error)
        else:
            self._context.fail(error)

    def _disk_failed(self, partition: TopicPartition, error: LogError | OSError) -> None:
        """Take a partition offline that could not be opened, until it can be."""
        if self._replicas.offline.disk_failed(partition, str(error), self._context.steady_ms()):
            _log.error("%s cannot be opened, and is tried again: %s", partition, error)
        cause = error.__cause__ if isinstance(error, LogError) else error
        if isinstance(cause, OSError):
            self._context.disk_guard.refused(cause)
