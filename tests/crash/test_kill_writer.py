"""A process that writes to a log on a real disk is killed with SIGKILL, again and again."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.protocol.records import split_batches
from tests.crash.writer import CONFIG, NOW_MS, TRANSACTIONAL_IDS, Acknowledged, Sent
from tests.support.log_checks import committed_values

ROUNDS = 12
MAX_REPORTS = 250
ROOT = Path(__file__).parents[2]

REPORTS = msgspec.json.Decoder(Sent | Acknowledged)
Event = tuple[str, int]


class Witness:
    """Everything that the writers told."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}
        self.offsets: dict[int, int] = {}

    def pending(self) -> list[Sent]:
        return [sent for number, sent in self.sent.items() if number not in self.offsets]

    def hear(self, line: bytes) -> None:
        report = REPORTS.decode(line)
        if isinstance(report, Sent):
            assert report.number not in self.sent
            self.sent[report.number] = report
        else:
            assert report.number not in self.offsets
            self.offsets[report.number] = report.base_offset

    def run_and_kill(self, directory: Path, seed: int) -> None:
        """Let a writer go on where the last one was stopped, and kill it at a moment that nobody chose."""
        command = (sys.executable, "-m", "tests.crash.writer", str(directory), str(seed))
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
            try:
                writer.stdin.write(msgspec.json.encode(self.pending()))
                writer.stdin.close()
                for _ in range(random.Random(seed).randint(1, MAX_REPORTS)):
                    line = writer.stdout.readline()
                    assert line.endswith(b"\n"), "the writer failed before it was killed"
                    self.hear(line)
            finally:
                writer.kill()
            # What was still in the pipe was told, but for a line that the death cut short.
            for line in writer.stdout.read().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    self.hear(line)

    def events(self, producer_id: int) -> list[Event]:
        return [event_of(sent) for sent in self.sent.values() if sent.producer_id == producer_id]

    def acknowledged_events(self, producer_id: int) -> int:
        """Return how many of a producer's events, from the first on, have to be in the log."""
        known = [sent.number in self.offsets for sent in self.sent.values() if sent.producer_id == producer_id]
        return len(known) - known[::-1].index(True) if True in known else 0


def event_of(sent: Sent) -> Event:
    return ("value", sent.number) if sent.commit is None else ("marker", int(sent.commit))


def events_in(log: PartitionLog) -> tuple[dict[int, list[Event]], dict[int, int]]:
    """Return what each producer did according to the log, and the offset of each value."""
    events: dict[int, list[Event]] = {}
    offsets: dict[int, int] = {}
    for segment in log.segments:
        for batch in split_batches(segment.read(0, segment.size_bytes)):
            of_producer = events.setdefault(batch.header.producer_id, [])
            if batch.header.is_control:
                event = ("marker", int(batch.end_transaction_marker().commit))
                # A coordinator that was not answered writes its marker again, which changes nothing.
                if of_producer[-1] != event:
                    of_producer.append(event)
            else:
                number = int(batch.records()[0].value)
                assert number not in offsets, "a batch is in the log twice"
                offsets[number] = batch.header.base_offset
                of_producer.append(("value", number))
    return events, offsets


def committed_in(events: dict[int, list[Event]]) -> set[int]:
    """Return the numbers that a committed reader may see."""
    committed: set[int] = set()
    for producer_id, of_producer in events.items():
        in_transaction: list[int] = []
        for kind, number in of_producer:
            if producer_id not in TRANSACTIONAL_IDS:
                committed.add(number)
            elif kind == "value":
                in_transaction.append(number)
            else:
                committed.update(in_transaction if number else ())
                in_transaction = []
    return committed


def check(directory: Path, witness: Witness) -> None:
    log = PartitionLog.open(LocalFileSystem(), str(directory), CONFIG, now_ms=NOW_MS)
    events, offsets = events_in(log)
    for producer_id, found in events.items():
        sent = witness.events(producer_id)
        assert found == sent[: len(found)]
        assert len(found) >= witness.acknowledged_events(producer_id)
    values = {number for number, sent in witness.sent.items() if sent.commit is None}
    acknowledged = {number: offset for number, offset in witness.offsets.items() if number in values}
    assert acknowledged.items() <= offsets.items()
    log.advance_high_watermark(log.log_end_offset)
    committed = committed_in(events)
    expected = [(offset, number) for number, offset in offsets.items() if number in committed]
    seen = [(offset, int(value)) for offset, value in committed_values(log)]
    assert seen == sorted(pair for pair in expected if pair[0] < log.last_stable_offset)
    log.close()


def test_everything_acknowledged_is_there_exactly_once_after_every_kill(tmp_path: Path):
    witness = Witness()
    directory = tmp_path / "topic-0"
    for seed in range(1, ROUNDS + 1):
        witness.run_and_kill(directory, seed)
        # The next writer has to recover what this one left, so the check looks at a copy.
        shutil.copytree(directory, tmp_path / f"copy-{seed}")
        check(tmp_path / f"copy-{seed}", witness)
    assert len(witness.offsets) > ROUNDS
    check(directory, witness)
