"""A producer of transaction version 1 that says on which of its connections a request is sent."""

import asyncio
import time

from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    metadata,
    offset_fetch,
    produce,
    txn_offset_commit,
)
from eagleray.protocol.records import NewRecord, build_batch, split_batches
from tests.support.wire import WireClient

SECONDS = 60
REPEATED = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, *(3, 5, 6, 15, 16))
"""What a client takes for a reason to repeat its request."""

VERSIONS = {
    init_producer_id.InitProducerIdRequest: 4,
    add_partitions_to_txn.AddPartitionsToTxnRequest: 3,
    add_offsets_to_txn.AddOffsetsToTxnRequest: 3,
    end_txn.EndTxnRequest: 3,
    txn_offset_commit.TxnOffsetCommitRequest: 3,
    produce.ProduceRequest: 11,
}
"""The last versions in which each request is one of transaction version 1."""


class Version1Producer:
    """Has one connection to each coordinator, and another one whenever a test wants it to move on.

    It repeats what it is told to repeat, as clients do, on the same connection; `sent` counts each request.
    """

    def __init__(self, host, port, transactional_id):
        self.address = host, port
        self.transactional_id = transactional_id
        self.identity = None
        self.sequence = 0
        self.sent = []
        self._connections = []
        self._leaders = {}
        self.coordinator = self.group_coordinator = None

    async def __aenter__(self):
        self._any = await self._open(self.address)
        return self

    async def __aexit__(self, *raised):
        for connection in self._connections:
            await connection.close()

    async def _open(self, address):
        connection = WireClient(*await asyncio.open_connection(*address))
        self._connections.append(connection)
        return connection

    # Connections

    async def connect_to_coordinator(self):
        """Go on with another connection to the coordinator of the transactional id; the old one stays open."""
        old, self.coordinator = self.coordinator, await self._open(await self._find(self.transactional_id, 1))
        return old

    async def connect_to_group_coordinator(self, group):
        old, self.group_coordinator = self.group_coordinator, await self._open(await self._find(group, 0))
        return old

    async def _find(self, key, key_type):
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        async with asyncio.timeout(SECONDS):
            while True:
                found = (await self._any.ask(request, 4)).coordinators[0]
                if found.error_code == ErrorCode.NONE:
                    return found.host, found.port
                await asyncio.sleep(0.05)

    async def leader_of(self, topic):
        """The connection to a topic's leader; the topic is created where there is none."""
        if topic not in self._leaders:
            self._leaders[topic] = await self._open(await self._find_leader(topic))
        return self._leaders[topic]

    async def _find_leader(self, topic):
        async with asyncio.timeout(SECONDS):
            while True:
                request = metadata.MetadataRequest((metadata.MetadataRequestTopic(name=topic),))
                answer = await self._any.ask(request, 9)
                brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
                (found,) = answer.topics
                if found.error_code == ErrorCode.NONE and found.partitions[0].leader_id in brokers:
                    return brokers[found.partitions[0].leader_id]
                await asyncio.sleep(0.05)

    # Requests

    def adding(self, topic):
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=(add_partitions_to_txn.AddPartitionsToTxnTopic(topic, (0,)),),
        )

    def adding_offsets(self, group):
        identity = self.identity
        return add_offsets_to_txn.AddOffsetsToTxnRequest(
            self.transactional_id, identity.producer_id, identity.producer_epoch, group
        )

    def ending(self, *, commit):
        identity = self.identity
        return end_txn.EndTxnRequest(self.transactional_id, identity.producer_id, identity.producer_epoch, commit)

    def committing_offset(self, group, topic, offset):
        partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, offset)
        return txn_offset_commit.TxnOffsetCommitRequest(
            self.transactional_id,
            group,
            self.identity.producer_id,
            self.identity.producer_epoch,
            topics=(txn_offset_commit.TxnOffsetCommitRequestTopic(topic, partitions=(partition,)),),
        )

    # Steps

    async def init(self, timeout_ms=60_000):
        if self.coordinator is None:
            await self.connect_to_coordinator()
        request = init_producer_id.InitProducerIdRequest(self.transactional_id, timeout_ms)
        self.identity, self.sequence = await self.until_taken(self.coordinator, request), 0

    async def begin(self, topic, value):
        """Begin a transaction with one record."""
        assert error_of(await self.until_taken(self.coordinator, self.adding(topic))) == ErrorCode.NONE
        batch = build_batch(
            [NewRecord(value, timestamp=int(time.time() * 1000))],
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        data = produce.TopicProduceData(topic, bytes(16), (produce.PartitionProduceData(0, batch),))
        request = produce.ProduceRequest(self.transactional_id, -1, 1000, (data,))
        leader = await self.leader_of(topic)
        assert error_of(await self.until_taken(leader, request)) == ErrorCode.NONE
        self.sequence += 1

    async def add_offsets(self, group, topic, offset):
        assert error_of(await self.until_taken(self.coordinator, self.adding_offsets(group))) == ErrorCode.NONE
        if self.group_coordinator is None:
            await self.connect_to_group_coordinator(group)
        request = self.committing_offset(group, topic, offset)
        assert error_of(await self.until_taken(self.group_coordinator, request)) == ErrorCode.NONE

    async def end(self, *, commit):
        return error_of(await self.until_taken(self.coordinator, self.ending(commit=commit)))

    async def ask_once(self, connection, request):
        """Send a request, and return its answer, whatever that is."""
        self.sent.append(type(request).__name__)
        return await connection.ask(request, VERSIONS[type(request)])

    async def until_taken(self, connection, request):
        """Send a request, and repeat it as long as that is what the answer asks for; return the last answer."""
        async with asyncio.timeout(SECONDS):
            while error_of(answer := await self.ask_once(connection, request)) in REPEATED:
                await asyncio.sleep(0.02)
        return answer

    # What others see

    async def committed_values(self, topic):
        """The values that a reader of committed records sees, once no transaction is open any more."""
        leader = await self.leader_of(topic)
        async with asyncio.timeout(SECONDS):
            while True:
                asked = fetch.FetchTopic(topic, partitions=(fetch.FetchPartition(partition_max_bytes=1 << 20),))
                answer = await leader.ask(fetch.FetchRequest(topics=(asked,), isolation_level=1, min_bytes=0), 11)
                (partition,) = answer.responses[0].partitions
                if partition.last_stable_offset == partition.high_watermark:
                    return _visible(partition)
                await asyncio.sleep(0.02)

    async def is_open(self, topic):
        """Whether a transaction is open, or not yet ended, in a topic."""
        leader = await self.leader_of(topic)
        asked = fetch.FetchTopic(topic, partitions=(fetch.FetchPartition(partition_max_bytes=1 << 20),))
        answer = await leader.ask(fetch.FetchRequest(topics=(asked,), isolation_level=1, min_bytes=0), 11)
        (partition,) = answer.responses[0].partitions
        return partition.last_stable_offset < partition.high_watermark

    async def committed_offset(self, group, topic):
        """How far a group has come, once no transaction holds offsets of it."""
        connection = await self._open(await self._find(group, 0))
        wanted = offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=(0,))
        request = offset_fetch.OffsetFetchRequest(
            groups=(offset_fetch.OffsetFetchRequestGroup(group, topics=(wanted,)),), require_stable=True
        )
        async with asyncio.timeout(SECONDS):
            while True:
                (partition,) = (await connection.ask(request, 8)).groups[0].topics[0].partitions
                if partition.error_code == ErrorCode.NONE:
                    return partition.committed_offset
                await asyncio.sleep(0.02)


def error_of(answer):
    """The one error code of an answer."""
    if isinstance(answer, add_partitions_to_txn.AddPartitionsToTxnResponse):
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    if isinstance(answer, txn_offset_commit.TxnOffsetCommitResponse):
        return answer.topics[0].partitions[0].error_code
    if isinstance(answer, produce.ProduceResponse):
        return answer.responses[0].partition_responses[0].error_code
    return answer.error_code


def _visible(partition):
    aborted = [(each.producer_id, each.first_offset) for each in partition.aborted_transactions or ()]
    ends = {}
    batches = [*split_batches(bytes(partition.records))]
    for found in batches:
        if found.header.is_control:
            for producer_id, first_offset in aborted:
                if producer_id == found.header.producer_id and first_offset < found.header.base_offset:
                    ends.setdefault((producer_id, first_offset), found.header.base_offset)
    return [
        bytes(record.value)
        for found in batches
        if not found.header.is_control
        for record in found.records()
        if not any(
            producer_id == found.header.producer_id and first <= found.header.base_offset < end
            for (producer_id, first), end in ends.items()
        )
    ]
