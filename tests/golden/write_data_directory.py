"""Write a data directory for later versions to open, and what is in it.

python -m tests.golden.write_data_directory NAME

writes `tests/golden/data/NAME.tar.xz` with two directories, `stopped` after a clean stop and `killed` as kill -9 leaves
it, and `NAME.json`, what this version sees when it opens them. NAME is the commit that is checked out. `README.md`
beside them says what is in them, and is written by hand.
"""

import asyncio
import io
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import (
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    incremental_alter_configs,
    join_group,
    offset_commit,
    sync_group,
)
from eagleray.protocol.records import CompressionType
from tests.golden.kafka import GROUP, Kafka, batch, leader_epochs, observe, plain
from tests.golden.opening import LEADER_THAT_GOES, machine, running

DATA = Path(__file__).parent / "data"
BOOT_ID = "f3b9c1d2-0000-4000-8000-000000000001"
STARTED_MS = 1_790_000_000_000
"""The time of day at which the directory was written, wherever and whenever it is."""

SECOND_START_MS = STARTED_MS + 3_600_000
OPENED_MS = SECOND_START_MS + 60_000
SESSION_MS = 1_800_000
NONE = ErrorCode.NONE
TOPICS = {
    "orders": (3, {}),
    "segments": (1, {"segment.bytes": "1024", "index.interval.bytes": "64", "retention.ms": "-1"}),
    "compacted": (
        1,
        {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.01"},
    ),
    "altered": (1, {"retention.ms": "1000000", "max.message.bytes": "2000"}),
    "prepared": (2, {}),
    "branched": (2, {}),
    "deleted": (1, {}),
    "reborn": (1, {}),
}


class Writer:
    """Fills a running cluster, and notes what a client alone could know of it."""

    def __init__(self, nodes, kafka, cluster, noted):
        self.nodes, self.kafka, self.cluster, self.noted = nodes, kafka, cluster, noted

    async def init(self, transactional_id):
        producer = await self.kafka.init(transactional_id)
        self.noted["producer_ids"].append(producer.producer_id)
        return producer

    async def write(self, topic, partition, values, producer=None, sequence=0, transactional_id=None, **options):
        records = batch(
            values,
            producer,
            sequence,
            timestamp=STARTED_MS,
            transactional=transactional_id is not None,
            **options,
        )
        answer = await self.kafka.produce(topic, partition, records, transactional_id)
        assert answer.error_code == NONE, answer
        return answer.base_offset

    async def create(self, name):
        partitions, settings = TOPICS[name]
        configs = tuple(create_topics.CreatableTopicConfig(*entry) for entry in settings.items())
        topic = create_topics.CreatableTopic(name, partitions, 1, configs=configs)
        (created,) = (await self.kafka.ask_any(create_topics.CreateTopicsRequest((topic,), 10_000), 7)).topics
        assert created.error_code == NONE, created
        return created.topic_id

    async def delete(self, name):
        request = delete_topics.DeleteTopicsRequest((delete_topics.DeleteTopicState(name),), timeout_ms=10_000)
        (deleted,) = (await self.kafka.ask_any(request, 6)).responses
        assert deleted.error_code == NONE, deleted
        self.noted["deleted_topic_ids"].append(deleted.topic_id.hex())

    async def alter(self, topic, settings):
        """Set what has a value, and take back what has none."""
        changes = tuple(
            incremental_alter_configs.AlterableConfig(name, 1 if value is None else 0, value)
            for name, value in settings.items()
        )
        resource = incremental_alter_configs.AlterConfigsResource(2, topic, changes)
        request = incremental_alter_configs.IncrementalAlterConfigsRequest((resource,))
        (answer,) = (await self.kafka.ask_any(request, 1)).responses
        assert answer.error_code == NONE, answer

    async def grow(self, topic, count):
        request = create_partitions.CreatePartitionsRequest(
            (create_partitions.CreatePartitionsTopic(topic, count, None),), 10_000
        )
        (answer,) = (await self.kafka.ask_any(request, 3)).results
        assert answer.error_code == NONE, answer

    async def delete_records(self, topic, offset):
        asked = delete_records.DeleteRecordsTopic(topic, (delete_records.DeleteRecordsPartition(0, offset),))
        leader = (await self.kafka.leaders(topic))[0]
        answer = await self.kafka.ask(leader, delete_records.DeleteRecordsRequest((asked,), 10_000), 2)
        assert answer.topics[0].partitions[0].low_watermark == offset, answer

    async def commit_offset(self, group, topic, offset, member_id="", epoch=-1):
        partition = offset_commit.OffsetCommitRequestPartition(0, offset, committed_metadata="plain")
        request = offset_commit.OffsetCommitRequest(
            group, epoch, member_id, topics=(offset_commit.OffsetCommitRequestTopic(topic, partitions=(partition,)),)
        )
        answer = await self.kafka.ask_coordinator(group, GROUP, request, 9)
        assert answer.topics[0].partitions[0].error_code == NONE, answer

    # Before the restart

    async def fill(self):
        for name in TOPICS:
            await self.create(name)
        await self.orders()
        await self.segments()
        await self.compacted()
        await self.deletions()
        await self.branches()
        await self.classic_group()
        await self.consumer_group()
        await self.commit_offset("plain", "orders", 2)
        await self.commit_offset("pending", "orders", 1)
        await self.alter("altered", {"retention.ms": None, "max.message.bytes": "3000", "flush": "commit"})
        await self.write("altered", 0, [b"altered"])

    async def orders(self):
        """Plain, compressed and idempotent records, and transactions over two partitions."""
        for codec in CompressionType:
            await self.write("orders", 0, [b"%s" % codec.name.encode(), b"x" * 50], compression=codec)
        producer = await self.init(None)
        for sequence in range(3):
            await self.write("orders", 1, [b"idempotent %d" % sequence], producer, sequence)
        producer = await self.init("copier")
        for number, is_committed in enumerate((True, False, True)):
            value = [b"copied %d %s" % (number, b"committed" if is_committed else b"aborted")]
            for partition in range(2):
                await self.write("orders", partition, value, producer, 0, "copier")
            await self.kafka.commit_in_transaction("copier", producer, "in-transaction", "orders", 10 + number)
            producer = await self.kafka.end("copier", producer, commit=is_committed)
        await self.write("orders", 2, [b"alone"], keys=[b"key"])

    async def segments(self):
        """Many segments, in which transactions of two producers begin and end."""
        plain_one, producer = await self.init(None), await self.init("segmented")
        for number in range(12):
            await self.write("segments", 0, [b"plain %d" % number, b"-" * 100], plain_one, 2 * number)
            for sequence in range(2):
                value = [b"transactional %d %d" % (number, sequence), b"=" * 100]
                await self.write("segments", 0, value, producer, 2 * sequence, "segmented")
            producer = await self.kafka.end("segmented", producer, commit=number % 3 > 0)
        await self.kafka.transactions()
        await self.delete_records("segments", 9)

    async def compacted(self):
        """The same keys over and over, a tombstone, and an aborted transaction: compaction has something to do."""
        for number in range(20):
            values = [b"version %d" % number, b"." * 60, None if number == 10 else b"other %d" % number]
            await self.write("compacted", 0, values, keys=[b"a", b"b", b"c%d" % (number % 3)])
        producer = await self.init("compacting")
        await self.write("compacted", 0, [b"never"], producer, 0, "compacting", keys=[b"a"])
        await self.kafka.end("compacting", producer, commit=False)
        await self.write("compacted", 0, [b"last"], keys=[b"z"])

    async def deletions(self):
        for name in ("deleted", "reborn"):
            await self.write(name, 0, [b"gone"])
            await self.delete(name)
        await self.create("reborn")
        await self.write("reborn", 0, [b"new"])

    async def branches(self):
        """A transaction with two attempts at a branch, of which one is committed under a tag, with offsets."""
        transaction = await self.cluster.begin("job", tag="batch#1", timeout_ms=900_000)
        token, sealed = transaction.branch(), []
        for attempt in (b"first attempt", b"second attempt"):
            async with await self.cluster.join(token) as writer:
                await writer.send("branched", attempt, partition=0)
                sealed.append(await writer.seal())
        await transaction.commit(sealed[1:])
        self.noted["producer_ids"] += [transaction.owner.producer_id, *(each.producer.producer_id for each in sealed)]

    async def classic_group(self):
        """A generation of two members, one of them static."""
        dynamic = await self._join("", None)
        joined = await asyncio.gather(self._join(dynamic.member_id, None), self._join("", "instance"))
        assert all(each.error_code == NONE for each in joined), joined
        leader = next(each for each in joined if each.leader == each.member_id)
        given = tuple(
            sync_group.SyncGroupRequestAssignment(
                each.member_id, b"given to %s" % (each.group_instance_id or "").encode()
            )
            for each in leader.members
        )
        instances = {each.member_id: each.group_instance_id for each in leader.members}
        request = sync_group.SyncGroupRequest(
            "classic",
            leader.generation_id,
            leader.member_id,
            instances[leader.member_id],
            "consumer",
            "range",
            given,
        )
        assert (await self.kafka.ask_coordinator("classic", GROUP, request, 5)).error_code == NONE
        await self._commit_as_member(leader, instances[leader.member_id])

    async def _commit_as_member(self, leader, instance):
        partition = offset_commit.OffsetCommitRequestPartition(1, 4)
        topic = offset_commit.OffsetCommitRequestTopic("orders", partitions=(partition,))
        request = offset_commit.OffsetCommitRequest(
            "classic", leader.generation_id, leader.member_id, instance, topics=(topic,)
        )
        answer = await self.kafka.ask_coordinator("classic", GROUP, request, 9)
        assert answer.topics[0].partitions[0].error_code == NONE, answer

    async def _join(self, member_id, instance):
        request = join_group.JoinGroupRequest(
            "classic",
            SESSION_MS,
            60_000,
            member_id,
            instance,
            "consumer",
            (join_group.JoinGroupRequestProtocol("range", b"subscription"),),
        )
        # A join waits for the others, so each has a connection of its own.
        own = Kafka(self.nodes)
        try:
            return await own.ask_coordinator("classic", GROUP, request, 9)
        finally:
            await own.close()

    async def consumer_group(self):
        """Two members that share three partitions, one of them static and with a regular expression."""
        topic_id = (await self.kafka.topics())["orders"].topic_id
        wishes = {
            "member-a": {"subscribed_topic_names": ("orders",)},
            "member-b": {"subscribed_topic_regex": "ord.*s", "instance_id": "instance"},
        }
        epochs, owned = dict.fromkeys(wishes, 0), dict.fromkeys(wishes, ())
        for _ in range(6):
            for member_id, wish in wishes.items():
                has = (
                    (consumer_group_heartbeat.TopicPartitions(topic_id, owned[member_id]),) if owned[member_id] else ()
                )
                first = wish | {"rebalance_timeout_ms": 60_000} if epochs[member_id] == 0 else {}
                request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                    "consumer", member_id, epochs[member_id], topic_partitions=has, **first
                )
                answer = await self.kafka.ask_coordinator("consumer", GROUP, request, 1)
                assert answer.error_code == NONE, answer
                epochs[member_id] = answer.member_epoch
                if answer.assignment is not None:
                    given = answer.assignment.topic_partitions
                    owned[member_id] = tuple(number for each in given for number in each.partitions)
        assert sorted(owned["member-a"] + owned["member-b"]) == [0, 1, 2], owned
        assert all(owned.values()), owned
        await self.commit_offset("consumer", "orders", 3, "member-a", epochs["member-a"])

    # After the restart

    async def fill_more(self):
        await self.until_compacted()
        await self.grow("altered", 2)
        await self.write("orders", 2, [b"at a later epoch"])
        await self.leave_open()
        await self.leave_branches_open()
        await self.idempotent()
        # Bookmarks are written meanwhile, and what is appended then lies behind them.
        await asyncio.sleep(1)
        await self.write("orders", 2, [b"behind the bookmark"])

    async def until_compacted(self):
        """Wait until compaction has left one record of each key, but for those of the active segment."""
        while len(await self.kafka.records("compacted", 0, 0)) > 12:
            await asyncio.sleep(0.05)

    async def leave_open(self):
        """A transaction that holds records in two partitions and an offset of a group."""
        producer = await self.init("open")
        await self.write("orders", 0, [b"open"], producer, 0, "open")
        await self.write("segments", 0, [b"open"], producer, 0, "open")
        await self.kafka.commit_in_transaction("open", producer, "pending", "orders", 9)

    async def leave_branches_open(self):
        transaction = await self.cluster.begin("job-open", tag="batch#7", timeout_ms=900_000)
        writer = await self.cluster.join(transaction.branch())
        await writer.send("branched", b"never committed", partition=1)
        sealed = await writer.seal()
        self.noted["producer_ids"] += [transaction.owner.producer_id, sealed.producer.producer_id]

    async def idempotent(self):
        """A producer whose last batch a later version has to know again."""
        producer = await self.init(None)
        values = ["written once", "and never twice"]
        offset = await self.write("orders", 2, [value.encode() for value in values], producer, 0)
        self.noted["repeated"] = plain(producer, "producer_id", "producer_epoch") | {
            "topic": "orders",
            "partition": 2,
            "values": values,
            "base_offset": offset,
        }

    async def prepare(self):
        """Have a commit decided whose marker cannot be written, for the leader of its partition is gone."""
        producer = await self.init("prepared")
        leaders = await self.kafka.leaders("prepared")
        partition = next(number for number, leader in leaders.items() if leader == LEADER_THAT_GOES)
        await self.write("prepared", partition, [b"prepared"], producer, 0, "prepared")
        self.noted["leader_epochs"] = await leader_epochs(self.kafka)
        await self.nodes.stop_node(LEADER_THAT_GOES)
        await self.kafka.end("prepared", producer, commit=True)
        state = await self.kafka.transaction("prepared")
        assert state["transaction_state"] == "PrepareCommit", state


