"""A data directory that an earlier version has written is opened with all that is in it.

What has to be there was written down by the version that wrote the directory (`write_data_directory.py`). A directory
that was left by kill -9 is opened in the same boot of the machine, where only the end of each log can be torn, and in
another, where everything behind the recovery points is looked at; both give the same.
"""

import asyncio
import json
import tarfile

import msgspec
import pytest

from eagleray.protocol.errors import ErrorCode
from tests.golden.kafka import COMMITTED, UNCOMMITTED, batch, leader_epochs, observe
from tests.golden.opening import machine, running
from tests.golden.write_data_directory import DATA, STARTED_MS

VERSIONS = sorted(path.stem for path in DATA.glob("*.json"))
WAYS = {"stopped": "stopped", "killed": "killed", "killed, then booted": "killed"}
NONE = ErrorCode.NONE


class Golden:
    """An unpacked directory, and what its writer noted of it."""

    def __init__(self, version, way, folder):
        self.noted = json.loads((DATA / f"{version}.json").read_text())
        self.seen = self.noted["seen"]
        with tarfile.open(DATA / f"{version}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        self._folder = folder / WAYS[way]
        self._boot_id = "another boot" if way.endswith("booted") else self.noted["boot_id"]

    def open(self, scenario):
        """Run a scenario with a client of Kafka's protocol and one of ours."""

        async def limited():
            async with asyncio.timeout(120), running(self._folder) as (_, kafka, cluster):
                await scenario(kafka, cluster)

        with machine(self._boot_id, self.noted["opened_ms"]):
            asyncio.run(limited())

    def topic(self, name):
        return self.seen["topics"][name]

    def values(self, topic, partition, isolation):
        return [record["value"] for record in self.topic(topic)["partitions"][partition][isolation]]


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(params=WAYS)
def golden(request, version, tmp_path):
    return Golden(version, request.param, tmp_path)


@pytest.fixture
def killed(version, tmp_path):
    """The one way, for what does not depend on how the directory was left."""
    return Golden(version, "killed", tmp_path)


def _differences(expected, found, path=""):
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted(expected.keys() | found.keys())
        pairs = [(name, expected.get(name), found.get(name)) for name in names]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = [(number, *pair) for number, pair in enumerate(zip(expected, found, strict=True))]
    else:
        return [] if expected == found else [f"{path}: {expected} was written, {found} is read"]
    return [line for name, *pair in pairs for line in _differences(*pair, f"{path}/{name}")]


def test_there_is_a_data_directory_to_open():
    assert "887b582" in VERSIONS


def test_everything_that_was_written_is_read(golden):
    async def scenario(kafka, _):
        assert _differences(golden.seen, await observe(kafka, golden.noted["leader_epochs"])) == []

    golden.open(scenario)


def test_leader_epochs_ascend(golden):
    async def scenario(kafka, _):
        now = await leader_epochs(kafka)
        earlier = golden.noted["leader_epochs"]
        assert now.keys() == earlier.keys()
        assert [name for name, epoch in earlier.items() if now[name] <= epoch] == []
        assert max(earlier.values()) > 0

    golden.open(scenario)


def test_open_transaction_is_aborted_when_its_id_is_initialised_again(golden):
    async def scenario(kafka, _):
        before = golden.seen["transactions"]["open"]
        assert before["transaction_state"] == "Ongoing"
        unstable = await kafka.group_offsets("pending", require_stable=True)
        assert unstable["orders-0"]["error_code"] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        producer = await kafka.init("open")
        now = (producer.producer_id, producer.producer_epoch)
        assert now > (before["producer_id"], before["producer_epoch"])
        assert (await kafka.transactions())["open"]["transaction_state"] in ("CompleteAbort", "Empty")
        for topic in ("orders", "segments"):
            await _assert_aborted(kafka, golden, topic)
        offsets = await kafka.group_offsets("pending", require_stable=True)
        assert (offsets["orders-0"]["error_code"], offsets["orders-0"]["committed_offset"]) == (NONE, 1)

    golden.open(scenario)


async def _assert_aborted(kafka, golden, topic):
    written = golden.topic(topic)["partitions"][0]
    offsets = await kafka.offsets(topic, 0)
    assert offsets["high_watermark"] == written["high_watermark"] + 1
    assert offsets["last_stable_offset"] == offsets["high_watermark"]
    assert await kafka.records(topic, 0, COMMITTED) == written["committed"]
    assert await kafka.records(topic, 0, UNCOMMITTED) == written["uncommitted"]


def test_prepared_transaction_is_completed(killed):
    async def scenario(kafka, _):
        assert (await kafka.transactions())["prepared"]["transaction_state"] == "CompleteCommit"
        found = [record for number in range(2) for record in await kafka.records("prepared", number, COMMITTED)]
        assert len(found) == 1

    killed.open(scenario)


def test_repeated_batch_is_known_for_a_duplicate(golden):
    async def scenario(kafka, _):
        repeated = golden.noted["repeated"]
        topic, partition = repeated["topic"], repeated["partition"]
        producer = await _producer(kafka, repeated)
        values = [value.encode() for value in repeated["values"]]
        end = await kafka.offset(topic, partition, -1)
        again = await kafka.produce(topic, partition, batch(values, producer, 0, timestamp=STARTED_MS))
        assert (again.error_code, again.base_offset) == (NONE, repeated["base_offset"])
        gap = await kafka.produce(topic, partition, batch([b"gap"], producer, 7, timestamp=STARTED_MS))
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await kafka.offset(topic, partition, -1) == end
        following = await kafka.produce(topic, partition, batch([b"next"], producer, 2, timestamp=STARTED_MS))
        assert (following.error_code, following.base_offset) == (NONE, end)

    golden.open(scenario)


async def _producer(kafka, repeated):
    """The identity that the producer of the directory had, in the form in which one is answered."""
    return msgspec.structs.replace(
        await kafka.init(None), producer_id=repeated["producer_id"], producer_epoch=repeated["producer_epoch"]
    )


def test_committed_tag_is_still_committed_and_an_open_one_is_not(golden):
    async def scenario(kafka, cluster):
        assert (await cluster.begin("job", tag="batch#1")).already_committed
        transaction = await cluster.begin("job-open", tag="batch#7")
        assert not transaction.already_committed
        async with await cluster.join(transaction.branch()) as writer:
            await writer.send("branched", b"at last", partition=1)
            await transaction.commit([await writer.seal()])
        assert (await kafka.transactions())["job-open"]["transaction_state"] == "CompleteCommit"
        assert [record["value"] for record in await kafka.records("branched", 1, COMMITTED)] == ["YXQgbGFzdA=="]
        assert (await cluster.begin("job-open", tag="batch#7")).already_committed

    golden.open(scenario)


def test_fenced_producer_stays_fenced_and_an_ended_one_goes_on(killed):
    async def scenario(kafka, _):
        ended = killed.seen["transactions"]["copier"]
        producer = await kafka.init("copier")
        assert producer.producer_id == ended["producer_id"]
        assert producer.producer_epoch > ended["producer_epoch"]
        answer = await kafka.produce(
            "orders", 1, batch([b"more"], producer, 0, timestamp=STARTED_MS, transactional=True), "copier"
        )
        assert answer.error_code == NONE
        await kafka.end("copier", producer, commit=True)
        zombie = await _producer(kafka, ended)
        fenced = await kafka.produce(
            "orders", 1, batch([b"zombie"], zombie, 0, timestamp=STARTED_MS, transactional=True), "copier"
        )
        assert fenced.error_code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)

    killed.open(scenario)


def test_no_producer_id_is_handed_out_twice(killed):
    async def scenario(kafka, _):
        fresh = [await kafka.init(name) for name in (None, "fresh", None, "fresher")]
        ids = [each.producer_id for each in fresh] + killed.noted["producer_ids"]
        assert len({*ids}) == len(ids)

    killed.open(scenario)


def test_deleted_topic_stays_deleted(killed):
    async def scenario(kafka, _):
        topics = await kafka.topics()
        assert "deleted" not in topics
        assert not {topic.topic_id.hex() for topic in topics.values()} & {*killed.noted["deleted_topic_ids"]}
        assert killed.values("reborn", 0, "uncommitted") == ["bmV3"]

    killed.open(scenario)


def test_compaction_had_run_and_the_log_goes_on_behind_it(killed):
    async def scenario(kafka, _):
        written = killed.topic("compacted")["partitions"][0]
        assert len(written["uncommitted"]) < written["high_watermark"] // 2
        records = batch([b"newer"], keys=[b"a"], timestamp=STARTED_MS)
        assert (await kafka.produce("compacted", 0, records)).base_offset == written["high_watermark"]

    killed.open(scenario)
