"""Strangers on the network at real nodes, by raw frames, while an honest producer writes transactions beside them."""

import asyncio
import struct
from contextlib import asynccontextmanager

import msgspec
import pytest

from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.actors.lanes.frames import encode_messages, encode_preface
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import WriteMarkers
from eagleray.broker.transactions.events import AddPartitions, EndTransaction, InitProducerId
from eagleray.protocol.codec import encode_request
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import add_partitions_to_txn, end_txn, produce, write_txn_markers
from eagleray.protocol.records import NewRecord, build_batch
from eagleray.testing import COLOCATED, LocalCluster
from tests.support.extreme_requests import text_fields
from tests.support.wire import WireClient

ONE_NODE = {0: COLOCATED[0]}
NONE = ErrorCode.NONE
SETTINGS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
HUGE_EPOCH = 2**31 - 1


class HonestProducer:
    """Writes one transaction after the other until it is told to stop; every error of its client is the test's."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._is_over = asyncio.Event()
        self.committed = 0

    async def run(self):
        async with self._cluster.producer(transactional_id="honest") as producer:
            while not self._is_over.is_set():
                async with producer.transaction():
                    for partition in range(2):
                        await producer.send("honest", b"%d" % self.committed, partition=partition)
                self.committed += 1

    def stop(self):
        self._is_over.set()


@asynccontextmanager
async def beside_honest_work(tmp_path):
    """A node with an honest producer; when the stranger is done, all that the producer has committed is there."""
    async with LocalCluster(tmp_path, ONE_NODE, SETTINGS) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("honest", partitions=2)
        await cluster.admin.create_topic("orders", partitions=1)
        honest = HonestProducer(cluster)
        working = asyncio.create_task(honest.run())
        while not honest.committed:
            await asyncio.sleep(0.01)
        node = nodes.nodes[0]
        incarnation = node.incarnation
        yield nodes, node, cluster
        before = honest.committed
        async with asyncio.timeout(30):
            while honest.committed < before + 3:
                assert not working.done(), await working
                await asyncio.sleep(0.01)
        honest.stop()
        await working
        assert node.incarnation == incarnation
        assert not nodes.failures
        assert node.describe()["failed_requests"] == {}
        for partition in range(2):
            assert await committed_in(cluster, TopicPartition("honest", partition)) == honest.committed
        await cluster.close()


async def committed_in(cluster, partition):
    """How many records a reader of committed ones sees; the last markers may be on their way."""
    async with cluster.consumer() as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        count = 0
        while found := await consumer.poll(timeout_ms=500):
            count += len(found)
        return count


class Stranger:
    """Says what it likes to a node, each time on a connection of its own."""

    def __init__(self, node):
        self._node = node

    async def ask(self, request, version):
        async with await WireClient.connect(self._node) as client:
            return await client.ask(request, version)

    async def say(self, request, version):
        """Say something that is answered, or at which the node hangs up."""
        async with await WireClient.connect(self._node) as client:
            client.writer.write(encode_request(request, version, 1, "stranger"))
            async with asyncio.timeout(20):
                return await client.reader.read(4)

    async def open_transaction(self, nodes):
        """The transaction of another program, which has written a record."""
        peers = nodes.peers
        producer = (await peers.call(0, InitProducerId, "billing")).producer
        await peers.call(0, AddPartitions, "billing", producer, (TopicPartition("orders", 0),))
        record = NewRecord(b"kept", timestamp=self._node.now_ms())
        batch = build_batch(
            [record],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            transactional=True,
        )
        data = produce.TopicProduceData("orders", bytes(16), (produce.PartitionProduceData(0, batch),))
        answer = await self.ask(produce.ProduceRequest("billing", -1, 1000, (data,)), 9)
        assert answer.responses[0].partition_responses[0].error_code == NONE
        return producer


async def test_texts_that_no_log_can_keep_end_no_process(tmp_path):
    async with beside_honest_work(tmp_path) as (_, node, _):
        stranger = Stranger(node)
        for served in SERVED.values():
            if served.api.request.wire.is_flexible(served.highest):
                for what, request in text_fields(served.api.request, served.highest):
                    for _ in range(2):
                        assert len(await stranger.say(request, served.highest)) in (0, 4), (served.api.name, what)


async def test_transaction_of_another_is_neither_ended_nor_spoilt(tmp_path):
    async with beside_honest_work(tmp_path) as (nodes, node, cluster):
        stranger = Stranger(node)
        producer = await stranger.open_transaction(nodes)
        orders = (write_txn_markers.WritableTxnMarkerTopic("orders", (0,)),)
        for commit in (True, False):
            for epoch in (0, HUGE_EPOCH):
                marker = write_txn_markers.WritableTxnMarker(
                    producer.producer_id, producer.epoch, commit, orders, epoch
                )
                answer = await stranger.ask(write_txn_markers.WriteTxnMarkersRequest((marker,)), 1)
                (code,) = [each.error_code for each in answer.markers[0].topics[0].partitions]
                assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        joins = tuple(
            add_partitions_to_txn.AddPartitionsToTxnTopic(name, (0,)) for name in ("__transaction_state", "orders")
        )
        named = ("billing", producer.producer_id, producer.epoch)
        transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(*named, False, joins)
        for version in (4, 5):
            request = add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=(transaction,))
            assert (await stranger.ask(request, version)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        for topic, number in (("__transaction_state", 0), ("__consumer_offsets", 0), ("orders", -1), ("none", 0)):
            request = add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="billing",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=(add_partitions_to_txn.AddPartitionsToTxnTopic(topic, (number,)),),
            )
            answer = await stranger.ask(request, 3)
            (code,) = [
                each.partition_error_code for each in answer.results_by_topic_v3_and_below[0].results_by_partition
            ]
            assert code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ended = await nodes.peers.call(0, EndTransaction, "billing", producer, True)
        assert ended.error_code is NONE
        assert await committed_in(cluster, TopicPartition("orders", 0)) == 1


@pytest.mark.parametrize("version", [3, 5])
async def test_epoch_that_belongs_to_no_producer_ends_nothing(tmp_path, version):
    async with beside_honest_work(tmp_path) as (nodes, node, _):
        stranger = Stranger(node)
        producer = await stranger.open_transaction(nodes)
        for epoch in (32_767, -32_768, -1):
            request = end_txn.EndTxnRequest("billing", producer.producer_id, epoch, True)
            answer = await stranger.ask(request, version)
            assert answer.error_code == ErrorCode.PRODUCER_FENCED
        assert (await nodes.peers.call(0, EndTransaction, "billing", producer, True)).error_code is NONE


async def lane(node, token):
    """A raw connection of the direct lane, and the number of its session."""
    reader, writer = await asyncio.open_connection(node.spec.host, node.port)
    writer.write(encode_preface(token))
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    welcome = await reader.readexactly(length)
    session, _, _ = msgspec.msgpack.decode(welcome)
    return reader, writer, session << 32


def framed(payload):
    return struct.pack(">i", len(payload)) + payload


async def test_direct_lane_refuses_what_no_log_can_keep(tmp_path):
    async with beside_honest_work(tmp_path) as (nodes, node, _):
        producer = ProducerIdentity(7, 40_000)
        questions = [
            lambda number: EndTransaction(number, "billing", producer, True, 2),
            lambda number: InitProducerId(number, "x" * 40_000),
            lambda number: AddPartitions(number, "billing", ProducerIdentity(7, 0), (TopicPartition("orders", 2**40),)),
        ]
        for question in questions:
            reader, writer, first = await lane(node, nodes.token)
            writer.write(framed(encode_messages([question(first)])))
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            assert b"cannot be read" in await reader.readexactly(length)
            writer.close()


@pytest.mark.parametrize("kind", ["not UTF-8", "nested", "of another session"])
async def test_direct_lane_hangs_up_on_what_is_no_question(tmp_path, kind):
    async with beside_honest_work(tmp_path) as (nodes, node, _):
        reader, writer, first = await lane(node, nodes.token)
        question = encode_messages([EndTransaction(first, "t", ProducerIdentity(7, 0), True)])
        of_another = encode_messages([EndTransaction(first - 2**32, "t", ProducerIdentity(7, 0), True)])
        payload = {
            "not UTF-8": question.replace(b"\xa1t", b"\xa1\xff"),
            "nested": b"\x91\x92\xaeEndTransaction" + b"\x91" * 100_000 + b"\xc0",
            "of another session": of_another,
        }[kind]
        writer.write(framed(payload))
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()


async def test_markers_of_a_coordinator_that_cannot_be_fence_no_other(tmp_path):
    async with beside_honest_work(tmp_path) as (nodes, node, cluster):
        stranger = Stranger(node)
        producer = await stranger.open_transaction(nodes)
        marker = Marker(producer, False, HUGE_EPOCH, 1, (TopicPartition("orders", 0),))
        reply = await nodes.peers.call(0, WriteMarkers, (marker,))
        assert reply.error_codes == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
        assert (await nodes.peers.call(0, EndTransaction, "billing", producer, True)).error_code is NONE
        assert await committed_in(cluster, TopicPartition("orders", 0)) == 1
