"""A client of real nodes by Kafka's protocol alone, and what it sees of a cluster, as plain JSON."""

import asyncio

import msgspec

from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import (
    consumer_group_describe,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
)
from eagleray.protocol.records import NewRecord, build_batch, split_batches
from tests.support.wire import WireClient

GROUP, TRANSACTION = 0, 1
TIMEOUT_MS = 900_000
UNCOMMITTED, COMMITTED = 0, 1
SET_BY_TOPIC = 1
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
}


def plain(struct, *fields):
    """Some fields of a message, or all, as JSON has them."""
    found = msgspec.json.decode(msgspec.json.encode(struct))
    return {name: found[name] for name in fields} if fields else found


def _codes(found):
    if isinstance(found, dict):
        own = {value for name, value in found.items() if name.endswith("error_code")}
        return own.union(*map(_codes, found.values()))
    return set().union(*map(_codes, found)) if isinstance(found, list | tuple) else set()


def batch(values, producer=None, sequence=0, *, timestamp, keys=(), transactional=False, **options):
    """Build a batch of values, each under its own key or under none."""
    if producer is not None:
        options |= {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "base_sequence": sequence,
            "transactional": transactional,
        }
    keys = keys or [None] * len(values)
    records = [
        NewRecord(value, key, timestamp + number, (("number", b"%d" % number),))
        for number, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    return build_batch(records, **options)


class Kafka:
    """Finds the nodes for each request as a client does, and asks again while they load."""

    def __init__(self, nodes):
        self.nodes = nodes.nodes
        self._clients = {}

    async def ask(self, node_id, request, version):
        """Ask a node until it is ready to answer."""
        while True:
            if node_id not in self._clients:
                self._clients[node_id] = await WireClient.connect(self.nodes[node_id])
            answer = await self._clients[node_id].ask(request, version)
            if not _codes(plain(answer)) & NOT_YET:
                return answer
            await asyncio.sleep(0.02)

    async def ask_any(self, request, version):
        return await self.ask(min(number for number in self.nodes if number), request, version)

    async def ask_coordinator(self, key, key_type, request, version):
        found = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        (coordinator,) = (await self.ask_any(found, 6)).coordinators
        return await self.ask(coordinator.node_id, request, version)

    async def metadata(self):
        return await self.ask_any(metadata.MetadataRequest(None), 12)

    async def topics(self):
        """The users' topics by name."""
        return {topic.name: topic for topic in (await self.metadata()).topics if not topic.is_internal}

    async def leaders(self, topic):
        """The nodes that lead each partition of any topic, once there are such."""
        while True:
            found = next(each for each in (await self.metadata()).topics if each.name == topic)
            leaders = {each.partition_index: each.leader_id for each in found.partitions}
            if all(leader in self.nodes for leader in leaders.values()):
                return leaders
            await asyncio.sleep(0.02)

    async def init(self, transactional_id, timeout_ms=TIMEOUT_MS):
        request = init_producer_id.InitProducerIdRequest(transactional_id, timeout_ms)
        if transactional_id is None:
            answer = await self.ask_any(request, 5)
        else:
            answer = await self.ask_coordinator(transactional_id, TRANSACTION, request, 5)
        assert answer.error_code == ErrorCode.NONE, answer
        return answer

    async def end(self, transactional_id, producer, *, commit):
        """End a transaction, and return who its producer is in the next one."""
        request = end_txn.EndTxnRequest(transactional_id, producer.producer_id, producer.producer_epoch, commit)
        answer = await self.ask_coordinator(transactional_id, TRANSACTION, request, 5)
        assert answer.error_code == ErrorCode.NONE, answer
        return answer

    async def produce(self, topic, partition, records, transactional_id=None):
        data = produce.TopicProduceData(topic, partition_data=(produce.PartitionProduceData(partition, records),))
        leader = (await self.leaders(topic))[partition]
        answer = await self.ask(leader, produce.ProduceRequest(transactional_id, -1, 10_000, (data,)), 12)
        return answer.responses[0].partition_responses[0]

    async def commit_in_transaction(self, transactional_id, producer, group, topic, offset):
        partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, offset, committed_metadata="in a transaction")
        request = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id,
            group,
            producer.producer_id,
            producer.producer_epoch,
            topics=(txn_offset_commit.TxnOffsetCommitRequestTopic(topic, partitions=(partition,)),),
        )
        answer = await self.ask_coordinator(group, GROUP, request, 5)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE, answer

    async def close(self):
        for client in self._clients.values():
            await client.close()

    # What is there

    async def offset(self, topic, partition, timestamp, isolation=UNCOMMITTED):
        asked = list_offsets.ListOffsetsTopic(topic, (list_offsets.ListOffsetsPartition(partition, -1, timestamp),))
        leader = (await self.leaders(topic))[partition]
        answer = await self.ask(leader, list_offsets.ListOffsetsRequest(-1, isolation, (asked,)), 7)
        return answer.topics[0].partitions[0].offset

    async def offsets(self, topic, partition):
        return {
            "log_start_offset": await self.offset(topic, partition, -2),
            "high_watermark": await self.offset(topic, partition, -1),
            "last_stable_offset": await self.offset(topic, partition, -1, COMMITTED),
        }

    async def batches(self, topic, partition, isolation):
        """All batches of a partition that a reader gets, and the transactions that it is told were aborted."""
        offset = await self.offset(topic, partition, -2)
        end = await self.offset(topic, partition, -1, isolation)
        leader = (await self.leaders(topic))[partition]
        found, aborted = [], set()
        while offset < end:
            asked = fetch.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = fetch.FetchRequest(
                topics=(fetch.FetchTopic(topic, partitions=(asked,)),), isolation_level=isolation
            )
            answer = (await self.ask(leader, request, 12)).responses[0].partitions[0]
            assert answer.error_code == ErrorCode.NONE, answer
            read = split_batches(bytes(answer.records))
            assert read, (topic, partition, offset, end)
            found += [each for each in read if offset <= each.header.last_offset]
            offset = read[-1].header.next_offset
            aborted |= {(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()}
        return found, sorted(aborted, key=lambda each: each[1])

    async def records(self, topic, partition, isolation):
        """What an application of this isolation level reads."""
        start = await self.offset(topic, partition, -2)
        batches, aborted = await self.batches(topic, partition, isolation)
        skipped, found = set(), []
        for each in batches:
            header = each.header
            if header.is_control:
                skipped.discard(header.producer_id)
                continue
            skipped |= {number for number, first in aborted if first <= header.last_offset}
            aborted = [(number, first) for number, first in aborted if first > header.last_offset]
            if header.producer_id not in skipped or not header.is_transactional:
                found += [plain(record) for record in each.records() if record.offset >= start]
        return found

    async def epoch_end(self, topic, partition, epoch):
        asked = offset_for_leader_epoch.OffsetForLeaderPartition(partition, -1, epoch)
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=(offset_for_leader_epoch.OffsetForLeaderTopic(topic, (asked,)),)
        )
        leader = (await self.leaders(topic))[partition]
        (found,) = (await self.ask(leader, request, 4)).topics[0].partitions
        return [found.leader_epoch, found.end_offset]

    async def producers(self, topic, partition):
        request = describe_producers.DescribeProducersRequest((describe_producers.TopicRequest(topic, (partition,)),))
        leader = (await self.leaders(topic))[partition]
        (found,) = (await self.ask(leader, request, 0)).topics[0].partitions
        fields = ("producer_id", "producer_epoch", "last_sequence", "current_txn_start_offset")
        return sorted((plain(each, *fields) for each in found.active_producers), key=lambda each: each["producer_id"])

    async def settings(self, topic):
        """The settings that were given to a topic itself."""
        request = describe_configs.DescribeConfigsRequest((describe_configs.DescribeConfigsResource(2, topic, None),))
        (found,) = (await self.ask_any(request, 4)).results
        return {each.name: each.value for each in found.configs if each.config_source == SET_BY_TOPIC}

    async def transactions(self):
        """Every transactional id, once none is being ended."""
        while True:
            answers = [
                await self.ask(node_id, list_transactions.ListTransactionsRequest(), 2)
                for node_id in {*(await self.leaders("__transaction_state")).values()}
            ]
            listed = [each for answer in answers for each in answer.transaction_states]
            if not any(each.transaction_state.startswith("Prepare") for each in listed):
                return {each.transactional_id: await self.transaction(each.transactional_id) for each in listed}
            await asyncio.sleep(0.02)

    async def transaction(self, transactional_id):
        request = describe_transactions.DescribeTransactionsRequest((transactional_id,))
        answer = await self.ask_coordinator(transactional_id, TRANSACTION, request, 0)
        return plain(answer.transaction_states[0])

    async def groups(self):
        """Every group, with its members and its offsets."""
        nodes = {*(await self.leaders("__consumer_offsets")).values()}
        answers = [await self.ask(node_id, list_groups.ListGroupsRequest(), 5) for node_id in nodes]
        listed = {each.group_id: plain(each) for answer in answers for each in answer.groups}
        return {
            name: {
                "listed": each,
                "described": await self.group(name, each["group_type"]),
                "offsets": await self.group_offsets(name),
            }
            for name, each in listed.items()
        }

    async def group(self, name, group_type):
        if group_type == "consumer":
            request, version = consumer_group_describe.ConsumerGroupDescribeRequest((name,)), 1
        else:
            request, version = describe_groups.DescribeGroupsRequest((name,)), 6
        found = plain((await self.ask_coordinator(name, GROUP, request, version)).groups[0])
        return found | {"members": sorted(found["members"], key=lambda member: member["member_id"])}

    async def group_offsets(self, name, *, require_stable=False):
        group = offset_fetch.OffsetFetchRequestGroup(name, topics=None)
        request = offset_fetch.OffsetFetchRequest(groups=(group,), require_stable=require_stable)
        (found,) = (await self.ask_coordinator(name, GROUP, request, 9)).groups
        assert found.error_code == ErrorCode.NONE, found
        return {
            f"{topic.name}-{each.partition_index}": plain(each) for topic in found.topics for each in topic.partitions
        }


