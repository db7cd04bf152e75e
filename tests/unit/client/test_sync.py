"""The blocking clients: the same core on a loop in the background, in real time."""

import asyncio
import concurrent.futures
import gc
import os
import pickle
import threading

import pytest

from eagleray.broker.partitions.events import Produce
from eagleray.client.errors import (
    BufferFull,
    ClientClosed,
    ForkedClient,
    InvalidTransactionState,
    MessageTooLarge,
    NotEnded,
    ReplicasRefused,
    TopicNotFound,
)
from eagleray.client.producer.sync_producer import Producer
from eagleray.client.sync_cluster import SyncCluster
from tests.support.background import Background
from tests.support.client_helpers import ORDERS
from tests.support.lanes_in_memory import Fate

WAIT_SECONDS = 20


def send_and_fail(producer: Producer) -> None:
    with producer.transaction():
        producer.send("orders", b"gone", partition=0)
        raise ZeroDivisionError


def send_for_ever(producer: Producer, futures: list) -> None:
    while True:
        futures.append(producer.send("orders", bytes(100), partition=0))


def drop(holder: list) -> None:
    holder.clear()
    gc.collect()


def test_transactions_and_reading_back(background: Background):
    with background.cluster.producer(transactional_id="billing") as producer:
        with producer.transaction():
            future = producer.send("orders", b"one", key="k", partition=0)
        assert future.result(WAIT_SECONDS).offset == 0
        with pytest.raises(ZeroDivisionError):
            send_and_fail(producer)
        with producer.transaction():
            producer.send("orders", b"two", partition=0)
    with background.cluster.consumer(
        "orders", group="readers", isolation="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        values = []
        for record in consumer:
            values.append(record.value)
            if len(values) == 2:
                break
        consumer.commit()
        assert consumer.committed()[ORDERS[0]].offset >= 2
    assert values == [b"one", b"two"]


def test_records_of_a_thread_stay_in_order_and_wake_the_loop_rarely(background: Background):
    with background.cluster.producer() as producer:
        futures = [producer.send("orders", str(number), partition=0) for number in range(2000)]
        producer.flush()
        assert [future.result(0).offset for future in futures] == list(range(2000))
    assert background.on_loop(background.world.committed, "orders", 0) == [str(n).encode() for n in range(2000)]
    assert len(background.world.asked(Produce)) < 500


def test_many_threads_may_share_a_producer(background: Background):
    with background.cluster.producer() as producer:

        def work(name: int) -> list[int]:
            futures = [producer.send("orders", f"{name}-{n}", partition=name % 3) for n in range(200)]
            return [future.result(WAIT_SECONDS).offset for future in futures]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            offsets = list(pool.map(work, range(4)))
    assert all(each == sorted(each) for each in offsets)
    assert len(background.on_loop(background.world.committed, "orders")) == 800


def test_records_behind_one_that_waits_for_its_topic_keep_their_order(background: Background):
    with background.cluster.producer() as producer:
        first = producer.send("later", b"first", partition=0)
        second = producer.send("later", b"second", partition=0)
        background.on_loop(background.world.create, "later", 1)
        assert [first.result(WAIT_SECONDS).offset, second.result(WAIT_SECONDS).offset] == [0, 1]


def test_flush_waits_for_a_record_that_waits_for_its_topic(background: Background):
    with background.cluster.producer() as producer:
        future = producer.send("later", b"first", partition=0)
        loop = background.thread.loop
        background.on_loop(loop.call_later, 0.1, background.world.create, "later", 1)
        producer.flush()
        assert future.result(0).offset == 0


def test_wrong_record_raises_and_the_outcome_of_a_good_one_is_in_its_delivery(background: Background):
    with background.cluster.producer(max_request_size=1000, max_block_ms=50) as producer:
        with pytest.raises(MessageTooLarge):
            producer.send("orders", bytes(2000))
        assert isinstance(producer.send("nothing", b"x").exception(WAIT_SECONDS), TopicNotFound)
        assert producer.send("orders", b"fine").result(WAIT_SECONDS).offset == 0
        with pytest.raises(TypeError, match="bytes"):
            producer.send("orders", 7)


def test_a_full_buffer_blocks_the_sender_up_to_its_limit(background: Background):
    leader = background.world.image.leader_of(ORDERS[0])
    with background.cluster.producer(buffer_memory=1000, max_block_ms=100) as producer:
        background.on_loop(background.world.kill, leader)
        futures = []
        with pytest.raises(BufferFull):
            send_for_ever(producer, futures)
        background.on_loop(background.world.start, leader)
        outcomes = {type(future.exception(WAIT_SECONDS)) for future in futures}
        assert outcomes <= {type(None), BufferFull}


def test_callbacks_come_from_the_loop(background: Background):
    told: concurrent.futures.Future = concurrent.futures.Future()
    with background.cluster.producer() as producer:
        producer.send("orders", b"x", on_delivery=lambda metadata, error: told.set_result((metadata, error)))
        metadata, error = told.result(WAIT_SECONDS)
    assert (metadata.offset, error) == (0, None)


def test_admin_and_branches(background: Background):
    cluster = background.cluster
    with cluster.admin as admin:
        admin.create_topic("new", partitions=2)
        assert admin.list_topics()["new"] == 2
    with cluster.begin("job", tag="one") as transaction:
        token = pickle.loads(pickle.dumps(transaction.branch()))
        with cluster.join(token) as writer:
            writer.send("new", b"branch", partition=1)
            sealed = writer.seal()
        transaction.commit([sealed])
    assert cluster.begin("job", tag="one").already_committed
    with cluster.consumer("new", auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.poll(10_000)] == [b"branch"]


def leave_block(cluster: SyncCluster, tag: str) -> None:
    with cluster.begin("job", tag=tag) as transaction:
        transaction.branch()


def test_block_of_many_writers_without_commit_or_abort_aborts_and_raises(background: Background):
    with pytest.raises(NotEnded, match=r"commit\(\)") as raised:
        leave_block(background.cluster, "one")
    assert "await" not in str(raised.value)
    again = background.cluster.begin("job", tag="one")
    assert not again.already_committed
    again.commit()
    leave_block(background.cluster, "one")


def test_admin_of_replicas(background: Background):
    admin = background.cluster.admin
    assert [node.node_id for node in admin.list_nodes()] == [0, 1, 2, 3, 4]
    assert ORDERS[0] in admin.kept_by(3) | admin.kept_by(4)
    assert admin.elect_leaders(ORDERS[0]) == admin.elect_leaders(unclean=True) == []
    with pytest.raises(ReplicasRefused, match="node 99"):
        admin.reassign_partitions({ORDERS[0]: [99]})
    admin.reassign_partitions({ORDERS[0]: None})
    assert admin.list_reassignments(ORDERS[0]) == []
    with pytest.raises(ReplicasRefused, match="no machine can take"):
        admin.drain_node(3)
    admin.undrain_node(3)
    assert admin.delete_records({ORDERS[0]: -1}, timeout_ms=1000) == {ORDERS[0]: 0}


def test_iterating_commits_only_what_was_yielded(background: Background):
    with background.cluster.producer() as producer:
        for number in range(10):
            producer.send("orders", str(number), partition=0)
    with background.cluster.consumer("orders", group="readers", auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).offset == 0
        consumer.seek_to_beginning()
        for record in consumer:
            if record.offset == 3:
                break
        assert consumer.position(ORDERS[0]) == 4
        consumer.commit()
        assert consumer.committed()[ORDERS[0]].offset == 4
        consumer.seek(ORDERS[0], 8)
        assert next(iter(consumer)).offset == 8
        consumer.pause(ORDERS[0])
        assert consumer.poll(50) == []
        consumer.resume(ORDERS[0])
        assert next(iter(consumer)).offset == 9
        assert consumer.end_offsets(ORDERS[0]) == {ORDERS[0]: 10}


def test_automatic_commits_are_not_ahead_of_what_was_yielded(background: Background):
    with background.cluster.producer() as producer:
        for number in range(100):
            producer.send("orders", str(number), partition=0)
    settings = {"group": "readers", "enable_auto_commit": True, "auto_commit_interval_ms": 1}
    consumer = background.cluster.consumer("orders", **settings)
    crossings = []
    real = consumer._thread.run
    consumer._thread.run = lambda work, *rest: (crossings.append(work), real(work, *rest))[1]
    for record in consumer:
        if record.offset == 70:
            break
    consumer.close()
    assert len(crossings) < 20, "records do not cross to the thread one by one"
    with background.cluster.consumer(group="readers") as reader:
        assert reader.committed(ORDERS[0])[ORDERS[0]].offset == 71


def test_consumer_that_is_dropped_leaves_its_group(background: Background):
    holder = [background.cluster.consumer("orders", group="readers")]
    with pytest.warns(ResourceWarning, match="without close"):
        drop(holder)
    with background.cluster.consumer("orders", group="readers") as consumer:
        assert consumer.assignment() == set(ORDERS)


def test_closing_again_does_nothing_and_using_what_is_closed_is_an_error(background: Background):
    producer = background.cluster.producer()
    producer.close()
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send("orders", b"x")


def test_a_call_that_waits_ends_when_the_loop_is_closed(background: Background):
    consumer = background.cluster.consumer("orders")
    raised: concurrent.futures.Future = concurrent.futures.Future()

    def poll() -> None:
        try:
            raised.set_result(consumer.poll(60_000))
        except ClientClosed as error:
            raised.set_result(error)

    polling = threading.Thread(target=poll)
    polling.start()
    background.on_loop(lambda: None)
    background.on_loop(background.world.close)
    background.cluster.close()
    background.cluster.close()
    assert isinstance(raised.result(WAIT_SECONDS), ClientClosed)
    polling.join()
    with pytest.raises(ClientClosed):
        consumer.poll(0)
    consumer.close()


def test_futures_of_records_end_when_the_loop_is_closed(background: Background):
    producer = background.cluster.producer()
    background.on_loop(background.world.kill, background.world.image.leader_of(ORDERS[0]))
    on_its_way = producer.send("orders", b"x", partition=0)
    blocked = producer.send("nothing", b"x")
    behind = producer.send("orders", b"x", partition=0)
    background.on_loop(background.world.close)
    background.cluster.close()
    for future in (on_its_way, blocked, behind):
        assert isinstance(future.exception(WAIT_SECONDS), ClientClosed)
    with pytest.raises(ClientClosed):
        producer.send("orders", b"more")
    producer.close()


def test_an_interrupt_of_the_waiting_thread_cancels_the_call(background: Background, monkeypatch: pytest.MonkeyPatch):
    started, cancelled, real = threading.Event(), threading.Event(), asyncio.run_coroutine_threadsafe

    async def endless() -> None:
        started.set()
        try:
            await background.thread.loop.create_future()
        finally:
            cancelled.set()

    def interrupt(timeout: float | None) -> None:
        assert started.wait(WAIT_SECONDS)
        raise KeyboardInterrupt

    def submit(work, loop):
        future = real(work, loop)
        future.result = interrupt
        return future

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "run_coroutine_threadsafe", submit)
        with pytest.raises(KeyboardInterrupt):
            background.thread.run(endless())
    assert cancelled.wait(WAIT_SECONDS)


def test_a_blocking_call_on_the_loops_own_thread_is_refused(background: Background):
    producer = background.cluster.producer()

    def call_back(metadata, error) -> None:
        try:
            producer.flush()
        except InvalidTransactionState as refused:
            told.set_result(refused)

    told: concurrent.futures.Future = concurrent.futures.Future()
    producer.send("orders", b"x", on_delivery=call_back)
    assert "own thread" in str(told.result(WAIT_SECONDS))
    producer.close()


def test_a_forked_client_says_so(background: Background, monkeypatch: pytest.MonkeyPatch):
    producer = background.cluster.producer()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        with pytest.raises(ForkedClient, match="process"):
            producer.flush()
    producer.close()


def test_a_client_that_is_dropped_without_close_warns(background: Background):
    holder = [background.cluster.producer()]
    with pytest.warns(ResourceWarning, match="Producer"):
        drop(holder)


def test_lost_answers_do_not_show(background: Background):
    background.on_loop(background.world.network.plan, Produce, Fate.REPLY_LOST)
    with background.cluster.producer() as producer:
        assert producer.send("orders", b"x", partition=0).result(WAIT_SECONDS).offset == 0
