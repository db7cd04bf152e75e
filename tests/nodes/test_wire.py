"""Kafka's protocol on real nodes, by a client that says exactly what a test wants said."""

import asyncio
import time
import tracemalloc
from contextlib import asynccontextmanager

import pytest

from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    txn_offset_commit,
)
from eagleray.protocol.records import CompressionType, NewRecord, build_batch, split_batches
from eagleray.testing import COLOCATED, SEPARATE, LocalCluster
from tests.support.wire import WireClient

NONE = ErrorCode.NONE
NOW_MS = int(time.time() * 1000)


class Wire:
    """Finds the nodes for each request as a client does, and keeps a connection to each."""

    def __init__(self, nodes):
        self.nodes = nodes.nodes
        self._clients = {}

    async def to(self, node_id):
        if node_id not in self._clients:
            self._clients[node_id] = await WireClient.connect(self.nodes[node_id])
        return self._clients[node_id]

    async def ask(self, node_id, request, version):
        return await (await self.to(node_id)).ask(request, version)

    async def any(self, request, version):
        return await self.ask(max(self.nodes), request, version)

    async def topic(self, name, version=12):
        """Have a topic created by asking for it."""
        answer = await self.any(metadata.MetadataRequest((metadata.MetadataRequestTopic(name=name),)), version)
        (topic,) = answer.topics
        assert topic.error_code == NONE, topic
        return topic

    async def coordinator(self, key, key_type):
        answer = await self.any(find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,)), 6)
        assert answer.coordinators[0].error_code == NONE
        return answer.coordinators[0].node_id

    async def init(self, transactional_id, version=5, **fields):
        node_id = await self.coordinator(transactional_id, 1)
        request = init_producer_id.InitProducerIdRequest(transactional_id, 60_000, **fields)
        while (answer := await self.ask(node_id, request, version)).error_code in (51, 14, 15):
            await asyncio.sleep(0.01)
        return answer

    async def end(self, transactional_id, producer, *, commit, version=5):
        node_id = await self.coordinator(transactional_id, 1)
        request = end_txn.EndTxnRequest(transactional_id, producer.producer_id, producer.producer_epoch, commit)
        return await self.ask(node_id, request, version)

    async def produce(self, topic, records, version, transactional_id=None, acks=-1, partition=0):
        by_id = version >= 13
        data = produce.TopicProduceData(
            "" if by_id else topic.name,
            topic.topic_id if by_id else bytes(16),
            (produce.PartitionProduceData(partition, records),),
        )
        leader = topic.partitions[partition].leader_id
        answer = await self.ask(leader, produce.ProduceRequest(transactional_id, acks, 1000, (data,)), version)
        return answer.responses[0].partition_responses[0]

    async def fetch(self, topic, offset, version, isolation=1, max_wait_ms=0, **fields):
        by_id = version >= 13
        asked = fetch.FetchTopic(
            "" if by_id else topic.name,
            topic.topic_id if by_id else bytes(16),
            (fetch.FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20),),
        )
        request = fetch.FetchRequest(
            topics=(asked,), isolation_level=isolation, max_wait_ms=max_wait_ms, min_bytes=1, **fields
        )
        return await self.ask(topic.partitions[0].leader_id, request, version)

    async def close(self):
        for client in self._clients.values():
            await client.close()


@asynccontextmanager
async def running(tmp_path, layout, settings=None, **options):
    async with LocalCluster(tmp_path, layout, settings, **options) as nodes:
        wire = Wire(nodes)
        try:
            yield nodes, wire
        finally:
            await wire.close()


@pytest.fixture(params=["separate", "colocated"])
def layout(request):
    return {"separate": SEPARATE, "colocated": COLOCATED}[request.param]


def batch(*values, producer=None, sequence=0, **options):
    if producer is not None:
        options |= {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "base_sequence": sequence,
            "transactional": True,
        }
    return build_batch([NewRecord(value, timestamp=NOW_MS) for value in values], **options)


def values_of(partition):
    return [
        bytes(record.value)
        for found in split_batches(bytes(partition.records))
        if not found.header.is_control
        for record in found.records()
    ]


