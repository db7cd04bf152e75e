"""The partition log: append, read and recovery, each beside the bare system calls for the same bytes.

Every round measures both sides in turn, so that a ratio compares what ran a moment apart. The table shows the
median round, and the spread of the ratio over the rounds.
"""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.identities import LAST_EPOCH
from eagleray.broker.log import AbortedTransaction, Appended, Isolation, LogConfig, PartitionLog
from eagleray.broker.log.names import BOOKMARK_FILE
from eagleray.broker.log.transaction_index import TransactionIndex
from eagleray.protocol.records import NewRecord, build_batch, split_batches
from tests.support.logs import end_marker

ROUNDS = 7
NOW_MS = 1_700_000_000_000
LARGE_BATCHES = 3200
SMALL_BATCHES = 20_000
HUNDREDS = 1_000
READ_BYTES = 1024 * 1024
RECOVERY_BYTES = 1024**3
BOOKMARKED_BATCHES = 200_000
BATCHES_BEHIND_BOOKMARK = 1_000
BRANCHES = 100_000
BRANCHES_AT_ONCE = 1_000


def main() -> None:
    console = Console()
    # On the disk of the working directory: /tmp is memory on many machines.
    os.makedirs(".build", exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-log-", dir=".build") as directory:
        console.print(append_table(directory))
        console.print(read_table(directory))
        console.print(lookup_table())
        console.print(recovery_table(directory))
        console.print(bookmark_table(directory))
        console.print(producer_table(directory))


def append_table(directory: str) -> Table:
    table = Table(
        "batches", "in one append", "log, µs a batch", "bare write, µs a batch", "log ÷ bare speed", title="Append"
    )
    large = [_batch(number % 10, number // 10 * 16, 16, 1000, transactional=False) for number in range(LARGE_BATCHES)]
    small = [_batch(number % 100, number // 100, 1, 120, transactional=True) for number in range(SMALL_BATCHES)]
    hundreds = [_batch(number % 10, number // 10 * 100, 100, 150, transactional=False) for number in range(HUNDREDS)]
    wide = [_batch(number % 10, number // 10 * 100, 100, 1000, transactional=False) for number in range(HUNDREDS)]
    mixed = [_mixed_batch(number % 10, number // 10 * 100, 100, 1000) for number in range(HUNDREDS)]
    for name, batches, per_append in (
        ("16 KB, idempotent", large, 64),
        ("16 KB, idempotent", large, 1),
        ("100 records of 150 B", hundreds, 64),
        ("100 records of 150 B", hundreds, 1),
        ("100 records of 1 KB", wide, 64),
        ("100 records of 1 KB", wide, 1),
        ("100 records of 0.9 to 1.1 KB", mixed, 1),
        ("200 B, transactional", small, 64),
        ("200 B, transactional", small, 1),
    ):
        bare, ours = _alternate(
            lambda batches=batches: _bare_writes(directory, batches, 1),
            lambda batches=batches, per_append=per_append: _log_appends(directory, batches, per_append),
        )
        table.add_row(name, str(per_append), *_in_microseconds(ours, bare, len(batches)))
    joined, ours = _alternate(lambda: _bare_writes(directory, large, 64), lambda: _log_appends(directory, large, 64))
    table.add_row("16 KB, bare writes joined too", "64", *_in_microseconds(ours, joined, len(large)))
    return table


def read_table(directory: str) -> Table:
    table = Table("read", "log, MB/s", "bare pread, MB/s", "log ÷ bare speed", title="Read, 1 MB a fetch")
    with _log(directory) as log:
        _fill_with_transactions(log, transactions=20_000, abort_every=10)
        paths = [f"{directory}/bench-0/{name}" for name in sorted(os.listdir(f"{directory}/bench-0"))]
        log_paths = [path for path in paths if path.endswith(".log")]
        megabytes = log.size_bytes / 1e6
        for isolation in Isolation:
            bare, ours = _alternate(
                lambda: _bare_reads(log_paths), lambda isolation=isolation: _log_reads(log, isolation)
            )
            ratio = [one / other for one, other in zip(bare, ours, strict=True)]
            table.add_row(
                f"{isolation.name.lower()}, 10 % aborted",
                f"{megabytes / statistics.median(ours):,.0f}",
                f"{megabytes / statistics.median(bare):,.0f}",
                _spread(ratio),
            )
    return table


def lookup_table() -> Table:
    table = Table(
        "aborted transactions", "µs a lookup", "µs, behind a long transaction", title="Lookup in the aborted index"
    )
    for count in (1_000, 10_000, 100_000, 1_000_000):
        plain, held = TransactionIndex(), TransactionIndex()
        for number in range(count):
            first = number * 10
            plain.add(AbortedTransaction(number, first, first + 9, first + 10))
            held.add(AbortedTransaction(number, first, first + 9, 0))
        table.add_row(f"{count:,}", *(f"{_lookup_microseconds(index, count):.1f}" for index in (plain, held)))
    return table


def recovery_table(directory: str) -> Table:
    table = Table("opening", "seconds", "bytes scanned", "of", title="Opening 1 GB of log, segments of 64 MB")
    config = LogConfig(segment_bytes=64 * 1024**2)
    with _log(directory, config) as log:
        batches = [split_batches(_batch(-1, -1, 16, 1000, transactional=False))[0]] * 64
        while log.size_bytes < RECOVERY_BYTES or log.active_segment.size_bytes < config.segment_bytes // 2:
            log.append(batches, leader_epoch=0, now_ms=NOW_MS)
        table.add_row("after kill -9, without a bookmark", *_measure_opening(LocalFileSystem(), directory, config))
        table.add_row("after a reboot, never flushed", *_measure_opening(RebootedFileSystem(), directory, config))
        log.close()
        table.add_row("after a clean close", *_measure_opening(LocalFileSystem(), directory, config))
    return table


def bookmark_table(directory: str) -> Table:
    table = Table(
        "opening", "seconds", "bytes scanned", "of", title="Opening a last segment of 200,000 batches of 200 bytes"
    )
    with _log(directory) as log:
        _fill_with_small_batches(log, range(BOOKMARKED_BATCHES - BATCHES_BEHIND_BOOKMARK))
        begin = time.perf_counter()
        log.write_bookmark()
        bookmark_ms = (time.perf_counter() - begin) * 1e3
        _fill_with_small_batches(log, range(BOOKMARKED_BATCHES - BATCHES_BEHIND_BOOKMARK, BOOKMARKED_BATCHES))
        name = f"after kill -9, {BATCHES_BEHIND_BOOKMARK:,} batches behind a bookmark"
        table.add_row(name, *_measure_opening(LocalFileSystem(), directory, log.config))
        table.caption = f"The bookmark, of 100 producers, was written in {bookmark_ms:.1f} ms."
        shutil.copytree(f"{directory}/bench-0", f"{directory}/copy/bench-0")
        os.remove(f"{directory}/copy/bench-0/{BOOKMARK_FILE}")
        copy = f"{directory}/copy"
        table.add_row("after kill -9, without a bookmark", *_measure_opening(LocalFileSystem(), copy, log.config))
        shutil.rmtree(copy)
    return table


def producer_table(directory: str) -> Table:
    """Show what ended branches cost, and the same ids whose markers leave them an epoch to go on in."""
    table = Table(
        "markers",
        "producers known",
        "memory, MB",
        "bookmark, ms",
        "opening, s",
        title=f"{BRANCHES:,} ids that are over",
    )
    for name, epoch in (("with the epoch after the transaction's", 1), ("with the last epoch", LAST_EPOCH)):
        with _log(directory) as log:
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            for first in range(0, BRANCHES, BRANCHES_AT_ONCE):
                _end_branches(log, range(first, first + BRANCHES_AT_ONCE), epoch)
            gc.collect()
            # The index of the segment grows in either case, and is no part of what is compared.
            log.active_segment.write_indexes()
            megabytes = (tracemalloc.get_traced_memory()[0] - before) / 1e6
            tracemalloc.stop()
            begin = time.perf_counter()
            log.write_bookmark()
            bookmark_ms = (time.perf_counter() - begin) * 1e3
            opening, _, _ = _measure_opening(LocalFileSystem(), directory, log.config)
            table.add_row(name, f"{len(log.producers):,}", f"{megabytes:.1f}", f"{bookmark_ms:.1f}", opening)
    return table


def _end_branches(log: PartitionLog, branches: range, epoch: int) -> None:
    batches = [_batch(branch, 0, 1, 100, transactional=True) for branch in branches]
    log.append(split_batches(b"".join(batches)), leader_epoch=0, now_ms=NOW_MS)
    log.append_markers([end_marker(branch, epoch, True, 0, 2) for branch in branches], leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


class RebootedFileSystem(LocalFileSystem):
    """A machine that has booted since the log was open, so that only what was flushed can be trusted."""

    def boot_id(self) -> str:
        return "another boot"


def _measure_opening(file_system: LocalFileSystem, directory: str, config: LogConfig) -> tuple[str, str, str]:
    begin = time.perf_counter()
    log = PartitionLog.open(file_system, f"{directory}/bench-0", config, now_ms=NOW_MS)
    seconds = time.perf_counter() - begin
    for segment in log.segments:
        segment.close()
    return f"{seconds:.3f}", f"{log.recovery.scanned_bytes:,}", f"{log.size_bytes:,}"


def _alternate(*measures: Callable[[], float]) -> list[list[float]]:
    rounds = [[measure() for measure in measures] for _ in range(ROUNDS)]
    return [list(column) for column in zip(*rounds, strict=True)]


def _in_microseconds(ours: Sequence[float], bare: Sequence[float], count: int) -> tuple[str, str, str]:
    ratio = [one / other for one, other in zip(bare, ours, strict=True)]
    microseconds = [statistics.median(seconds) / count * 1e6 for seconds in (ours, bare)]
    return f"{microseconds[0]:.1f}", f"{microseconds[1]:.1f}", _spread(ratio)


def _spread(ratio: Sequence[float]) -> str:
    return f"{statistics.median(ratio):.2f} ({min(ratio):.2f}-{max(ratio):.2f})"


def _bare_writes(directory: str, batches: Sequence[bytes], per_write: int) -> float:
    writes = [b"".join(batches[start : start + per_write]) for start in range(0, len(batches), per_write)]
    path = f"{directory}/bare"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    begin = time.perf_counter()
    for data in writes:
        os.write(descriptor, data)
    seconds = time.perf_counter() - begin
    os.close(descriptor)
    os.remove(path)
    return seconds


def _log_appends(directory: str, batches: Sequence[bytes], per_append: int) -> float:
    with _log(directory) as log:
        log.append(split_batches(_batch(-1, -1, 1, 10, transactional=False)), leader_epoch=0, now_ms=NOW_MS)
        begin = time.perf_counter()
        for start in range(0, len(batches), per_append):
            taken = [batch for data in batches[start : start + per_append] for batch in split_batches(data)]
            log.append(taken, leader_epoch=0, now_ms=NOW_MS)
        return time.perf_counter() - begin


def _bare_reads(paths: Sequence[str]) -> float:
    seconds = 0.0
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        begin = time.perf_counter()
        position = 0
        while data := os.pread(descriptor, READ_BYTES, position):
            position += len(data)
        seconds += time.perf_counter() - begin
        os.close(descriptor)
    return seconds


def _log_reads(log: PartitionLog, isolation: Isolation) -> float:
    """Fetch the whole log; where the next fetch begins is found outside of the measured time, as a client would."""
    offset, seconds = 0, 0.0
    while True:
        begin = time.perf_counter()
        fetched = log.read(offset, max_bytes=READ_BYTES, isolation=isolation)
        seconds += time.perf_counter() - begin
        if not fetched.records:
            return seconds
        offset = _next_offset(fetched.records)


def _next_offset(records: bytes) -> int:
    position, offset = 0, 0
    while position + 61 <= len(records):
        size_bytes = int.from_bytes(records[position + 8 : position + 12], "big") + 12
        if position + size_bytes > len(records):
            break
        base_offset = int.from_bytes(records[position : position + 8], "big")
        offset = base_offset + int.from_bytes(records[position + 23 : position + 27], "big") + 1
        position += size_bytes
    return offset


def _fill_with_small_batches(log: PartitionLog, numbers: Sequence[int]) -> None:
    for start in range(0, len(numbers), 64):
        data = [
            _batch(number % 100, number // 100, 1, 120, transactional=True) for number in numbers[start : start + 64]
        ]
        log.append(split_batches(b"".join(data)), leader_epoch=0, now_ms=NOW_MS)


def _fill_with_transactions(log: PartitionLog, *, transactions: int, abort_every: int) -> None:
    for number in range(transactions):
        producer_id = number % 100
        data = _batch(producer_id, number // 100 * 10, 10, 200, transactional=True)
        (result,) = log.append(split_batches(data), leader_epoch=0, now_ms=NOW_MS)
        assert isinstance(result, Appended)
        marker = end_marker(producer_id, 0, number % abort_every != 0, 0)
        log.append_markers([marker], leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


def _lookup_microseconds(index: TransactionIndex, count: int) -> float:
    starts = range(0, count * 10, max(count // 1000, 1) * 10)
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        for start in starts:
            assert len(index.search(start, start + 100).transactions) <= 11
        best = min(best, (time.perf_counter() - begin) / len(starts) * 1e6)
    return best


def _batch(producer_id: int, sequence: int, records: int, value_bytes: int, *, transactional: bool) -> bytes:
    return build_batch(
        [NewRecord(key=None, value=bytes(value_bytes), timestamp=NOW_MS)] * records,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        transactional=transactional,
    )


def _mixed_batch(producer_id: int, sequence: int, records: int, value_bytes: int) -> bytes:
    """Build a batch whose records differ in size, so that each of them has to be looked at."""
    return build_batch(
        [
            NewRecord(bytes(value_bytes * (90 + 7 * number % 21) // 100), timestamp=NOW_MS + number)
            for number in range(records)
        ],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )


@contextmanager
def _log(directory: str, config: LogConfig | None = None) -> Iterator[PartitionLog]:
    path = f"{directory}/bench-0"
    log = PartitionLog.open(LocalFileSystem(), path, config or LogConfig(), now_ms=NOW_MS)
    try:
        yield log
    finally:
        log.close()
        shutil.rmtree(path)


if __name__ == "__main__":
    main()
