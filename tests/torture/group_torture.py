"""Members of one group, by handles and by librdkafka, that join, leave and are killed while they copy a topic.

python -m tests.torture.group_torture --seconds 300 --seed 7

Every record of the source has to be in the copy exactly once, whatever happened to those that copied it.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec

from eagleray.broker.identities import TopicPartition
from tests.support.group_flavours import World, group_world
from tests.torture.group_copier import GROUP, KINDS, SOURCE, TARGET, CopierSpec

PARTITIONS = 6
MEMBERS_OF_A_KIND = 2
KILL_SHARE = 0.6
"""Of the members that are hurt; the others leave."""

SETTLE_S = 120.0
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "2000",
}


class GroupReport(msgspec.Struct, frozen=True):
    """What was done to the group, and what is wrong with the copy."""

    seed: int
    written: int
    killed: Counter[str]
    left: Counter[str]
    missing: Counter[bytes]
    too_many: Counter[bytes]
    failed: tuple[int, ...]
    """Exit codes of those that left and did not end well."""

    @property
    def is_good(self) -> bool:
        """Whether the copy is exact."""
        return not self.missing and not self.too_many and not self.failed

    def text(self) -> str:
        """Say it in a few lines."""
        said = f"seed {self.seed}: {self.written} records; killed {dict(self.killed)}, left {dict(self.left)}"
        return f"{said}; missing {dict(self.missing)}, too many {dict(self.too_many)}, exit codes {self.failed}"


class Copiers:
    """The processes that copy, one in each slot; one that ends is followed by another."""

    def __init__(self, spec_path: Path, random: Random, kill_share: float) -> None:
        self._spec_path = spec_path
        self._random = random
        self._kill_share = kill_share
        self._running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.killed: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self.failed: list[int] = []

    def start(self, slot: tuple[str, int]) -> None:
        """Start the process of a slot."""
        kind, number = slot
        command = [sys.executable, "-m", "tests.torture.group_copier", kind, f"{kind}-{number}", str(self._spec_path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._running[slot] = process

    def until_ready(self, slot: tuple[str, int]) -> None:
        """Wait until the process of a slot is a member, or about to be."""
        stdout = self._running[slot].stdout
        assert stdout is not None
        assert stdout.readline() == b"ready\n", f"{slot} did not start"

    def hurt(self, kind: str) -> None:
        """Kill a member of a kind, or have it leave, and start another in its place."""
        slot = (kind, self._random.randrange(MEMBERS_OF_A_KIND))
        self.until_ready(slot)
        if self._random.random() < self._kill_share:
            self._running[slot].kill()
            self._reap(slot)
            self.killed[kind] += 1
        else:
            self._leave(slot)
        self.start(slot)

    def _leave(self, slot: tuple[str, int]) -> None:
        stdin = self._running[slot].stdin
        assert stdin is not None
        stdin.close()
        code = self._reap(slot)
        self.left[slot[0]] += 1
        if code:
            self.failed.append(code)

    def _reap(self, slot: tuple[str, int]) -> int:
        process = self._running.pop(slot)
        code = process.wait(SETTLE_S)
        for stream in (process.stdin, process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        return code

    def stop(self) -> None:
        """Have all leave."""
        for slot in [*self._running]:
            self._leave(slot)

    def end_now(self) -> None:
        """Kill what still runs."""
        for slot in [*self._running]:
            self._running[slot].kill()
            self._reap(slot)


def torture_group(
    directory: Path,
    *,
    seconds: float,
    seed: int,
    kinds: Sequence[str] = tuple(KINDS),
    kill_share: float = KILL_SHARE,
) -> GroupReport:
    """Write, copy and hurt for a while, and until each kind was killed; then let the copy be finished, and compare."""
    random = Random(seed)
    with group_world(directory / "data", "blocking", **SETTINGS) as world:
        for topic in (SOURCE, TARGET):
            world.sync.admin.create_topic(topic, partitions=PARTITIONS)
        copiers = Copiers(_write_spec(world, directory), random, kill_share)
        try:
            written = _hurt(world, copiers, kinds, random, seconds)
            _until_copied(world, written)
            copiers.stop()
        finally:
            copiers.end_now()
        expected, found = Counter(b"%d" % number for number in range(written)), _copies(world)
        return GroupReport(
            seed, written, copiers.killed, copiers.left, expected - found, found - expected, tuple(copiers.failed)
        )


def _write_spec(world: World, directory: Path) -> Path:
    image = world.cluster.runtime.view.image
    servers = ",".join(f"{node.host}:{node.port}" for node in image.nodes.values())
    path = directory / "spec.msgpack"
    path.write_bytes(msgspec.msgpack.encode(CopierSpec(world.nodes.token, image, servers)))
    return path


def _hurt(world: World, copiers: Copiers, kinds: Sequence[str], random: Random, seconds: float) -> int:
    """Start all copiers, and hurt one after the other while records are written; return how many were."""
    for kind in kinds:
        for number in range(MEMBERS_OF_A_KIND):
            copiers.start((kind, number))
    written, deadline_s = 0, time.monotonic() + seconds
    with world.sync.producer() as producer:
        while time.monotonic() < deadline_s or min(copiers.killed[kind] for kind in kinds) == 0:
            for _ in range(random.randint(50, 150)):
                producer.send(SOURCE, b"%d" % written, partition=random.randrange(PARTITIONS))
                written += 1
            copiers.hurt(random.choice(kinds))
    return written


def _until_copied(world: World, written: int) -> None:
    """Wait until the group has come to the end of the source."""
    partitions = [TopicPartition(SOURCE, number) for number in range(PARTITIONS)]
    deadline_s = time.monotonic() + SETTLE_S
    with world.sync.consumer(group=GROUP) as consumer:
        ends = consumer.end_offsets(*partitions)
        assert sum(ends.values()) == written
        while True:
            committed = {name: found.offset for name, found in consumer.committed(*partitions).items()}
            if committed == {name: end for name, end in ends.items() if end}:
                return
            if time.monotonic() > deadline_s:
                raise AssertionError(f"the copy does not come to an end: {committed} of {ends}")
            consumer.poll(100)


def _copies(world: World) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    with world.sync.consumer(TARGET) as consumer:
        ends = consumer.end_offsets()
        while any(consumer.position(name) < end for name, end in ends.items()):
            found.update(record.value for record in consumer.poll(200))
    return found


def main() -> int:
    """Run a torture, print what came of it, and return 0 only if the copy is exact."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.group_torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31), help="chance, unless it is given")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="group-torture-") as directory:
        report = torture_group(Path(directory), seconds=given.seconds, seed=given.seed)
    print(report.text())
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