async def test_metadata_names_data_nodes_only_and_a_controller_among_them(tmp_path, layout):
    async with running(tmp_path, layout) as (nodes, wire):
        answers = [await wire.any(metadata.MetadataRequest(None), version) for version in range(1, 14)]
        data_roles = {"leader", "coordinator", "groups"}
        expected = {node_id for node_id, roles in layout.items() if data_roles & set(roles)}
        for answer in answers:
            assert {broker.node_id for broker in answer.brokers} == expected
            assert {broker.port for broker in answer.brokers} == {nodes.nodes[node].port for node in expected}
            assert "leader" in layout[answer.controller_id]
            assert {topic.name for topic in answer.topics} == {"__consumer_offsets", "__transaction_state"}


async def test_clients_are_told_what_is_advertised_which_need_not_be_where_nodes_listen(tmp_path):
    async with running(tmp_path, SEPARATE, host="localhost") as (nodes, wire):
        answer = await wire.any(metadata.MetadataRequest(None), 12)
        assert {broker.host for broker in answer.brokers} == {"localhost"}
        found = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=("checkout",))
        assert (await wire.any(found, 6)).coordinators[0].host == "localhost"
        addresses = {
            socket.getsockname()[0]
            for node in nodes.nodes.values()
            for server in node.listener._servers
            for socket in server.sockets
        }
        assert addresses == {"127.0.0.1"}


async def test_kafkas_clients_take_part_in_a_two_phase_commit_where_that_is_enabled(tmp_path):
    """KIP-939: nothing prepares on the wire; the transaction has no timeout, and who comes back ends it."""
    settings = {"transaction.two.phase.commit.enable": "true", "max.transaction.timeout.ms": "60000"}
    async with running(tmp_path, COLOCATED, settings) as (_, wire):
        versions = await wire.any(api_versions.ApiVersionsRequest("tests", "1"), 4)
        assert [api.max_version for api in versions.api_keys if api.api_key == 22] == [6]
        topic = await wire.topic("orders")
        for commit in (True, False):
            crashed = await wire.init("checkout", 6, enable2_pc=True)
            assert (crashed.error_code, crashed.ongoing_txn_producer_id) == (NONE, -1)
            written = await wire.produce(topic, batch(b"of %d" % commit, producer=crashed), 12, "checkout")
            assert written.error_code == NONE
            kept = await wire.init("checkout", 6, enable2_pc=True, keep_prepared_txn=True)
            assert (kept.error_code, kept.producer_epoch) == (NONE, crashed.producer_epoch + 1)
            token = (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch)
            assert token == (crashed.producer_id, crashed.producer_epoch)
            refused = await wire.produce(topic, batch(b"late", producer=kept), 12, "checkout")
            assert refused.error_code == ErrorCode.INVALID_TXN_STATE
            ended = await wire.end("checkout", kept, commit=commit)
            assert (ended.error_code, ended.producer_epoch) == (NONE, kept.producer_epoch + 1)
        assert (await wire.init("checkout")).error_code == NONE, "all markers are written"
        fetched = await wire.fetch(topic, 0, 12)
        partition = fetched.responses[0].partitions[0]
        assert partition.last_stable_offset == partition.high_watermark
        assert [entry.first_offset for entry in partition.aborted_transactions] == [2]
        assert values_of(partition) == [b"of 1", b"of 0"]


async def test_topic_is_created_by_asking_for_it_unless_the_settings_or_the_client_forbid_it(tmp_path):
    async def error_for(settings, **fields):
        async with running(tmp_path / settings, COLOCATED, {"auto.create.topics.enable": settings}) as (_, wire):
            asked = metadata.MetadataRequest((metadata.MetadataRequestTopic(name="orders"),), **fields)
            answer = await wire.any(asked, 9)
            if answer.topics[0].error_code == NONE:
                assert len(answer.topics[0].partitions) == 1
            wrong = metadata.MetadataRequest((metadata.MetadataRequestTopic(name="no/such"),))
            assert (await wire.any(wrong, 9)).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            by_id = metadata.MetadataRequest((metadata.MetadataRequestTopic(topic_id=b"x" * 16, name=None),))
            for version in (10, 12):
                assert (await wire.any(by_id, version)).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
            return answer.topics[0].error_code

    assert await error_for("true") == NONE
    assert await error_for("false") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await error_for("true", allow_auto_topic_creation=False) == NONE, "it exists from before"


