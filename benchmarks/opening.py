"""How soon a node serves after kill -9, and how long its loop is held meanwhile.

python -m benchmarks.opening --partitions 1000 --gigabytes 10 --directory /var/tmp

A process fills the partitions of a topic and ends itself with kill -9. Then a node is started on what it has left, once
a round, and ended with kill -9 as soon as every partition is led. Bookmarks are removed before each round, so that
every log is scanned from the beginning of its last segment: no process can leave more to do. The files are in the page
cache, as far as the machine has room for them, because the machine goes on when a process is killed. How late a process
is that does nothing meanwhile says what of the holds is the machine's.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Self

import msgspec
import uvloop

from benchmarks.report import print_table
from eagleray import aio
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.names import BOOKMARK_FILE
from eagleray.protocol.records import NewRecord, build_batch, split_batches
from eagleray.testing import LocalCluster

TOPIC = "load"
LAYOUT = {0: ("controller", "allocator", "coordinator", "markers", "groups", "leader")}
SETTINGS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
RECORD_BYTES = 1000
RECORDS = 16
JOINED = 64
"""So many batches are appended together."""

LOOK_S = 0.001
MAY_HOLD_MS = 100


class Figures(msgspec.Struct):
    """What one start was like, in seconds since the process was started."""

    registered_s: float = 0.0
    first_led_s: float = 0.0
    first_written_s: float = 0.0
    """A record is acknowledged that a client has written to the last of the partitions."""

    all_led_s: float = 0.0
    longest_hold_ms: float = 0.0
    work_ms: float = 0.0
    """The most that the loop's thread has computed without a break."""

    holds: int = 0
    """How often the loop was held for longer than 100 ms."""


class LoopWatch:
    """Looks how late the loop is, every millisecond, from the turn on in which the node learns what it keeps."""

    def __init__(self, figures: Figures, nodes: LocalCluster) -> None:
        self._figures = figures
        self._nodes = nodes
        self._loop = asyncio.get_running_loop()
        self._due_s = time.monotonic()
        self._worked_s = time.thread_time()
        self._look()

    def _look(self) -> None:
        now_s, worked_s, figures = time.monotonic(), time.thread_time(), self._figures
        if any(node.is_registered for node in self._nodes.nodes.values()):
            held_ms = (now_s - self._due_s) * 1000
            figures.longest_hold_ms = max(figures.longest_hold_ms, held_ms)
            figures.work_ms = max(figures.work_ms, (worked_s - self._worked_s) * 1000)
            figures.holds += held_ms > MAY_HOLD_MS
        self._due_s, self._worked_s = now_s + LOOK_S, worked_s
        self._loop.call_later(LOOK_S, self._look)


class Bystander:
    """A thread of a process that does nothing: how late it wakes is the machine's doing."""

    def __init__(self) -> None:
        self.latest_ms = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def _run(self) -> None:
        due_s = time.monotonic() + LOOK_S
        while not self._ended.wait(LOOK_S):
            self.latest_ms = max(self.latest_ms, (time.monotonic() - due_s) * 1000)
            due_s = time.monotonic() + LOOK_S

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


