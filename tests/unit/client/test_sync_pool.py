"""Pools of transactions for threads: the asyncio ones, on a loop in the background."""

import threading

import pytest

from eagleray.broker.transactions.events import InitProducerId
from eagleray.client.errors import (
    ClientClosed,
    InvalidTransactionState,
    MessageTooLarge,
    OffsetsInUse,
    PoolBusy,
    PoolFenced,
)
from tests.support.background import Background
from tests.support.client_helpers import ORDERS


def send_and_fail(pool, value: bytes, *, prepares: bool = False) -> None:
    with pool.begin() as txn:
        txn.send("orders", value, partition=0)
        if prepares:
            txn.prepare(context=b"42")
        raise ZeroDivisionError


def committed(background: Background) -> list[bytes]:
    """What readers of committed records get, behind a last transaction of a producer."""
    with background.cluster.producer(transactional_id="last") as producer, producer.transaction():
        producer.send("orders", b"last", partition=0)
    found: list[bytes] = []
    with background.cluster.consumer(
        "orders", group="readers", isolation="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        for record in consumer:
            if record.value == b"last":
                break
            found.append(record.value)
    return found


def test_end_of_a_block_commits_and_an_exception_aborts(background: Background):
    with background.cluster.transactions("checkout", concurrency=2) as pool:
        with pool.begin() as first, pool.begin() as second:
            first.send("orders", b"one", partition=0)
            second.send("orders", b"two", partition=0)
            second.commit()
        with pytest.raises(ZeroDivisionError):
            send_and_fail(pool, b"gone")
        with pool.begin() as txn:
            txn.send("orders", b"gone too", partition=0)
            txn.abort()
        assert (pool.name, pool.recovered) == ("checkout", ())
    assert committed(background) == [b"one", b"two"]


def test_threads_share_a_pool(background: Background):
    with background.cluster.transactions("checkout", concurrency=3) as pool:

        def work(worker: int) -> None:
            for number in range(5):
                with pool.begin() as txn:
                    txn.send("orders", b"%d %d" % (worker, number), partition=0)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(committed(background)) == sorted(b"%d %d" % (w, n) for w in range(6) for n in range(5))
    slots = {each.transactional_id for each in background.world.asked(InitProducerId)} - {"last"}
    assert slots <= {f"checkout.__slot-{number}" for number in range(3)}


def test_what_is_left_prepared_is_recovered(background: Background):
    with (
        background.cluster.transactions("checkout") as pool,
        pytest.raises(ZeroDivisionError),
    ):
        send_and_fail(pool, b"prepared", prepares=True)
    with background.cluster.transactions("checkout") as pool:
        [left] = pool.recovered
        background.cluster.complete(left, commit=True)
    assert committed(background) == [b"prepared"]


def test_pool_is_fenced_by_the_next_of_its_name(background: Background):
    old = background.cluster.transactions("checkout").__enter__()
    txn = old.begin().__enter__()
    txn.send("orders", b"gone", partition=0)
    with background.cluster.transactions("checkout"):
        with pytest.raises(PoolFenced):
            txn.commit()
        with pytest.raises(PoolFenced):
            send_and_fail(old, b"late")
    old.close()
    assert committed(background) == []


def test_pool_is_busy_while_all_are_open(background: Background):
    with (
        background.cluster.transactions("checkout", concurrency=1, max_block_ms=50) as pool,
        pool.begin(),
        pytest.raises(PoolBusy),
    ):
        send_and_fail(pool, b"late")


def test_offsets_of_a_partition_are_those_of_one_open_transaction(background: Background):
    with background.cluster.transactions("checkout") as pool:
        first, second = pool.begin().__enter__(), pool.begin().__enter__()
        first.send_offsets({ORDERS[0]: 5}, "audit")
        with pytest.raises(OffsetsInUse):
            second.send_offsets({ORDERS[0]: 6}, "audit")
        second.abort()
        first.commit()


def test_failed_send_aborts_though_it_was_caught(background: Background):
    with background.cluster.transactions("checkout", max_request_size=100) as pool:
        txn = pool.begin().__enter__()
        with pytest.raises(MessageTooLarge):
            txn.send("orders", bytes(200), partition=0)
        with pytest.raises(MessageTooLarge):
            txn.__exit__(None, None, None)
    assert committed(background) == []


def test_transaction_outside_of_its_block_takes_nothing(background: Background):
    with background.cluster.transactions("checkout") as pool:
        txn = pool.begin()
        with pytest.raises(InvalidTransactionState, match="enter its block"):
            txn.send("orders", b"early")
        with txn:
            pass
        with pytest.raises(InvalidTransactionState, match="has ended"):
            txn.send("orders", b"late")
    with pytest.raises(ClientClosed, match="was closed"):
        txn.send("orders", b"late")


def test_pool_ends_with_the_loop_of_its_cluster(background: Background):
    pool = background.cluster.transactions("checkout").__enter__()
    txn = pool.begin().__enter__()
    background.close()
    with pytest.raises(ClientClosed):
        txn.send("orders", b"late", partition=0)
    with pytest.raises(ClientClosed):
        txn.commit()
    pool.close()


def test_interrupt_while_a_transaction_begins_leaves_its_slot_free(background: Background, monkeypatch):
    with background.cluster.transactions("checkout", concurrency=1, max_block_ms=2000) as pool:
        thread, run = pool._thread, pool._thread.run
        with monkeypatch.context() as patched:

            def interrupted(work, *fields):
                run(work, *fields)
                patched.setattr(thread, "run", run)
                raise KeyboardInterrupt

            patched.setattr(thread, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                pool.begin().__enter__()
        with pool.begin() as txn:
            txn.send("orders", b"kept", partition=0)
    assert committed(background) == [b"kept"]