async def test_coordinators_are_found_in_every_version_and_for_no_share_group(tmp_path, layout):
    async with running(tmp_path, layout) as (_, wire):
        for version in range(7):
            for key_type, role in ((0, "groups"), (1, "coordinator")):
                if version == 0 and key_type:
                    continue
                request = (
                    find_coordinator.FindCoordinatorRequest(key="checkout", key_type=key_type)
                    if version < 4
                    else find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=("checkout",))
                )
                answer = await wire.any(request, version)
                found = answer if version < 4 else answer.coordinators[0]
                assert found.error_code == NONE
                assert role in layout[found.node_id]
        shared = find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=("checkout",))
        assert (await wire.any(shared, 6)).coordinators[0].error_code == ErrorCode.INVALID_REQUEST


async def test_slot_of_a_pool_is_found_and_described_where_its_pool_is(tmp_path):
    async with running(tmp_path, COLOCATED) as (nodes, wire):
        cluster = nodes.connect()
        async with cluster.transactions("checkout") as pool, pool.begin():
            node_id = await wire.coordinator("checkout.__slot-0", 1)
            request = describe_transactions.DescribeTransactionsRequest(("checkout", "checkout.__slot-0"))
            described = (await wire.ask(node_id, request, 0)).transaction_states
        names = [f"checkout-{number}" for number in range(20)]
        of_pools = [await wire.coordinator(name, 1) for name in names]
        of_slots = [await wire.coordinator(f"{name}.__slot-7", 1) for name in names]
        await cluster.close()
    assert [(each.error_code, each.transaction_state) for each in described] == [(NONE, "Empty")] * 2
    assert of_slots == of_pools
    assert len(set(of_pools)) > 1


@pytest.mark.parametrize("version", range(3, 14))
async def test_records_are_produced_and_fetched_in_every_version(tmp_path, version):
    async with running(tmp_path, COLOCATED) as (_, wire):
        topic = await wire.topic("orders")
        produced = await wire.produce(topic, batch(b"one", b"two"), version)
        assert (produced.error_code, produced.base_offset) == (NONE, 0)
        produced = await wire.produce(topic, batch(b"three"), version, acks=1)
        assert produced.base_offset == 2
        fetch_version = min(version + 4, 18) if version < 13 else 18
        answer = await wire.fetch(topic, 1, fetch_version)
        (partition,) = answer.responses[0].partitions
        assert values_of(partition) == [b"one", b"two", b"three"]
        assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
        assert partition.aborted_transactions == ()


