"""What `mypy --strict` says of an application, and of questions to nodes, with the package as it is installed here."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / ".build" / "application-types"
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

QUESTIONS = """
from eagleray.actors.kafka_server.asking import AdminCall, ask_controller, ask_coordinator, ask_leader
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.fan_out import FanOut
from eagleray.actors.lanes.link import Link
from eagleray.actors.lanes.peers import Peers
from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.broker.controller.events import ConfigsDescribed, DescribeConfigs
from eagleray.broker.groups.events import FetchOffsets, OffsetsFetched
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.partitions.events import ListOffset, OffsetListed
from eagleray.client.calls import FindNode, Question, RepeatedCall, call_with_retries
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime

PARTITION = TopicPartition("orders", 0)


def listed(reply: OffsetListed | None) -> None: ...
def fetched(reply: OffsetsFetched | None) -> None: ...
def described(reply: ConfigsDescribed | None) -> None: ...


def ask_nodes(peers: Peers, link: Link, runtime: ClientRuntime, call: Call) -> None:
    peers.ask(1, listed, ListOffset, PARTITION, 0)
    peers.ask(1, listed, ListOffset, PARTITION, "0")  # arg-type
    peers.ask(1, fetched, ListOffset, PARTITION, 0)  # arg-type
    link.ask(fetched, FetchOffsets, "group", require_stable=True)
    link.ask(fetched, FetchOffsets, "group", is_stable=True)  # call-arg
    link.ask(listed, FetchOffsets, "group")  # arg-type
    runtime.ask(1, listed, ListOffset, PARTITION, 0)
    runtime.ask(1, listed, ListOffset)  # call-arg
    runtime.ask(1, fetched, ListOffset, PARTITION, 0)  # arg-type
    call.ask(1, listed, ListOffset, 0, PARTITION)  # arg-type arg-type
    call.ask(1, fetched, ListOffset, PARTITION, 0)  # arg-type
    call.ask_here(fetched, FetchOffsets, b"group")  # arg-type
    call.ask_here(listed, FetchOffsets, "group")  # arg-type
    call.ask_controller(described, DescribeConfigs, "orders")
    call.ask_controller(described, DescribeConfigs, 1)  # arg-type
    call.ask_controller(listed, DescribeConfigs, "orders")  # arg-type


def ask_controller_of(channel: ControllerChannel) -> None:
    channel.ask(described, DescribeConfigs, "orders")
    channel.ask(described, DescribeConfigs)  # call-arg
    channel.ask_within(1.0, listed, DescribeConfigs, "orders")  # arg-type
    channel.ask(listed, ListOffset, PARTITION, 0)  # type-var


def gather(fan_out: FanOut[OffsetListed]) -> None:
    fan_out.ask(0, ListOffset, PARTITION, 0)
    fan_out.ask(0, ListOffset, PARTITION)  # call-arg
    fan_out.ask(0, FetchOffsets, "group")  # arg-type


async def wait(peers: Peers, call: AdminCall) -> None:
    reply: OffsetListed = await peers.call(1, ListOffset, PARTITION, 0)
    await peers.call(1, ListOffset, "orders", 0)  # arg-type
    (await ask_leader(call, PARTITION, ListOffset, 0)) == reply
    await ask_leader(call, PARTITION, ListOffset, "0")  # arg-type
    await ask_coordinator(call, ProcessRole.GROUPS, FetchOffsets, 1)  # arg-type
    configs: ConfigsDescribed | None = await ask_controller(call, 1, DescribeConfigs, "orders")
    await ask_controller(call, 1, DescribeConfigs, topics="orders")  # call-arg


async def repeat(runtime: ClientRuntime, find: FindNode, call: RepeatedCall[OffsetListed]) -> None:
    call.ask(Question(ListOffset, PARTITION, 0))
    call.ask(Question(ListOffset, PARTITION, timestamp="0"))  # arg-type
    call.ask(Question(FetchOffsets, "group"))  # arg-type
    question = Question(FetchOffsets, "group", None, True)
    reply: OffsetsFetched = await call_with_retries(runtime, find, "asking", question, retry_policy=RetryPolicy())
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """What mypy says about each program: the line and the kind of each error."""
    folder = tmp_path_factory.mktemp("types")
    (folder / "application.py").write_text(APPLICATION)
    (folder / "questions.py").write_text(QUESTIONS)
    # What mypy knows of the package is kept: without it, it takes most of the time that the test takes.
    cache = ("--cache-dir", str(CACHE))
    programs = ("application.py", "questions.py")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-color-output", *cache, *programs]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    found = re.findall(r"^(\w+)\.py:(\d+): error: .*  \[([a-z-]+)\]$", result.stdout, re.MULTILINE)
    errors: dict[str, list[tuple[int, str]]] = {"application": [], "questions": []}
    for program, line, kind in found:
        errors[program].append((int(line), kind))
    return errors


def expected(program: str) -> list[tuple[int, str]]:
    """The errors that the comments at the ends of a program's lines announce."""
    return [
        (number, kind)
        for number, line in enumerate(program.splitlines(), 1)
        if (match := re.search(r"  # ([a-z -]+)$", line))
        for kind in match[1].split()
    ]


def test_mypy_refuses_exactly_what_is_wrong(errors):
    assert errors["application"] == expected(APPLICATION)


def test_mypy_checks_each_question_from_its_fields_to_its_callback(errors):
    assert errors["questions"] == expected(QUESTIONS)
