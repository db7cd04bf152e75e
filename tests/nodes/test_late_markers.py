"""Marker calls of version 1 that arrive again, on real nodes: the next transaction of the producer is left alone."""

import asyncio

import pytest

from eagleray.actors.lanes.messages import WriteGroupMarkers
from eagleray.broker.partitions.events import WriteMarkers
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import add_partitions_to_txn
from eagleray.testing import COLOCATED, SEPARATE
from tests.nodes.test_wire import batch, running, values_of

NONE = ErrorCode.NONE


@pytest.fixture(params=["separate", "colocated"])
def layout(request):
    return {"separate": SEPARATE, "colocated": COLOCATED}[request.param]


def heard(nodes):
    """Note all calls for markers that the nodes make of each other, so that they can come again."""
    calls = []
    for node in nodes.nodes.values():
        peers = node.peers
        ask = peers.ask

        def noting(node_id, on_reply, kind, *fields, peers=peers, ask=ask, **named):
            if kind in (WriteMarkers, WriteGroupMarkers):
                calls.append((peers, node_id, kind, fields))
            ask(node_id, on_reply, kind, *fields, **named)

        peers.ask = noting
    return calls


async def begin(wire, topic, producer, value, sequence):
    added = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="checkout",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=(add_partitions_to_txn.AddPartitionsToTxnTopic("orders", (0,)),),
    )
    coordinator = await wire.coordinator("checkout", 1)
    while True:
        answer = await wire.ask(coordinator, added, 3)
        code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        if code == NONE:
            break
        await asyncio.sleep(0.01)
    produced = await wire.produce(topic, batch(value, producer=producer, sequence=sequence), 11, "checkout")
    assert produced.error_code == NONE


async def fetched(wire, topic, last_stable_offset):
    """Read what is committed, once the partition is decided up to an offset."""
    async with asyncio.timeout(20):
        while True:
            (partition,) = (await wire.fetch(topic, 0, 16)).responses[0].partitions
            if partition.last_stable_offset >= last_stable_offset:
                return partition
            await asyncio.sleep(0.01)


async def test_a_marker_that_arrives_again_does_not_end_the_next_transaction(tmp_path, layout):
    """The delayed marker that KIP-890 names, for clients of version 1: here the next transaction is to be aborted."""
    async with running(tmp_path, layout) as (nodes, wire):
        topic = await wire.topic("orders")
        calls = heard(nodes)
        producer = await wire.init("checkout")
        await begin(wire, topic, producer, b"paid", 0)
        assert (await wire.end("checkout", producer, commit=True, version=3)).error_code == NONE
        await fetched(wire, topic, 2)
        await begin(wire, topic, producer, b"taken back", 1)

        for peers, node_id, kind, fields in [*calls]:
            reply = await peers.call(node_id, kind, *fields)
            assert {*reply.error_codes} == {ErrorCode.INVALID_PRODUCER_EPOCH}

        assert (await fetched(wire, topic, 2)).last_stable_offset == 2
        assert (await wire.end("checkout", producer, commit=False, version=3)).error_code == NONE
        partition = await fetched(wire, topic, 4)
        assert values_of(partition) == [b"paid", b"taken back"]
        assert [aborted.first_offset for aborted in partition.aborted_transactions] == [2]