async def test_error_of_a_batch_is_answered_for_its_partition(tmp_path):
    async with running(tmp_path, SEPARATE) as (_, wire):
        topic = await wire.topic("orders")
        assert (await wire.produce(topic, b"garbage" * 20, 9)).error_code == ErrorCode.CORRUPT_MESSAGE
        assert (await wire.produce(topic, None, 9)).error_code == ErrorCode.INVALID_RECORD
        assert (await wire.produce(topic, batch(b"one"), 9, acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        leader = topic.partitions[0].leader_id
        other = 11 - leader
        data = produce.TopicProduceData("orders", bytes(16), (produce.PartitionProduceData(0, batch(b"one")),))
        answer = await wire.ask(other, produce.ProduceRequest(None, -1, 1000, (data,)), 12)
        refused = answer.responses[0].partition_responses[0]
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refused.current_leader.leader_id == leader
        assert [endpoint.node_id for endpoint in answer.node_endpoints] == [leader]
        for name, code in (("none", 3), ("__consumer_offsets", 17)):
            data = produce.TopicProduceData(name, bytes(16), (produce.PartitionProduceData(0, batch(b"one")),))
            answer = await wire.ask(leader, produce.ProduceRequest(None, -1, 1000, (data,)), 12)
            assert answer.responses[0].partition_responses[0].error_code == code
        data = produce.TopicProduceData("", b"x" * 16, (produce.PartitionProduceData(0, batch(b"one")),))
        answer = await wire.ask(leader, produce.ProduceRequest(None, -1, 1000, (data,)), 13)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [7, 8, 9, 13])
async def test_refused_records_are_named_in_the_versions_that_can(tmp_path, version):
    async with running(tmp_path, COLOCATED) as (_, wire):
        topic = await wire.topic("orders")
        later = [NewRecord(b"%d" % number, timestamp=NOW_MS * (1 + number % 2)) for number in range(4)]
        refused = await wire.produce(topic, build_batch(later), version)
        assert (refused.error_code, refused.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
        if version < 8:
            assert (refused.record_errors, refused.error_message) == ((), None)
        else:
            assert [error.batch_index for error in refused.record_errors] == [1, 3]
            assert str(NOW_MS * 2) in refused.record_errors[0].batch_index_error_message
            assert "2 of 4 records are refused" in refused.error_message
        assert (await wire.produce(topic, batch(b"good"), version)).base_offset == 0


async def test_bomb_of_a_hundred_megabytes_is_refused_without_being_unpacked(tmp_path):
    async with running(tmp_path, COLOCATED) as (_, wire):
        topic = await wire.topic("orders")
        bombs = [
            build_batch([NewRecord(bytes(100 << 20), timestamp=NOW_MS)], compression=codec)
            for codec in (CompressionType.GZIP, CompressionType.ZSTD, CompressionType.LZ4)
        ]
        tracemalloc.start()
        try:
            for bomb in bombs:
                assert len(bomb) < 1 << 20
                refused = await wire.produce(topic, bomb, 9)
                assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
                assert "unpack to more than" in refused.error_message
            _, most_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most_bytes < 40 << 20
        assert (await wire.produce(topic, batch(b"good"), 9)).base_offset == 0


async def test_without_acks_nothing_is_answered_and_a_wrong_leader_is_told_by_hanging_up(tmp_path):
    async with running(tmp_path, SEPARATE) as (nodes, wire):
        topic = await wire.topic("orders")
        leader = topic.partitions[0].leader_id
        data = produce.TopicProduceData("orders", bytes(16), (produce.PartitionProduceData(0, batch(b"one")),))
        request = produce.ProduceRequest(None, 0, 1000, (data,))
        client = await wire.to(leader)
        client.send(request, 9)
        client._sent.clear()
        answer = await wire.fetch(topic, 0, 12, max_wait_ms=5000)
        assert values_of(answer.responses[0].partitions[0]) == [b"one"]
        async with await WireClient.connect(nodes.nodes[11 - leader]) as stray:
            stray.send(request, 9)
            assert await stray.is_closed()


@pytest.mark.parametrize("version", [11, 12], ids=["version 1", "version 2"])
async def test_a_transaction_is_seen_when_it_is_committed_and_never_when_aborted(tmp_path, layout, version):
    async with running(tmp_path, layout) as (_, wire):
        topic = await wire.topic("orders")
        is_implicit = version >= 12
        end_version = 5 if is_implicit else 3
        producer = await wire.init("checkout")
        coordinator = await wire.coordinator("checkout", 1)
        sequence = 0
        for commit, value in ((True, b"one"), (False, b"never"), (True, b"two")):
            if not is_implicit and value == b"one":
                unknown = await wire.produce(topic, batch(value, producer=producer), version, "checkout")
                assert unknown.error_code == ErrorCode.TRANSACTION_ABORTABLE
            if not is_implicit:
                added = add_partitions_to_txn.AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id="checkout",
                    v3_and_below_producer_id=producer.producer_id,
                    v3_and_below_producer_epoch=producer.producer_epoch,
                    v3_and_below_topics=(add_partitions_to_txn.AddPartitionsToTxnTopic("orders", (0,)),),
                )
                answer = await wire.ask(coordinator, added, 3)
                assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == NONE
            produced = await wire.produce(
                topic, batch(value, producer=producer, sequence=sequence), version, "checkout"
            )
            assert produced.error_code == NONE
            ended = await wire.end("checkout", producer, commit=commit, version=end_version)
            assert ended.error_code == NONE
            if is_implicit:
                assert ended.producer_epoch == producer.producer_epoch + 1
                producer, sequence = ended, 0
            else:
                sequence += 1
        while True:
            (partition,) = (await wire.fetch(topic, 0, 16)).responses[0].partitions
            if partition.last_stable_offset == 6:
                break
        assert values_of(partition) == [b"one", b"never", b"two"]
        assert [(aborted.first_offset) for aborted in partition.aborted_transactions] == [2]


async def test_adding_partitions_is_all_or_nothing(tmp_path):
    async with running(tmp_path, COLOCATED) as (_, wire):
        await wire.topic("orders")
        producer = await wire.init("checkout")
        coordinator = await wire.coordinator("checkout", 1)
        topics = tuple(
            add_partitions_to_txn.AddPartitionsToTxnTopic(name, (0,))
            for name in ("orders", "none", "__transaction_state")
        )
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="checkout",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=topics,
        )
        answer = await wire.ask(coordinator, request, 3)
        codes = [topic.results_by_partition[0].partition_error_code for topic in answer.results_by_topic_v3_and_below]
        assert codes == [
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ]


