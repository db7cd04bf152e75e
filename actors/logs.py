"""The logs of one role: opened under a lock, kept in order, and closed."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from eagleray.actors.disk import Disk, LocalDisk, Lock, PartitionLocked
from eagleray.broker.filesystem import write_atomically
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogConfig, PartitionLog
from eagleray.broker.log.checkpoint import read_checkpoint
from eagleray.broker.log.compaction import Compaction
from eagleray.broker.log.config import CONFIG_KEYS
from eagleray.broker.log.errors import CompactionFailed, LogDamaged, LogError, LogOffline, LogWriteFailed
from eagleray.broker.log.scrubbing import Scrub
from eagleray.broker.runtime.deadlines import AT_ONCE_MS, Deadlines

_log = logging.getLogger(__name__)

METADATA_FILE: Final = "partition.metadata"
CHECKPOINT_INTERVAL_MS: Final = 60_000
BOOKMARK_INTERVAL_MS: Final = 10_000
BOOKMARK_BATCHES: Final = 1000
"""After so many batches a bookmark is due at once: scanning them takes milliseconds, writing it a fraction of one."""

SCRUB_INTERVAL_MS: Final = 24 * 60 * 60 * 1000
"""How often the closed part of each log is read, to find what its disk has changed by itself."""

STEP_BYTES: Final = 64 * 1024
"""A few milliseconds of work: between two steps the role serves whoever waits."""


class Logs:
    """The partition logs that a role has open, each under a lock of its own.

    Owns: the directories of these partitions, alone, as long as they are open: two processes never append to one log,
    even where an earlier incarnation of a leader lives on for a while. Housekeeping is done in small steps, whenever
    something is due by the time of day; `on_due` is told when that comes to be earlier than it was.
    """

    def __init__(
        self,
        data_dir: str,
        defaults: Mapping[str, str],
        disk: Disk | None = None,
        on_due: Callable[[int], None] | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._defaults = {key: value for key, value in defaults.items() if key in CONFIG_KEYS}
        self._disk = disk or LocalDisk()
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._locks: dict[TopicPartition, Lock] = {}
        self._compactions: dict[TopicPartition, Compaction] = {}
        self._upkeep: Deadlines[TopicPartition] = Deadlines(on_due)
        self._bookmarks: Deadlines[TopicPartition] = Deadlines(on_due)
        """Logs that have grown by as much as a bookmark is worth."""
        self._next_bookmark_ms: dict[TopicPartition, int] = {}
        self._scrub: tuple[TopicPartition, Scrub] | None = None
        self._scrubs: Deadlines[TopicPartition] = Deadlines(on_due)

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
        self, partition: TopicPartition, settings: Mapping[str, str], topic_id: bytes, *, now_ms: int
    ) -> PartitionLog:
        """Open a partition's log, or return it where it is open.

        What an earlier topic of the same name has left is removed first. Raises PartitionLocked, and what the opening
        of a log raises.
        """
        if partition in self._logs:
            return self._logs[partition]
        lock = self._disk.lock(self._lock_path(str(partition)))
        try:
            directory = self.directory_of(partition)
            self._claim(directory, topic_id)
            log = PartitionLog.open(self._disk, directory, self.config_of(settings), now_ms=now_ms)
        except BaseException:
            lock.release()
            raise
        self._logs[partition] = log
        self._locks[partition] = lock
        self._upkeep.set(partition, AT_ONCE_MS)
        self._scrubs.set(partition, AT_ONCE_MS)
        log.on_grown = partial(self._look_at_growth, partition)
        log.on_grown()
        return log

    def directory_of(self, partition: TopicPartition) -> str:
        """Where a partition's files are."""
        return f"{self._data_dir}/logs/{partition}"

    def has_files(self, partition: TopicPartition) -> bool:
        """Whether a partition has ever been opened."""
        return self._disk.exists(self.directory_of(partition))

    def _claim(self, directory: str, topic_id: bytes) -> None:
        """Make the directory that of this very topic, whatever was there under its name."""
        path = f"{directory}/{METADATA_FILE}"
        wanted = f"version: 0\ntopic_id: {base64.urlsafe_b64encode(topic_id).decode().rstrip('=')}\n".encode()
        if self._disk.exists(path) and self._disk.read_bytes(path) == wanted:
            return
        if self._disk.exists(directory) and self._disk.list_directory(directory):
            _log.warning("%s holds a topic that was deleted, or what is left of a log; removing it", directory)
            self._remove_files(directory)
        self._disk.make_directories(directory)
        write_atomically(self._disk, path, wanted)

    def reconfigure(self, partition: TopicPartition, settings: Mapping[str, str]) -> None:
        """Give an open log new settings; on failure it is offline, and LogOffline is raised."""
        self._logs[partition].reconfigure(self.config_of(settings))

    def close(self, partition: TopicPartition) -> None:
        """Close a log, so that the next opening has nothing to recover, and let others have it."""
        log = self._logs.pop(partition)
        self._forget(partition)
        try:
            log.close()
        except LogOffline as error:
            _log.warning("%s", error)
        finally:
            self._locks.pop(partition).release()

    def remove(self, partition: TopicPartition) -> None:
        """Close a log and remove its files: its topic was deleted, or it is kept elsewhere now."""
        self.close(partition)
        self._try_to_remove(str(partition))

    def discard(self, partition: TopicPartition) -> None:
        """Remove the files of a log that is of no use any more, open or not; raises OSError where that cannot be."""
        if partition in self._logs:
            self.close(partition)
        self._remove_files(self.directory_of(partition))

    def _try_to_remove(self, name: str) -> bool:
        """Remove a log, or say that it has to wait for the next sweep."""
        try:
            self._remove_files(f"{self._data_dir}/logs/{name}")
        except OSError as error:
            _log.warning("%s cannot be removed yet: %s", name, error)
            return False
        return True

    def _remove_files(self, directory: str) -> None:
        """Remove a log, and first of all what makes it one.

        Whoever is interrupted leaves some of the files, and the first segments may be gone before the last: that would
        pass for a log that has everything from a later offset on.
        """
        path = f"{directory}/{METADATA_FILE}"
        if self._disk.exists(path):
            self._disk.remove(path)
            self._disk.flush_directory(directory)
        self._disk.remove_tree(directory)

    def close_all(self) -> None:
        """Close every log."""
        for partition in [*self._logs]:
            self.close(partition)

    # Housekeeping

    def on_disk(self) -> list[str]:
        """The names of all logs that there are files of, whoever has them."""
        logs = f"{self._data_dir}/logs"
        return self._disk.list_directory(logs) if self._disk.exists(logs) else []

    def after_loss_of_power(self) -> tuple[TopicPartition, ...]:
        """The logs that a loss of power leaves whole, if their disk has kept what it was given."""
        named = ((name, *name.rpartition("-")[::2]) for name in self.on_disk())
        found = [(name, TopicPartition(topic, int(number))) for name, topic, number in named if number.isdecimal()]
        return tuple(partition for name, partition in found if self._survives(f"{self._data_dir}/logs/{name}"))

    def _survives(self, directory: str) -> bool:
        try:
            return read_checkpoint(self._disk, directory).survives_loss_of_power
        except OSError:
            return False

    def remove_unused(self, names: Iterable[str]) -> list[str]:
        """Remove logs, unless somebody has them open; return which were removed."""
        removed = []
        for name in names:
            try:
                lock = self._disk.lock(self._lock_path(name))
            except PartitionLocked:
                continue
            if self._try_to_remove(name):
                removed.append(name)
            # The lock's own file stays: somebody may be about to lock it, and has to find the one that others lock.
            lock.release()
        return removed

    def _lock_path(self, name: str) -> str:
        return f"{self._data_dir}/locks/{name}.lock"

    @property
    def next_due_ms(self) -> int:
        """When there is something to do here, by the time of day."""
        if self._compactions or self._scrub is not None:
            return AT_ONCE_MS
        return min(self._upkeep.next_due_ms, self._bookmarks.next_due_ms, self._scrubs.next_due_ms)

    def housekeep(self, now_ms: int) -> TopicPartition | None:
        """Do one small piece of what is due: a step of a compaction, or the retention and checkpoint of one log.

        Return the partition whose log has failed by that, if one has: nobody else may come to notice.
        """
        for partition, compaction in [*self._compactions.items()]:
            self._step(partition, compaction)
            return self._if_failed(partition)
        for due in self._upkeep.take_due(now_ms, limit=1):
            self._upkeep.set(due, now_ms + CHECKPOINT_INTERVAL_MS)
            self._keep(due, now_ms)
            return self._if_failed(due)
        return None

    def _if_failed(self, partition: TopicPartition) -> TopicPartition | None:
        return None if self._logs[partition].is_online else partition

    def bookmark(self, now_ms: int) -> None:
        """Write the bookmark of one log that has grown, so that the next process need not scan the whole segment."""
        for partition in self._bookmarks.take_due(now_ms, limit=1):
            if self._is_worth_bookmark(self._logs[partition]):
                self._next_bookmark_ms[partition] = now_ms + BOOKMARK_INTERVAL_MS
                self._write_bookmark(partition)
            self._look_at_growth(partition)

    def _is_worth_bookmark(self, log: PartitionLog) -> bool:
        """Whether as much has been appended as a bookmark is worth, which holds every producer of the log."""
        return log.is_online and log.active_segment.unmarked_batches > len(log.producers) // 8

    def _look_at_growth(self, partition: TopicPartition) -> None:
        """Have the bookmark of a log written when it is due, and have it said when the log has grown by enough."""
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

    def scrub(self, now_ms: int) -> TopicPartition | None:
        """Look at one small piece of what is due; return the partition whose log is damaged, if one is."""
        if self._scrub is None:
            # The one that has waited longest: the first may be due again before the last has had its turn.
            for due in self._scrubs.take_due(now_ms, limit=1):
                self._scrubs.set(due, now_ms + SCRUB_INTERVAL_MS)
                self._scrub = due, Scrub(self._logs[due])
        if self._scrub is None:
            return None
        partition, scrub = self._scrub
        try:
            if not scrub.step(STEP_BYTES):
                self._scrub = None
        except LogDamaged as error:
            _log.error("%s: %s", partition, error)
            self._scrub = None
            return partition
        except LogError as error:
            _log.warning("%s could not be looked at: %s", partition, error)
            self._scrub = None
        return None

    def _keep(self, partition: TopicPartition, now_ms: int) -> None:
        log = self._logs[partition]
        if not log.is_online:
            return
        try:
            log.apply_retention(now_ms)
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
        for deadlines in (self._upkeep, self._bookmarks, self._scrubs):
            deadlines.cancel(partition)
        if self._scrub is not None and self._scrub[0] == partition:
            self._scrub = None
