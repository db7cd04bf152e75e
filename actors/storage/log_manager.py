"""The open logs of a node: retention, compaction, scrubbing and bookmarks (Kafka's LogManager)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from eagleray.actors.storage.background_flushes import Flushing
from eagleray.actors.storage.disk import Disk, LocalDisk, Lock
from eagleray.actors.storage.log_directories import LogDirectories
from eagleray.actors.storage.log_opening import LogOpening
from eagleray.actors.storage.put_aside import PutAside
from eagleray.broker.filesystem import FlushFailed
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogConfig, PartitionLog
from eagleray.broker.log.compaction import Compaction
from eagleray.broker.log.config import CONFIG_KEYS
from eagleray.broker.log.errors import CompactionFailed, LogDamaged, LogError, LogOffline, LogWriteFailed
from eagleray.broker.log.retention import follow_clock
from eagleray.broker.log.scrubbing import Scrub
from eagleray.broker.log.settling import ALONE, Surroundings
from eagleray.broker.log.torn_or_rotten import Verdict
from eagleray.broker.runtime.deadlines import AT_ONCE_MS, Deadlines

_log = logging.getLogger(__name__)

CHECKPOINT_INTERVAL_MS: Final = 60_000
BOOKMARK_INTERVAL_MS: Final = 10_000
BOOKMARK_BATCHES: Final = 1000
"""After so many batches a bookmark is due at once: scanning them takes milliseconds, writing it a fraction of one."""

FLUSHED_TOGETHER_MS: Final = 1_000
"""Flushes that are due within so long are made together, as of the first."""

SCRUB_INTERVAL_MS: Final = 24 * 60 * 60 * 1000
"""How often the closed or flushed part of each log is read, to find what its disk has changed by itself."""

REMOVED_AT_ONCE: Final = 8
"""So many segments are removed in a step: each takes about six removals of files, some milliseconds on a busy disk."""

STEP_BYTES: Final = 64 * 1024
"""A few milliseconds of work: between two steps the node serves requests."""


def next_flush_ms(steady_ms: int, flush_ms: int) -> int:
    """When a log that is flushed now is flushed next: with others, so that a node wakes for many logs at once."""
    due_ms = steady_ms + flush_ms
    return due_ms - due_ms % FLUSHED_TOGETHER_MS if flush_ms >= 2 * FLUSHED_TOGETHER_MS else due_ms


class LogManager(LogDirectories):
    """The partition logs that a node has open, each under a lock of its own.

    Owns: the directories of these partitions, alone, as long as they are open: two processes never append to one log,
    even where an earlier incarnation of a leader is still running. Housekeeping is done in small steps, whenever
    something is due by the steady clock; `on_due` is called when that becomes earlier. What is old goes by the time of
    day.
    """

    def __init__(
        self,
        data_dir: str,
        defaults: Mapping[str, str],
        disk: Disk | None = None,
        on_due: Callable[[int], None] | None = None,
        on_refused: Callable[[OSError], None] = lambda _: None,
    ) -> None:
        super().__init__(data_dir, disk or LocalDisk())
        self._on_refused = on_refused
        """Called when a disk has refused an append."""
        self._defaults = {key: value for key, value in defaults.items() if key in CONFIG_KEYS}
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._locks: dict[TopicPartition, Lock] = {}
        self._topic_ids: dict[TopicPartition, bytes] = {}
        self._compactions: dict[TopicPartition, Compaction] = {}
        self._upkeep: Deadlines[TopicPartition] = Deadlines(on_due)
        self._bookmarks: Deadlines[TopicPartition] = Deadlines(on_due)
        """Logs that have grown enough for a bookmark."""
        self._next_bookmark_ms: dict[TopicPartition, int] = {}
        self._flushes: Deadlines[TopicPartition] = Deadlines(on_due)
        """Logs that something was appended to since they were flushed."""
        self._next_flush_ms: dict[TopicPartition, int] = {}
        self._scrub: tuple[TopicPartition, Scrub] | None = None
        self._scrubs: Deadlines[TopicPartition] = Deadlines(on_due)
        self.cuts: Counter[Verdict] = Counter()
        """How many openings have cut off the end of a log, and why."""
        self.uncertain_ends = 0
        """How many openings have found a sole replica that may have lost its unflushed end, without a trace."""
        self.put_aside = PutAside(self._disk, data_dir)
        self._doubt_ms = 0

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._logs

    def __getitem__(self, partition: TopicPartition) -> PartitionLog:
        return self._logs[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._logs)

    def config_of(self, settings: Mapping[str, str]) -> LogConfig:
        """The settings of a topic's logs: its own, and the cluster's where it has none."""
        own = {key: value for key, value in settings.items() if key in CONFIG_KEYS}
        return LogConfig.parse(self._defaults | own)

    def open(
        self,
        partition: TopicPartition,
        settings: Mapping[str, str],
        topic_id: bytes,
        *,
        now_ms: int,
        surroundings: Surroundings = ALONE,
        deleted: Container[bytes] = (),
    ) -> PartitionLog:
        """Open a partition's log, or return it where it is open.

        What an earlier topic of the same name has left is put aside first, if that topic is among those that were
        `deleted`. Raises StrayLog where something else is there, PartitionLocked, and what the opening of a log raises.
        """
        if partition in self._logs:
            return self._logs[partition]
        opening = self.begin_opening(
            partition, settings, topic_id, now_ms=now_ms, surroundings=surroundings, deleted=deleted
        )
        return self.adopt(opening, opening.run())

    def begin_opening(
        self,
        partition: TopicPartition,
        settings: Mapping[str, str],
        topic_id: bytes,
        *,
        now_ms: int,
        surroundings: Surroundings,
        deleted: Container[bytes] = (),
    ) -> LogOpening:
        """Lock a partition's directory; what is left to do may be done off the loop. Raises PartitionLocked."""
        config, directory = self.config_of(settings), self.directory_of(partition)
        return LogOpening(
            partition,
            self._disk,
            directory,
            config,
            msgspec.structs.replace(surroundings, topic_id=topic_id, partition=partition.partition),
            claim=partial(self.claim, directory, topic_id, deleted),
            now_ms=now_ms,
            lock=self.lock(str(partition)),
        )

    def adopt(self, opening: LogOpening, log: PartitionLog) -> PartitionLog:
        """Take a log that was opened, and look after it."""
        partition = opening.partition
        if log.recovery.verdict is not None:
            self.cuts[log.recovery.verdict] += 1
        self.uncertain_ends += log.recovery.uncertain_from is not None
        self._logs[partition] = log
        self._locks[partition] = opening.lock
        self._topic_ids[partition] = opening.surroundings.topic_id
        self._upkeep.set(partition, AT_ONCE_MS)
        self._scrubs.set(partition, AT_ONCE_MS)
        log.on_refused = self._on_refused
        log.doubt_ms = self._doubt_ms
        log.on_unflushed = partial(self._flush_later, partition)
        if log.recovery_point < log.log_end_offset:
            # What a process before has appended; scrubs look only at what is flushed.
            self._flush_later(partition)
        log.on_grown = partial(self._look_at_growth, partition)
        log.on_grown()
        return log

    def topic_id_of(self, partition: TopicPartition) -> bytes:
        """The id of the topic that an open log is of."""
        return self._topic_ids[partition]

    def reconfigure(self, partition: TopicPartition, settings: Mapping[str, str]) -> None:
        """Give an open log new settings; on failure it is offline, and LogOffline is raised."""
        self._logs[partition].reconfigure(self.config_of(settings))

    def close(self, partition: TopicPartition) -> None:
        """Close a log, so that the next opening has nothing to recover, and release its lock."""
        log = self._logs.pop(partition)
        del self._topic_ids[partition]
        self._forget(partition)
        try:
            log.close()
        except LogOffline as error:
            _log.warning("%s", error)
        finally:
            self._locks.pop(partition).release()

    def remove(self, partition: TopicPartition) -> None:
        """Close a log and put its files aside: its topic was deleted, or it is kept elsewhere now."""
        self.close(partition)
        self.try_to_set_aside(str(partition))

    def put_away(self, partition: TopicPartition) -> None:
        """Put the files of a damaged log aside, open or not, so that it can be copied anew. Raises OSError."""
        if partition in self._logs:
            self.close(partition)
        self.put_aside.put(partition, self.directory_of(partition))

    def close_all(self) -> None:
        """Close every log."""
        for partition in [*self._logs]:
            self.close(partition)

    # Flushing

    def _flush_later(self, partition: TopicPartition) -> None:
        self._flushes.set(partition, self._next_flush_ms.get(partition, AT_ONCE_MS))

    def begin_flushes(self, steady_ms: int, limit: int) -> list[Flushing]:
        """Begin to flush the logs that are due, or the first few of them."""
        begun: list[Flushing] = []
        for partition in self._flushes.take_due(steady_ms, limit):
            log = self._logs[partition]
            self._next_flush_ms[partition] = next_flush_ms(steady_ms, log.config.flush_ms)
            try:
                begun.append(Flushing(partition, log, log.begin_flush()))
            except (OSError, LogOffline) as error:
                _log.warning("%s cannot be flushed: %s", partition, error)
        return begun

    def finish_flush(self, flushing: Flushing, error: FlushFailed | None) -> None:
        """Note what a flush has come to, if its log is open; LogOffline where it failed."""
        if self._logs.get(flushing.partition) is flushing.log:
            flushing.log.finish_flush(flushing.flush, error)

    # Housekeeping

    @property
    def next_due_ms(self) -> int:
        """When something is due here, by the steady clock."""
        if self._compactions or self._scrub is not None:
            return AT_ONCE_MS
        return min(
            self._upkeep.next_due_ms, self._bookmarks.next_due_ms, self._scrubs.next_due_ms, self._flushes.next_due_ms
        )

    def housekeep(self, steady_ms: int, now_ms: int, *, may_expire: bool = True) -> TopicPartition | None:
        """Do one small piece of what is due: a step of a compaction, or the retention and checkpoint of one log.

        Where nothing `may_expire`, the clock is in doubt, and no records go because of their age.
        Return the partition whose log has failed by that, if one has, because no request may notice it.
        """
        for partition, compaction in [*self._compactions.items()]:
            self._step(partition, compaction)
            return self._if_failed(partition)
        for due in self._upkeep.take_due(steady_ms, limit=1):
            self._upkeep.set(due, steady_ms + CHECKPOINT_INTERVAL_MS)
            self._keep(due, now_ms, may_expire=may_expire)
            return self._if_failed(due)
        return None

    def time_was_set(self, by_ms: int) -> None:
        """Take note that the time of day is ahead by so much of what it was."""
        for log in self._logs.values():
            follow_clock(log, by_ms)

    def doubt_clock(self, doubt_ms: int) -> None:
        """Take note by how much the time of day may be wrong."""
        self._doubt_ms = doubt_ms
        for log in self._logs.values():
            log.doubt_ms = doubt_ms

    def hurry_retention(self) -> None:
        """Apply the retention of all logs as soon as each has its turn: the disk needs room."""
        for partition in self._logs:
            self._upkeep.set(partition, AT_ONCE_MS)

    def _if_failed(self, partition: TopicPartition) -> TopicPartition | None:
        return None if self._logs[partition].is_online else partition

    def bookmark(self, steady_ms: int) -> None:
        """Write the bookmark of one log that has grown, so that the next process need not scan the whole segment."""
        for partition in self._bookmarks.take_due(steady_ms, limit=1):
            if self._is_worth_bookmark(self._logs[partition]):
                self._next_bookmark_ms[partition] = steady_ms + BOOKMARK_INTERVAL_MS
                self._write_bookmark(partition)
            self._look_at_growth(partition)

    def _is_worth_bookmark(self, log: PartitionLog) -> bool:
        """Whether enough has been appended to be worth a bookmark, which holds every producer of the log."""
        return log.is_online and log.active_segment.unmarked_batches > len(log.producers) // 8

    def _look_at_growth(self, partition: TopicPartition) -> None:
        log = self._logs[partition]
        many = BOOKMARK_BATCHES + 4 * len(log.producers)
        if not self._is_worth_bookmark(log):
            log.noticed_at_batches = len(log.producers) // 8 + 1
        elif log.active_segment.unmarked_batches < many:
            log.noticed_at_batches = many
            self._bookmarks.set(partition, self._next_bookmark_ms.get(partition, AT_ONCE_MS))
        else:
            log.noticed_at_batches = 2 * log.active_segment.unmarked_batches
            self._bookmarks.set(partition, AT_ONCE_MS)

    def _write_bookmark(self, partition: TopicPartition) -> None:
        try:
            self._logs[partition].write_bookmark()
        except LogError as error:
            _log.warning("%s", error)

    @property
    def next_scrub_ms(self) -> int:
        """When the next piece of a log is to be read, by the steady clock."""
        return AT_ONCE_MS if self._scrub is not None else self._scrubs.next_due_ms

    def scrub(self, steady_ms: int) -> tuple[TopicPartition, LogDamaged] | None:
        """Read one small piece of what is due; return the partition whose log is damaged, if one is, and how."""
        if self._scrub is None:
            # The one that has waited longest: the first may be due again before the last has had its turn.
            for due in self._scrubs.take_due(steady_ms, limit=1):
                self._scrubs.set(due, steady_ms + SCRUB_INTERVAL_MS)
                self._scrub = due, Scrub(self._logs[due])
        if self._scrub is None:
            return None
        partition, scrub = self._scrub
        try:
            if not scrub.step(STEP_BYTES):
                self._scrub = None
        except LogDamaged as error:
            self._scrub = None
            return partition, error
        except LogError as error:
            _log.warning("%s could not be looked at: %s", partition, error)
            self._scrub = None
        return None

    def _keep(self, partition: TopicPartition, now_ms: int, *, may_expire: bool) -> None:
        log = self._logs[partition]
        if not log.is_online:
            return
        try:
            if log.apply_retention(now_ms, by_age=may_expire, most_segments=REMOVED_AT_ONCE):
                # There may be more, and what was removed is written down.
                self._upkeep.set(partition, AT_ONCE_MS)
                return
            log.write_checkpoint()
            compaction = log.compaction(now_ms)
        except (LogWriteFailed, LogOffline) as error:
            _log.warning("housekeeping of %s failed: %s", partition, error)
            return
        if compaction is not None:
            self._compactions[partition] = compaction

    def _step(self, partition: TopicPartition, compaction: Compaction) -> None:
        try:
            has_more = compaction.step(STEP_BYTES)
        except (CompactionFailed, LogDamaged, LogOffline) as error:
            _log.warning("the compaction of %s failed: %s", partition, error)
            has_more = False
        if not has_more:
            del self._compactions[partition]

    def _forget(self, partition: TopicPartition) -> None:
        self._compactions.pop(partition, None)
        self._next_bookmark_ms.pop(partition, None)
        self._next_flush_ms.pop(partition, None)
        for deadlines in (self._upkeep, self._bookmarks, self._scrubs, self._flushes):
            deadlines.cancel(partition)
        if self._scrub is not None and self._scrub[0] == partition:
            self._scrub = None
