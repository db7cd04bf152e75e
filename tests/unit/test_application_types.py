"""What `mypy --strict` says about an application, with the package as this environment has it installed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

APPLICATION = """
import asyncio
import eagleray
import eagleray.aio
from eagleray.errors import AbortableError, FatalError, ProducerFenced

PRODUCER: eagleray.ProducerSettings = {"linger_ms": 5, "compression_type": "zstd"}
CONSUMER: eagleray.ConsumerSettings = {"group": "audit", "isolation": "read_uncommitted", "max_poll_records": 10}


def place(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
    return 0


def copy(cluster: eagleray.Cluster) -> int:
    with cluster.producer(transactional_id="copy", acks="all", partitioner=place) as producer:
        with producer.transaction():
            delivery: eagleray.Delivery = producer.send("to", b"value", key="key")
            delivery.add_done_callback(lambda ended: print(ended.exception()))
    cluster.producer({"linger.ms": 5}, **PRODUCER).close()
    cluster.producer(lingerms=5)  # call-arg
    cluster.producer(acks=17)  # arg-type
    cluster.producer(compression_type="rar")  # arg-type
    cluster.producer(linger_ms="5")  # arg-type
    consumer: eagleray.Consumer = cluster.consumer("from", **CONSUMER)
    cluster.consumer("from", grop="audit")  # call-arg
    cluster.consumer("from", auto_offset_reset="newest")  # arg-type
    records: list[eagleray.ConsumerRecord] = consumer.poll(100)
    batches: list[eagleray.RecordBatch] = next(cluster.scan(eagleray.TopicPartition("from", 0), 0, 10))
    described: eagleray.TopicDescription = cluster.admin.describe_topic("from")
    transaction: eagleray.Transaction = cluster.begin("job", tag="1")
    token: eagleray.BranchToken = transaction.branch()
    with cluster.join(token, linger_ms=5) as writer:
        sealed: eagleray.SealedBranch = writer.seal()
    cluster.join(token, lingerms=5)  # call-arg
    transaction.commit([sealed])
    eagleray.no_such_name  # attr-defined
    return len(records) + len(batches) + len(described.partitions)


async def copy_on_loop() -> None:
    async with await eagleray.aio.start("data", layout="colocated", lane="ray") as cluster:
        producer: eagleray.aio.Producer = cluster.producer(lingerms=5)  # call-arg
        consumer: eagleray.aio.Consumer = cluster.consumer("from", isolation="committed")  # arg-type
        await producer.close()
        await consumer.close()
    await eagleray.aio.start("data", layot="colocated")  # call-arg


def main() -> None:
    try:
        with eagleray.start("data", layout="colocated") as cluster:
            copy(cluster)
        eagleray.start("data", layout="mixed")  # arg-type
        eagleray.connect(lane="fast")  # arg-type
    except ProducerFenced as fenced:
        code: eagleray.errors.ErrorCode | None = fenced.error_code
    except (AbortableError, FatalError, eagleray.RefusedError) as error:
        print(error.advice + 1)  # operator
    asyncio.run(copy_on_loop())
"""


@pytest.fixture
def complaints(tmp_path: Path) -> list[tuple[int, str]]:
    """What mypy says about the application: the line and the kind of each error."""
    (tmp_path / "application.py").write_text(APPLICATION)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-color-output", "--cache-dir", "cache", "application.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    found = re.findall(r"^application\.py:(\d+): error: .*  \[([a-z-]+)\]$", result.stdout, re.MULTILINE)
    return [(int(line), kind) for line, kind in found]


def test_mypy_refuses_exactly_what_is_wrong(complaints: list[tuple[int, str]]):
    wrong = [
        (number, match[1])
        for number, line in enumerate(APPLICATION.splitlines(), 1)
        if (match := re.search(r"  # ([a-z-]+)$", line))
    ]
    assert complaints == wrong
