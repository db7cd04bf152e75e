"""`make demo`: the log at work, in one terminal, in a few seconds.

A process writes transactions to a partition's log and is killed with SIGKILL in the middle of one. The log is opened
again and read at both isolation levels.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.log import Appended, Isolation, LogConfig, NewMarker, PartitionLog, Rejection
from eagleray.protocol.records import (
    NewRecord,
    RecordBatch,
    build_batch,
    committed_batches,
    scan_batches,
    split_batches,
)

_PRODUCERS = 4
_RECORDS_PER_BATCH = 5
_SEGMENT_BYTES = 256 * 1024
_ABORT_EVERY = 10
_FETCH_BYTES = 1024 * 1024
_COORDINATOR_EPOCH = 0
_LEADER_EPOCH = 0


def main() -> None:
    """Run the demo, or its writing process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write-to", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long the writer lives (default: 2)")
    arguments = parser.parse_args()
    if arguments.write_to:
        _write_until_killed(arguments.write_to)
    else:
        _run(Console(), arguments.seconds)


def _run(console: Console, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="eagleray-demo-") as directory:
        partition = f"{directory}/orders-0"
        console.print(f"[bold]1.[/] A process writes transactions of {_PRODUCERS} producers to [cyan]orders-0[/].")
        acknowledged, aborted = _kill_a_writer(partition, seconds)
        console.print(
            f"[bold]2.[/] After {seconds:g} s it is ended by [red]kill -9[/]: it had {acknowledged:,} commits "
            f"and {aborted:,} aborts acknowledged."
        )
        log = PartitionLog.open(LocalFileSystem(), partition, _config(), now_ms=_now_ms())
        log.advance_high_watermark(log.log_end_offset)
        console.print(
            f"[bold]3.[/] The log is opened again: {len(log.segments)} segments, {log.size_bytes:,} bytes, of which "
            f"{log.recovery.scanned_bytes:,} had to be verified and {log.recovery.cut_bytes:,} were torn and cut off."
        )
        console.print("[bold]4.[/] A producer repeats its last batch, and a zombie of an older epoch writes:")
        _show_fencing(console, log)
        console.print("[bold]5.[/] The log is read at both isolation levels:")
        committed = _show_both_isolations(console, log)
        log.close()
    _require_exact(console, committed, acknowledged)


def _kill_a_writer(partition: str, seconds: float) -> tuple[int, int]:
    """Start the writing process, kill it, and return how many commits and aborts it had seen acknowledged."""
    command = [sys.executable, "-m", "eagleray.demo", "--write-to", partition]
    with tempfile.TemporaryFile("w+") as acknowledgements:
        with subprocess.Popen(command, stdout=acknowledgements) as writer:  # noqa: S603 - our own module
            time.sleep(seconds)
            os.kill(writer.pid, signal.SIGKILL)
        acknowledgements.seek(0)
        text = acknowledgements.read()
    # The writer may have died in the middle of a line, as it may have in the middle of a batch.
    outcomes = text[: text.rfind("\n") + 1].split()
    return outcomes.count("commit"), outcomes.count("abort")


def _write_until_killed(partition: str) -> None:
    log = PartitionLog.open(LocalFileSystem(), partition, _config(), now_ms=_now_ms())
    sequences = [0] * _PRODUCERS
    number = 0
    while True:
        producer_id = number % _PRODUCERS
        batch = _build(producer_id, 1, sequences[producer_id], number)
        sequences[producer_id] += _RECORDS_PER_BATCH
        _expect_appended(log.append([batch], leader_epoch=_LEADER_EPOCH, now_ms=_now_ms()))
        commit = number % _ABORT_EVERY != 0
        marker = NewMarker(producer_id, 1, commit, _COORDINATOR_EPOCH)
        _expect_appended(log.append_markers([marker], leader_epoch=_LEADER_EPOCH, now_ms=_now_ms()))
        print("commit" if commit else "abort", flush=True)  # noqa: T201 - the pipe to the demo
        number += 1


def _expect_appended(results: list[Appended | Rejection]) -> None:
    assert all(isinstance(result, Appended) for result in results), results


def _show_fencing(console: Console, log: PartitionLog) -> None:
    entry = max(log.producers, key=lambda producer: producer.batches[-1].last_offset if producer.batches else -1)
    last = entry.batches[-1]
    repeat = _build(entry.producer_id, entry.epoch, last.first_sequence, 0)
    zombie = _build(entry.producer_id, entry.epoch - 1, entry.next_sequence, 0)
    for batch in (repeat, zombie):
        (result,) = log.append([batch], leader_epoch=_LEADER_EPOCH, now_ms=_now_ms())
        if isinstance(result, Appended):
            console.print(f"   repeat → offsets {result.base_offset}-{result.last_offset}, as the first time")
        else:
            console.print(f"   zombie → [red]{result.error_code.name}[/]: {result.message}")


def _show_both_isolations(console: Console, log: PartitionLog) -> int:
    table = Table("isolation", "records", "transactions", "up to offset")
    committed = 0
    for isolation in Isolation:
        batches = list(_consume(log, isolation))
        records = sum(len(batch.records()) for batch in batches)
        committed = len(batches)
        table.add_row(isolation.name.lower(), f"{records:,}", f"{len(batches):,}", f"{log.readable_end(isolation):,}")
    console.print(table)
    return committed


def _consume(log: PartitionLog, isolation: Isolation) -> Iterator[RecordBatch]:
    """Fetch as a consumer does, and yield the batches that it would show to its application."""
    offset = log.log_start_offset
    while True:
        fetched = log.read(offset, max_bytes=_FETCH_BYTES, isolation=isolation)
        batches = scan_batches(fetched.records).batches
        if not batches:
            return
        aborted = [(one.first_offset, one.producer_id) for one in fetched.aborted_transactions]
        yield from committed_batches(batches, aborted)
        offset = batches[-1].header.next_offset


def _require_exact(console: Console, committed: int, acknowledged: int) -> None:
    # The process may have died between a marker's write and its word about it, so one more may be there.
    if committed - acknowledged not in (0, 1):
        console.print(f"[bold red]{committed:,} transactions are visible, but {acknowledged:,} were acknowledged.[/]")
        raise SystemExit(1)
    console.print(
        f"[bold green]Exact:[/] every acknowledged commit is there once ({committed:,} visible, "
        f"{acknowledged:,} acknowledged before the kill), and no aborted record is."
    )


def _build(producer_id: int, epoch: int, sequence: int, number: int) -> RecordBatch:
    timestamp = _now_ms()
    value = random.Random(number).randbytes(100)  # noqa: S311 - sample data
    records = [
        NewRecord(key=b"order-%d" % (number * _RECORDS_PER_BATCH + index), value=value, timestamp=timestamp)
        for index in range(_RECORDS_PER_BATCH)
    ]
    data = build_batch(
        records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    return split_batches(data)[0]


def _config() -> LogConfig:
    return LogConfig(segment_bytes=_SEGMENT_BYTES)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