async def _write(folder):
    noted = {"producer_ids": [], "deleted_topic_ids": []}
    running_dir = folder / "stopped"
    with machine(BOOT_ID, STARTED_MS):
        async with running(running_dir) as parts:
            await Writer(*parts, noted).fill()
    with machine(BOOT_ID, SECOND_START_MS):
        async with running(running_dir) as parts:
            writer = Writer(*parts, noted)
            await writer.fill_more()
            await writer.prepare()
            shutil.copytree(running_dir, folder / "killed")
    return noted


async def _observe(folder, epochs):
    """What this version sees in a copy."""
    with tempfile.TemporaryDirectory() as copy, machine(BOOT_ID, OPENED_MS):
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        async with running(copy) as (_, kafka, _):
            return await observe(kafka, epochs)


def _pack(folder, path):
    """An archive that is the same wherever it is made."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for each in sorted(folder.rglob("*")):
            if each.is_file() and each.suffix != ".lock" and "broker-logs" not in each.parts:
                content = each.read_bytes()
                entry = tarfile.TarInfo(str(each.relative_to(folder)))
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def main(name):
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        noted = asyncio.run(_write(folder))
        seen = {kind: asyncio.run(_observe(folder / kind, noted["leader_epochs"])) for kind in ("stopped", "killed")}
        assert seen["stopped"] == seen["killed"], "a kill has lost something"
        noted |= {"boot_id": BOOT_ID, "opened_ms": OPENED_MS, "seen": seen["stopped"]}
        DATA.mkdir(exist_ok=True)
        (DATA / f"{name}.json").write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n")
        _pack(folder, DATA / f"{name}.tar.xz")


if __name__ == "__main__":
    main(*sys.argv[1:])
