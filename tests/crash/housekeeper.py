"""A process that writes to two logs of a data directory, and looks after them, until it is killed.

One log is cut by nothing, the other is compacted. Both have small segments that roll all the time, are flushed by a
thread beside, and get checkpoints and bookmarks, as the logs of a node do. Nothing is flushed before it is
acknowledged: what a process has written outlives it. On its standard output it says what it sends, and, once it is in
the log, at which offset.

    python -m tests.crash.housekeeper DATA_DIR SEED
"""

import os
import random
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from eagleray.actors.storage import log_manager
from eagleray.actors.storage.background_flushes import Flushing
from eagleray.actors.storage.data_directory import write_identity
from eagleray.actors.storage.disk import LocalDisk
from eagleray.actors.storage.log_manager import LogManager
from eagleray.broker.filesystem import FlushFailed
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Appended, Flush, PartitionLog
from eagleray.broker.metadata.directory_identity import DirectoryIdentity
from tests.support.batches import NOW_MS, data_batch

ORDERS, PRICES = TopicPartition("orders", 0), TopicPartition("prices", 0)
PARTITIONS = {ORDERS: bytes(15) + b"\x01", PRICES: bytes(15) + b"\x02"}
"""The partitions, and the ids of their topics."""

KEYS = 12
SETTINGS = {
    ORDERS: {"segment.bytes": "4096", "index.interval.bytes": "512", "flush.ms": "1"},
    PRICES: {
        "segment.bytes": "2048",
        "index.interval.bytes": "256",
        "flush.ms": "1",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
    },
}
FLUSHES = 0.1
"""How often it looks at which flushes are due, and have been made, between two records."""

UPKEEP_MS = 3
STEP_BYTES = 1024
"""So that a compaction takes many steps, and kills come between them."""

Flushed = list[tuple[Flushing, FlushFailed | None]]


class Sent(msgspec.Struct, frozen=True, tag=True):
    """A record whose value is the number is about to be appended, with a key in the compacted log."""

    number: int
    key: int = -1


class Acknowledged(msgspec.Struct, frozen=True, tag=True):
    """What was sent under this number is in the log."""

    number: int
    offset: int


def tell(report: Sent | Acknowledged) -> None:
    data = msgspec.json.encode(report) + b"\n"
    assert os.write(sys.stdout.fileno(), data) == len(data)


def open_logs(data_dir: str, disk: LocalDisk, flush: Flush) -> tuple[LogManager, dict[TopicPartition, PartitionLog]]:
    """Open both logs, as a node does; the directory gets its identity."""
    if not disk.exists(f"{data_dir}/nodes/0.identity"):
        write_identity(disk, data_dir, DirectoryIdentity(node_id=0, cluster_id="killed"))
    logs = LogManager(data_dir, {"flush": flush.value}, disk)
    return logs, {each: logs.open(each, SETTINGS[each], PARTITIONS[each], now_ms=NOW_MS) for each in PARTITIONS}


class Housekeeper:
    """Appends records one by one, and does a piece of what is due between them."""

    def __init__(
        self,
        data_dir: str,
        seed: int,
        *,
        disk: LocalDisk,
        executor: Executor,
        tell: Callable[[Sent | Acknowledged], None],
        flush: Flush = Flush.OS,
    ) -> None:
        self._logs, self.logs = open_logs(data_dir, disk, flush)
        self._chance = random.Random(seed)
        self._executor = executor
        self._tell = tell
        self._flushes_first = flush is Flush.COMMIT
        self._flushing: Future[Flushed] | None = None
        self._number = seed * 1_000_000
        self._now_ms = NOW_MS

    def take_step(self) -> None:
        self._now_ms += 1
        self._append(self._chance.choice([ORDERS, PRICES]))
        if self._chance.random() < 0.5:
            self._logs.housekeep(self._now_ms, self._now_ms)
        if self._chance.random() < 0.2:
            self._logs.bookmark(self._now_ms)
        if self._chance.random() < FLUSHES:
            self._flush_beside()

    def _append(self, partition: TopicPartition) -> None:
        self._number += 1
        key = self._chance.randrange(KEYS) if partition == PRICES else -1
        self._tell(Sent(self._number, key))
        value = b"%d " % self._number + b"x" * self._chance.choice([0, 100, 700])
        batch = data_batch(value=value, keys=[b"%d" % key]) if key >= 0 else data_batch(value=value)
        log = self.logs[partition]
        (result,) = log.append([batch], leader_epoch=0, now_ms=self._now_ms)
        assert isinstance(result, Appended), result
        if self._flushes_first:
            log.flush()
        log.advance_high_watermark(log.log_end_offset)
        self._tell(Acknowledged(self._number, result.base_offset))

    def _flush_beside(self) -> None:
        if self._flushing is not None and self._flushing.done():
            for flushing, error in self._flushing.result():
                self._logs.finish_flush(flushing, error)
            self._flushing = None
        begun = [] if self._flushing is not None else self._logs.begin_flushes(self._now_ms, 10)
        if begun:
            self._flushing = self._executor.submit(lambda: [(each, each.flush.run()) for each in begun])


def hurried() -> AbstractContextManager[Any]:
    """Have what is due once a minute due all the time, in small steps."""
    return mock.patch.multiple(log_manager, CHECKPOINT_INTERVAL_MS=UPKEEP_MS, STEP_BYTES=STEP_BYTES)


def main() -> None:
    data_dir, seed = sys.argv[1], int(sys.argv[2])
    with hurried():
        housekeeper = Housekeeper(data_dir, seed, disk=LocalDisk(), executor=ThreadPoolExecutor(1), tell=tell)
        while True:
            housekeeper.take_step()


if __name__ == "__main__":
    main()