async def test_questions_of_brokers_are_refused_to_clients(tmp_path):
    async with running(tmp_path, {0: COLOCATED[0]}) as (_, wire):
        await wire.topic("orders")
        producer = await wire.init("checkout")
        transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
            "checkout",
            producer.producer_id,
            producer.producer_epoch,
            False,
            (add_partitions_to_txn.AddPartitionsToTxnTopic("__transaction_state", (0,)),),
        )
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=(transaction,))
        for version in (4, 5):
            answer = await wire.ask(0, request, version)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert not answer.results_by_transaction
        assert (await wire.end("checkout", producer, commit=False)).error_code == NONE


async def test_fetch_of_a_follower_is_refused_to_clients(tmp_path):
    async with running(tmp_path, {0: COLOCATED[0]}) as (_, wire):
        topic = await wire.topic("orders")
        for version, who in (
            (12, {"replica_id": 0}),
            (16, {"replica_state": fetch.ReplicaState(replica_id=1, replica_epoch=1)}),
        ):
            answer = await wire.fetch(topic, 0, version, **who)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (await wire.fetch(topic, 0, 16)).error_code == NONE


async def test_a_fenced_producer_hears_it_in_the_words_of_its_version(tmp_path):
    async with running(tmp_path, COLOCATED) as (_, wire):
        await wire.topic("orders")
        old = await wire.init("checkout")
        await wire.init("checkout")
        for version, code in ((1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)):
            assert (await wire.end("checkout", old, commit=True, version=version)).error_code == code
            request = add_offsets_to_txn.AddOffsetsToTxnRequest(
                "checkout", old.producer_id, old.producer_epoch, "group"
            )
            node_id = await wire.coordinator("checkout", 1)
            assert (await wire.ask(node_id, request, version)).error_code == code
        await wire.init("checkout")
        named = {"producer_id": old.producer_id, "producer_epoch": old.producer_epoch}
        for version, code in ((3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)):
            assert (await wire.init("checkout", version, **named)).error_code == code
        half = {"producer_id": old.producer_id}
        assert (await wire.init("checkout", 4, **half)).error_code == ErrorCode.INVALID_REQUEST


async def test_any_node_gives_an_idempotent_producer_its_id(tmp_path):
    async with running(tmp_path, SEPARATE) as (_, wire):
        request = init_producer_id.InitProducerIdRequest(None, 1000)
        given = {
            (await wire.ask(node_id, request, version)).producer_id
            for node_id, version in ((3, 0), (4, 1), (5, 4), (6, 5))
        }
        assert len(given) == 4
        assert -1 not in given
        named = init_producer_id.InitProducerIdRequest("checkout", 1000)
        assert (await wire.ask(5, named, 4)).error_code == ErrorCode.NOT_COORDINATOR
        # A version that Kafka itself does not call stable is known to the codec and refused.
        assert (await wire.ask(3, request, 6)).error_code == ErrorCode.UNSUPPORTED_VERSION