async def observe(kafka, epochs):
    """Everything that a client sees of a cluster and that outlives a restart.

    Partitions had reached `epochs`; where each of theirs ended is seen too.
    """
    transactions = await kafka.transactions()
    described = await kafka.metadata()
    return {
        "cluster_id": described.cluster_id,
        "topics": {name: await _topic(kafka, topic) for name, topic in (await kafka.topics()).items()},
        "transactions": transactions,
        "groups": await kafka.groups(),
        "epoch_ends": await _epoch_ends(kafka, epochs),
    }


async def _topic(kafka, topic):
    numbers = range(len(topic.partitions))
    return {
        "topic_id": topic.topic_id.hex(),
        "settings": await kafka.settings(topic.name),
        "partitions": [await _partition(kafka, topic.name, number) for number in numbers],
    }


async def _partition(kafka, topic, number):
    batches, _ = await kafka.batches(topic, number, UNCOMMITTED)
    return {
        **await kafka.offsets(topic, number),
        "uncommitted": await kafka.records(topic, number, UNCOMMITTED),
        "committed": await kafka.records(topic, number, COMMITTED),
        "batches": [_batch(each.header) for each in batches],
        "producers": await kafka.producers(topic, number),
    }


def _batch(header):
    return [
        header.base_offset,
        header.last_offset,
        header.attributes,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    ]


async def leader_epochs(kafka):
    """The epoch at which each partition is led now."""
    return {
        f"{topic.name}-{each.partition_index}": each.leader_epoch
        for topic in (await kafka.metadata()).topics
        for each in topic.partitions
    }


async def _epoch_ends(kafka, epochs):
    return {
        name: [await kafka.epoch_end(*_split(name), epoch) for epoch in range(last + 1)]
        for name, last in epochs.items()
        if not name.startswith("__")
    }


def _split(name):
    topic, _, number = name.rpartition("-")
    return topic, int(number)
