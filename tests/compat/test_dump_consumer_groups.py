"""Apache Kafka's own DumpLogSegments reads the records of our new-style consumer groups."""

from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.log.config import LogConfig
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch, split_batches
from tests.compat.kafka_tools.dump_log import Decoder, KafkaTools
from tests.support.consumer_groups import GROUP, REBALANCE_TIMEOUT_MS, Consumer, GroupWorld, settle, topic_id

pytestmark = pytest.mark.kafka_tools

NOW_MS = 1_700_000_100_000


@pytest.fixture
def world() -> GroupWorld:
    """A group that has seen everything that leaves a record: members of all kinds, a pattern, a revocation, an end."""
    world = GroupWorld({"orders": 4, "payments": 1})
    static = Consumer(world, "a", instance_id="one", rack_id="r1", server_assignor="range")
    other = Consumer(world, "b", subscribed_topic_regex="pay.*")
    settle(static)
    settle(static, other)
    assert static.leave(-2) is ErrorCode.NONE
    settle(Consumer(world, "c", instance_id="one"), other)
    Consumer(world, "d").beat()
    other.beat()
    other.leave()
    return world


def test_every_record_is_read_as_we_meant_it(kafka_tools: KafkaTools, tmp_path: Path, world: GroupWorld):
    dumped = dump(kafka_tools, tmp_path / "__consumer_offsets-0", world)
    assert len(dumped) == len(world.log)
    assert {key["type"] for key, _ in dumped} == {"3", "5", "6", "7", "8", "16"}
    by_key = {(key["type"], *key["data"].values()): value and value["data"] for key, value in dumped}
    assert {key[0] for key, value in by_key.items() if value is None} == {"5", "7", "8", "16"}

    state = world.state
    assert by_key["3", GROUP] == {"epoch": state.epoch, "metadataHash": state.metadata_hash}
    assert by_key["6", GROUP]["assignmentEpoch"] == state.assignment_epoch
    c = state.members["c"]
    assert by_key["5", GROUP, "c"] == {
        "instanceId": "one",
        "rackId": "r1",
        "clientId": "client-1",
        "clientHost": "/127.0.0.1",
        "subscribedTopicNames": ["orders"],
        "subscribedTopicRegex": None,
        "rebalanceTimeoutMs": REBALANCE_TIMEOUT_MS,
        "serverAssignor": "range",
    }
    assert by_key["8", GROUP, "c"]["memberEpoch"] == c.epoch
    (assigned,) = by_key["8", GROUP, "c"]["assignedPartitions"]
    assert assigned["partitions"] == sorted(partition.partition for partition in c.assigned)
    (target,) = by_key["7", GROUP, "c"]["topicPartitions"]
    assert target["topicId"] == assigned["topicId"] == kafka_text(topic_id("orders"))


def test_a_revocation_and_a_pattern_are_read(kafka_tools: KafkaTools, tmp_path: Path, world: GroupWorld):
    dumped = dump(kafka_tools, tmp_path / "__consumer_offsets-0", world)
    values = [(key["type"], value["data"]) for key, value in dumped if value is not None]
    told = [value for kind, value in values if kind == "8"]
    assert {value["state"] for value in told} == {0, 1, 2}
    assert all(bool(value["partitionsPendingRevocation"]) == (value["state"] == 1) for value in told)
    assert [value["topics"] for kind, value in values if kind == "16"] == [["payments"]]


def dump(kafka_tools: KafkaTools, directory: Path, world: GroupWorld) -> list[tuple[dict, dict | None]]:
    log = PartitionLog.open(LocalFileSystem(), str(directory), LogConfig(), now_ms=NOW_MS)
    data = build_batch([NewRecord(value, key=key, timestamp=NOW_MS) for key, value in world.log])
    log.append(split_batches(data), leader_epoch=0, now_ms=NOW_MS)
    log.close()
    (file,) = directory.glob("*.log")
    dump = kafka_tools.dump(file, decoder=Decoder.CONSUMER_OFFSETS)
    assert dump.problems == ()
    return [record.decoded() for batch in dump.files[file].batches for record in batch.records]


def kafka_text(identifier: bytes) -> str:
    """Write an id as Kafka does."""
    return urlsafe_b64encode(identifier).decode().rstrip("=")