def offsets_to_commit(topic, offset, version, kind):
    by_id = version >= (10 if kind is offset_commit else 6)
    prefix = "OffsetCommit" if kind is offset_commit else "TxnOffsetCommit"
    partition = getattr(kind, f"{prefix}RequestPartition")(0, offset, committed_metadata="here")
    unknown = getattr(kind, f"{prefix}RequestPartition")(7, offset)
    return (
        getattr(kind, f"{prefix}RequestTopic")(
            "" if by_id else topic.name, topic.topic_id if by_id else bytes(16), (partition, unknown)
        ),
    )


async def committed_offset(wire, topic, group, version, **fields):
    node_id = await wire.coordinator(group, 0)
    if version < 8:
        topics = (offset_fetch.OffsetFetchRequestTopic(topic.name, (0,)),)
        answer = await wire.ask(node_id, offset_fetch.OffsetFetchRequest(group, topics, **fields), version)
        assert answer.error_code == NONE
        return answer.topics[0].partitions[0]
    by_id = version >= 10
    topics = (
        offset_fetch.OffsetFetchRequestTopics(
            "" if by_id else topic.name, topic.topic_id if by_id else bytes(16), (0,)
        ),
    )
    groups = (offset_fetch.OffsetFetchRequestGroup(group, topics=topics),)
    answer = await wire.ask(node_id, offset_fetch.OffsetFetchRequest(groups=groups, **fields), version)
    assert answer.groups[0].error_code == NONE
    return answer.groups[0].topics[0].partitions[0]


async def test_offsets_are_committed_and_fetched_in_every_version(tmp_path):
    async with running(tmp_path, SEPARATE) as (_, wire):
        topic = await wire.topic("orders")
        node_id = await wire.coordinator("group", 0)
        for version in range(2, 11):
            request = offset_commit.OffsetCommitRequest(
                "group", topics=offsets_to_commit(topic, version, version, offset_commit)
            )
            answer = await wire.ask(node_id, request, version)
            codes = [partition.error_code for partition in answer.topics[0].partitions]
            assert codes == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            for fetch_version in range(1, 11):
                found = await committed_offset(wire, topic, "group", fetch_version)
                assert (found.committed_offset, found.metadata, found.error_code) == (version, "here", NONE)
        everything = await wire.ask(node_id, offset_fetch.OffsetFetchRequest("group", None), 2)
        assert everything.topics[0].partitions[0].committed_offset == 10
        groups = tuple(offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in ("group", "other"))
        everything = await wire.ask(node_id, offset_fetch.OffsetFetchRequest(groups=groups), 10)
        assert [len(group.topics) for group in everything.groups] == [1, 0]
        assert everything.groups[0].topics[0].topic_id == topic.topic_id
        stray = offset_fetch.OffsetFetchRequest("group", (offset_fetch.OffsetFetchRequestTopic("orders", (0,)),))
        assert (await wire.ask(5, stray, 1)).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert (await wire.ask(5, stray, 2)).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(7))
async def test_offsets_of_a_transaction_are_the_groups_when_it_is_committed(tmp_path, version):
    async with running(tmp_path, COLOCATED) as (_, wire):
        topic = await wire.topic("orders")
        producer = await wire.init("checkout")
        if version < 5:
            request = add_offsets_to_txn.AddOffsetsToTxnRequest(
                "checkout", producer.producer_id, producer.producer_epoch, "group"
            )
            answer = await wire.ask(await wire.coordinator("checkout", 1), request, min(version, 4))
            assert answer.error_code == NONE
        request = txn_offset_commit.TxnOffsetCommitRequest(
            "checkout",
            "group",
            producer.producer_id,
            producer.producer_epoch,
            topics=offsets_to_commit(topic, 42, version, txn_offset_commit),
        )
        if version < 5:
            # The guard asks once on each connection; the client repeats its request.
            answer = await wire.ask(await wire.coordinator("group", 0), request, version)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        answer = await wire.ask(await wire.coordinator("group", 0), request, version)
        codes = [partition.error_code for partition in answer.topics[0].partitions]
        assert codes == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        unstable = await committed_offset(wire, topic, "group", 7, require_stable=True)
        assert unstable.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert (await committed_offset(wire, topic, "group", 7)).committed_offset == -1
        end_version = 5 if version >= 5 else 3
        assert (await wire.end("checkout", producer, commit=True, version=end_version)).error_code == NONE
        while (await committed_offset(wire, topic, "group", 8, require_stable=True)).error_code:
            await asyncio.sleep(0.01)
        assert (await committed_offset(wire, topic, "group", 9)).committed_offset == 42