def kill_myself() -> None:
    """End this process as kill -9 does."""
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def batches_of(size_bytes: int, now_ms: int) -> list[bytes]:
    """Build the batches of one producer, about as large together as is said, and join some at a time."""
    records = [NewRecord(bytes(RECORD_BYTES), timestamp=now_ms)] * RECORDS
    count = max(size_bytes // (RECORD_BYTES * RECORDS), 1)
    built = [
        build_batch(records, producer_id=1, producer_epoch=0, base_sequence=RECORDS * number) for number in range(count)
    ]
    return [b"".join(built[first : first + JOINED]) for first in range(0, count, JOINED)]


async def fill(directory: str, partitions: int, size_bytes: int) -> None:
    """Have a node make the partitions, write to their logs, and end this process."""
    async with LocalCluster(directory, LAYOUT, SETTINGS) as nodes:
        on = nodes.connect()
        await on.admin.create_topic(TOPIC, partitions=partitions)
        node, now_ms = nodes.nodes[0], int(time.time() * 1000)
        made = [TopicPartition(TOPIC, number) for number in range(partitions)]
        while not all(node.replica_manager.leader(each) for each in made):
            await asyncio.sleep(LOOK_S)
        batches = batches_of(size_bytes // partitions, now_ms)
        for partition in made:
            log = node.replica_manager.logs[partition]
            for some in batches:
                # Appending writes offsets and epochs into them.
                log.append(split_batches(some), leader_epoch=log.epochs.latest_epoch, now_ms=now_ms)
            log.advance_high_watermark(log.log_end_offset)
        kill_myself()


async def serve(directory: str, partitions: int, began_s: float) -> None:
    """Start a node on what is there, print what that was like, and end this process."""
    figures = Figures()
    nodes = LocalCluster(directory, LAYOUT, SETTINGS)
    LoopWatch(figures, nodes)

    def since() -> float:
        return time.monotonic() - began_s

    async with nodes:
        figures.registered_s = since()
        on = nodes.connect()
        writing = asyncio.create_task(_write(on, partitions - 1))
        writing.add_done_callback(lambda _: setattr(figures, "first_written_s", since()))
        node, missing = nodes.nodes[0], {TopicPartition(TOPIC, number) for number in range(partitions)}
        while missing:
            missing = {each for each in missing if node.replica_manager.leader(each) is None}
            if not figures.first_led_s and len(missing) < partitions:
                figures.first_led_s = since()
            await asyncio.sleep(0.05)
        figures.all_led_s = since()
        await writing
        print(msgspec.json.encode(figures).decode())
        kill_myself()


async def _write(on: aio.Cluster, partition: int) -> None:
    async with on.producer() as producer:
        await producer.send(TOPIC, b"the first", partition=partition)


def run(*arguments: str) -> str:
    """Run a part of the benchmark in a process, which ends itself with kill -9; return what it has printed."""
    command = [sys.executable, "-m", "benchmarks.opening", *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if ended.returncode != -signal.SIGKILL:
        sys.exit(f"{' '.join(command)} has ended with {ended.returncode}")
    return ended.stdout


def compare(directory: str, partitions: int, size_bytes: int, rounds: int) -> None:
    """Fill a directory, start a node on it once a round, and print what each start was like."""
    run("--fill", directory, "--partitions", str(partitions), "--gigabytes", str(size_bytes / 1e9))
    rows = []
    for _ in range(rounds):
        for bookmark in Path(directory).glob(f"logs/*/{BOOKMARK_FILE}*"):
            bookmark.unlink()
        began_s = time.monotonic()
        with Bystander() as bystander:
            printed = run("--serve", directory, "--partitions", str(partitions), "--began", str(began_s))
        found = msgspec.json.decode(printed, type=Figures)
        rows.append(
            [
                f"{found.registered_s:.2f}",
                f"{found.first_led_s:.2f}",
                f"{found.first_written_s:.2f}",
                f"{found.all_led_s:.1f}",
                f"{found.longest_hold_ms:.0f} ({found.work_ms:.0f})",
                str(found.holds),
                f"{bystander.latest_ms:.0f}",
            ]
        )
    heading = ["joined, s", "first led, s", "first write acknowledged, s", "all led, s"]
    heading += ["longest hold, ms (computing)", "> 100 ms", "a bystander's, ms"]
    print_table(f"{partitions} partitions with {size_bytes / 1e9:g} GB after kill -9", heading, rows)


def main() -> None:
    """Measure, or do one part of that."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", default=None, help="where there is room for it; it is removed afterwards")
    parser.add_argument("--fill", help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    size_bytes = int(arguments.gigabytes * 1e9)
    if arguments.fill:
        uvloop.run(fill(arguments.fill, arguments.partitions, size_bytes))
    elif arguments.serve:
        uvloop.run(serve(arguments.serve, arguments.partitions, arguments.began))
    else:
        with tempfile.TemporaryDirectory(prefix="eagleray-bench-", dir=arguments.directory) as directory:
            compare(directory, arguments.partitions, size_bytes, arguments.rounds)


if __name__ == "__main__":
    main()
