"""A process that writes to a log until it is killed, and tells on its standard output what it does.

It sends before it appends and acknowledges after, as a producer and its broker would. What was sent but not
acknowledged comes back to the next process on its standard input, as a producer's retry. With an even seed it flushes
before it acknowledges, with an odd one a thread flushes beside it.

    python -m tests.crash.writer DIRECTORY SEED
"""

import os
import random
import sys
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.log import Appended
from eagleray.broker.log.config import Flush, LogConfig
from eagleray.broker.log.flushing import BackgroundFlush
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.protocol.records import CompressionType, NewRecord, build_batch, split_batches
from tests.support.logs import end_marker

IDEMPOTENT_IDS = (1, 2)
TRANSACTIONAL_IDS = (11, 12, 13)
NOW_MS = 1_700_000_000_000

# Small segments, so that many of the kills fall into the moment when one is closed and the next begun.
CONFIG = LogConfig(segment_bytes=4096, index_interval_bytes=512, flush=Flush.COMMIT)


class Sent(msgspec.Struct, frozen=True, tag=True):
    """A batch of one record whose value is the number, or a marker."""

    number: int
    producer_id: int
    sequence: int = -1
    commit: bool | None = None


class Acknowledged(msgspec.Struct, frozen=True, tag=True):
    """What was sent under this number is in the log."""

    number: int
    base_offset: int


def tell(*reports: Sent | Acknowledged) -> None:
    data = b"".join(msgspec.json.encode(report) + b"\n" for report in reports)
    assert os.write(sys.stdout.fileno(), data) == len(data)


class Writer:
    """Sends batches and markers of a few producers, at most one of each producer at a time."""

    def __init__(self, directory: str, seed: int) -> None:
        # Closed once, so that whoever is killed has to have said that the log is open again.
        PartitionLog.open(LocalFileSystem(), directory, CONFIG, now_ms=NOW_MS).close()
        self._log = PartitionLog.open(LocalFileSystem(), directory, CONFIG, now_ms=NOW_MS)
        self._chance = random.Random(seed)
        self._flushes_beside = bool(seed % 2)
        self._executor = ThreadPoolExecutor(1)
        self._flushing: tuple[BackgroundFlush, Future] | None = None
        self._next_number = seed * 1_000_000

    def send_again(self, pending: list[Sent]) -> None:
        for sent in pending:
            if sent.commit is None:
                self._append([sent])
            else:
                self._append_markers([sent])

    def take_step(self) -> None:
        chance = self._chance
        opened = [each.producer_id for each in self._log.producers if each.open_since_offset >= 0]
        if opened and chance.random() < 0.3:
            ending = chance.sample(opened, chance.randint(1, len(opened)))
            markers = [Sent(self._number(), producer_id, commit=chance.random() < 0.5) for producer_id in ending]
            tell(*markers)
            self._append_markers(markers)
        else:
            everyone = IDEMPOTENT_IDS + TRANSACTIONAL_IDS
            writing = chance.sample(everyone, chance.randint(1, len(everyone)))
            batches = [Sent(self._number(), producer_id, self._next_sequence(producer_id)) for producer_id in writing]
            tell(*batches)
            self._append(batches)
        if chance.random() < 0.2:
            self._log.advance_high_watermark(self._log.log_end_offset)
            self._log.write_checkpoint()
        if chance.random() < 0.2:
            self._log.write_bookmark()

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _next_sequence(self, producer_id: int) -> int:
        entry = self._log.producers.get(producer_id)
        return 0 if entry is None else entry.last_sequence + 1

    def _append(self, batches: list[Sent]) -> None:
        data = b"".join(map(batch_of, batches))
        self._finish(batches, self._log.append(split_batches(data), leader_epoch=0, now_ms=NOW_MS))

    def _append_markers(self, markers: list[Sent]) -> None:
        new = [end_marker(sent.producer_id, 0, sent.commit, coordinator_epoch=1) for sent in markers]
        self._finish(markers, self._log.append_markers(new, leader_epoch=0, now_ms=NOW_MS))

    def _finish(self, sent: list[Sent], results: list) -> None:
        assert all(isinstance(result, Appended) for result in results), results
        if self._flushes_beside:
            self._flush_beside()
        else:
            self._log.flush()
        pairs = zip(sent, results, strict=True)
        tell(*(Acknowledged(each.number, result.base_offset) for each, result in pairs))

    def _flush_beside(self) -> None:
        if self._flushing is None:
            flush = self._log.begin_flush()
            self._flushing = flush, self._executor.submit(flush.run)
        elif self._flushing[1].done():
            flush, future = self._flushing
            self._log.finish_flush(flush, future.result())
            assert self._log.recovery_point >= flush.end_offset
            self._flushing = None


def batch_of(sent: Sent) -> bytes:
    record = NewRecord(b"%d" % sent.number, b"key" * (sent.number % 40), NOW_MS)
    return build_batch(
        [record],
        producer_id=sent.producer_id,
        producer_epoch=0,
        base_sequence=sent.sequence,
        transactional=sent.producer_id in TRANSACTIONAL_IDS,
        compression=CompressionType(sent.number % 5),
    )


def main() -> None:
    directory, seed = sys.argv[1], int(sys.argv[2])
    writer = Writer(directory, seed)
    writer.send_again(msgspec.json.decode(sys.stdin.buffer.read(), type=list[Sent]))
    while True:
        writer.take_step()


if __name__ == "__main__":
    main()
