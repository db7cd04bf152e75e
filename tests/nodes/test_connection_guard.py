"""Requests of version 1 that come late, on the connection that their client has left, by real sockets.

Each test is run without the guard too, where the late request does the harm: else it would not have come late enough.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from eagleray.protocol.errors import ErrorCode
from eagleray.testing import COLOCATED, SEPARATE, LocalCluster
from tests.support.version_1_producer import VERSIONS, Version1Producer, error_of

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
NONE = ErrorCode.NONE
FEW_PARTITIONS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}

ON_AND_OFF = pytest.mark.parametrize("guard", ["on", "off"])


@asynccontextmanager
async def producing(tmp_path, guard="on", layout=COLOCATED, **settings):
    settings = FEW_PARTITIONS | {"transaction.v1.guard": guard} | settings
    async with LocalCluster(tmp_path, layout, settings) as nodes:
        node = nodes.nodes[max(nodes.nodes)]
        async with Version1Producer(node.spec.host, node.port, "checkout") as producer:
            await producer.leader_of("orders")
            await producer.init()
            yield producer


@ON_AND_OFF
async def test_late_commit_does_not_decide_the_next_transaction(tmp_path, guard):
    async with producing(tmp_path, guard) as producer:
        await producer.begin("orders", b"one")
        # The commit is held up on its connection; the client repeats it on another one.
        old = await producer.connect_to_coordinator()
        assert await producer.end(commit=True) == NONE
        await producer.begin("orders", b"two")

        late = error_of(await producer.ask_once(old, producer.ending(commit=True)))
        own = await producer.end(commit=False)

        if guard == "on":
            assert (late, own) == (CONCURRENT, NONE)
            assert await producer.committed_values("orders") == [b"one"]
        else:
            assert (late, own) == (NONE, ErrorCode.INVALID_TXN_STATE)
            assert await producer.committed_values("orders") == [b"one", b"two"]


@ON_AND_OFF
async def test_late_add_partitions_begins_no_transaction(tmp_path, guard):
    async with producing(tmp_path, guard) as producer:
        adding = producer.adding("orders")
        old = await producer.connect_to_coordinator()
        await producer.begin("orders", b"one")
        assert await producer.end(commit=True) == NONE

        late = error_of(await producer.ask_once(old, adding))
        aborted = await producer.end(commit=False)

        # There is something to abort only where a transaction has begun that the producer knows nothing of.
        assert (late, aborted) == ((CONCURRENT, ErrorCode.INVALID_TXN_STATE) if guard == "on" else (NONE, NONE))


@ON_AND_OFF
async def test_phantom_transaction_fences_its_producer(tmp_path, guard):
    """A transaction that a late AddPartitionsToTxn has begun times out, and with it goes the producer's epoch."""
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    async with producing(tmp_path, guard, **quick) as producer:
        await producer.init(timeout_ms=400)
        adding = producer.adding("orders")
        old = await producer.connect_to_coordinator()
        await producer.begin("orders", b"one")
        assert await producer.end(commit=True) == NONE
        await producer.ask_once(old, adding)

        await asyncio.sleep(1)
        added = error_of(await producer.until_taken(producer.coordinator, producer.adding("orders")))

        assert added == (NONE if guard == "on" else ErrorCode.PRODUCER_FENCED)


@ON_AND_OFF
async def test_late_offsets_do_not_get_into_the_next_transaction(tmp_path, guard):
    async with producing(tmp_path, guard) as producer:
        await producer.begin("orders", b"one")
        await producer.add_offsets("billing", "orders", 1)
        assert await producer.end(commit=True) == NONE
        # This commit of offsets is held up; the client gives it up, and its transaction.
        await producer.until_taken(producer.coordinator, producer.adding_offsets("billing"))
        late_commit = producer.committing_offset("billing", "orders", 7)
        old = await producer.connect_to_group_coordinator("billing")
        assert await producer.end(commit=False) == NONE
        await producer.until_taken(producer.coordinator, producer.adding_offsets("billing"))

        late = error_of(await producer.ask_once(old, late_commit))
        assert await producer.end(commit=True) == NONE

        assert late == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if guard == "on" else NONE)
        assert await producer.committed_offset("billing", "orders") == (1 if guard == "on" else 7)


@ON_AND_OFF
async def test_late_offsets_do_not_overwrite_those_of_the_next_transaction(tmp_path, guard):
    async with producing(tmp_path, guard) as producer:
        await producer.begin("orders", b"one")
        late_commit = producer.committing_offset("billing", "orders", 1)
        await producer.connect_to_group_coordinator("billing")
        old = await producer.connect_to_group_coordinator("billing")
        await producer.add_offsets("billing", "orders", 1)
        assert await producer.end(commit=True) == NONE
        await producer.add_offsets("billing", "orders", 5)

        await producer.ask_once(old, late_commit)
        assert await producer.end(commit=True) == NONE

        assert await producer.committed_offset("billing", "orders") == (5 if guard == "on" else 1)


async def test_client_repeats_one_request_when_its_connection_has_changed(tmp_path):
    async with producing(tmp_path, layout=SEPARATE) as producer:
        await producer.begin("orders", b"one")
        await producer.add_offsets("billing", "orders", 1)
        assert await producer.end(commit=True) == NONE
        assert producer.sent.count("AddPartitionsToTxnRequest") == 1
        assert producer.sent.count("TxnOffsetCommitRequest") == 2, "a group coordinator asks once for each connection"
        producer.sent.clear()

        await producer.connect_to_coordinator()
        await producer.begin("orders", b"two")
        await producer.add_offsets("billing", "orders", 2)
        assert await producer.end(commit=True) == NONE

        assert producer.sent.count("AddPartitionsToTxnRequest") == 2
        assert {name: producer.sent.count(name) for name in ("AddOffsetsToTxnRequest", "EndTxnRequest")} == {
            "AddOffsetsToTxnRequest": 1,
            "EndTxnRequest": 1,
        }
        assert producer.sent.count("TxnOffsetCommitRequest") == 1
        assert await producer.committed_values("orders") == [b"one", b"two"]
        assert await producer.committed_offset("billing", "orders") == 2


async def test_copies_that_come_at_once_on_an_old_connection_change_nothing(tmp_path):
    async with producing(tmp_path) as producer:
        await producer.begin("orders", b"one")
        old = await producer.connect_to_coordinator()
        assert await producer.end(commit=True) == NONE
        await producer.begin("orders", b"two")

        # The socket takes them together, so that the broker reads them together.
        for _ in range(5):
            old.send(producer.ending(commit=True), VERSIONS[type(producer.ending(commit=True))])
        late = [error_of(await old.receive()) for _ in range(5)]

        assert late == [CONCURRENT] * 5
        assert await producer.end(commit=False) == NONE
        assert await producer.committed_values("orders") == [b"one"]


async def test_closed_connection_takes_its_binding_along(tmp_path):
    async with producing(tmp_path) as producer:
        await producer.coordinator.close()
        await asyncio.sleep(0.1)
        await producer.connect_to_coordinator()

        await producer.begin("orders", b"one")

        assert producer.sent.count("AddPartitionsToTxnRequest") == 2
        assert await producer.end(commit=True) == NONE