@pytest.mark.parametrize("version", range(1, 12))
async def test_offsets_are_listed_in_every_version(tmp_path, version):
    async with running(tmp_path, COLOCATED) as (_, wire):
        topic = await wire.topic("orders")
        await wire.produce(topic, batch(b"one", b"two"), 9)

        async def listed(timestamp, name="orders", epoch=-1):
            asked = list_offsets.ListOffsetsPartition(0, epoch, timestamp)
            request = list_offsets.ListOffsetsRequest(-1, 0, (list_offsets.ListOffsetsTopic(name, (asked,)),))
            answer = await wire.ask(topic.partitions[0].leader_id, request, version)
            found = answer.topics[0].partitions[0]
            return found.error_code or found.offset

        assert await listed(-1) == 2
        assert await listed(-2) == 0
        assert await listed(NOW_MS) == 0
        assert await listed(NOW_MS + 1) == -1
        unsupported = ErrorCode.UNSUPPORTED_VERSION
        assert await listed(-3) == (0 if version >= 7 else unsupported)
        assert await listed(-4) == (0 if version >= 8 else unsupported)
        assert await listed(-5) == (-1 if version >= 9 else unsupported)
        assert await listed(-1, "none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= 4:
            assert await listed(-1, epoch=99) == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_fetch_waits_for_records_and_answers_behind_it_stay_in_order(tmp_path):
    async with running(tmp_path, COLOCATED) as (nodes, wire):
        topic = await wire.topic("orders")
        leader = nodes.nodes[topic.partitions[0].leader_id]
        async with await WireClient.connect(leader) as client:
            asked = fetch.FetchTopic("orders", bytes(16), (fetch.FetchPartition(partition_max_bytes=1000),))
            client.send(fetch.FetchRequest(topics=(asked,), max_wait_ms=10_000, min_bytes=1), 12)
            client.send(api_versions.ApiVersionsRequest("tests", "1"), 3)
            await asyncio.sleep(0.05)
            await wire.produce(topic, batch(b"one"), 9)
            fetched = await client.receive()
            assert values_of(fetched.responses[0].partitions[0]) == [b"one"]
            assert (await client.receive()).error_code == NONE


async def test_a_fetch_session_tells_only_news(tmp_path):
    async with running(tmp_path, COLOCATED) as (_, wire):
        topic = await wire.topic("orders")
        first = await wire.fetch(topic, 0, 13, session_epoch=0)
        assert first.session_id > 0
        assert len(first.responses) == 1
        leader = topic.partitions[0].leader_id
        nothing = fetch.FetchRequest(session_id=first.session_id, session_epoch=1)
        answer = await wire.ask(leader, nothing, 13)
        assert (answer.session_id, answer.responses) == (first.session_id, ())
        await wire.produce(topic, batch(b"one"), 9)
        news = fetch.FetchRequest(session_id=first.session_id, session_epoch=2)
        answer = await wire.ask(leader, news, 13)
        assert values_of(answer.responses[0].partitions[0]) == [b"one"]
        for request, version, code in (
            (nothing, 13, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
            (fetch.FetchRequest(session_id=first.session_id, session_epoch=3), 12, 106),
            (fetch.FetchRequest(session_id=123, session_epoch=1), 13, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ):
            assert (await wire.ask(leader, request, version)).error_code == code
