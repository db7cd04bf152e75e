"""Records of the transaction log, byte for byte."""

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.config import LogConfig
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.transactions.log_records import (
    NEVER_LOGGED,
    append_transitions,
    decode_value,
    encode_key,
    encode_value,
    replay,
)
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.codec import MalformedMessage, UnsupportedVersion, decode_versioned, encode_versioned
from eagleray.protocol.messages.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from tests.support.coordinators import ORDERS_0, snapshot
from tests.support.leading import alone
from tests.support.simulated_disk import SimulatedDisk

STORED_STATES = [state for state in TransactionState if state not in NEVER_LOGGED]


def test_an_ongoing_transaction_in_bytes():
    ongoing = snapshot(
        TransactionState.ONGOING,
        producer_id=1234,
        partitions=frozenset({TopicPartition("orders", 3), TopicPartition("orders", 1), TopicPartition("a", 0)}),
        start_ms=1000,
        updated_ms=2000,
        client_version=2,
        last_producer_epoch=4,
    )

    assert encode_value(ongoing) == bytes.fromhex(
        "0001 00000000000004d2 0005 0000ea60 01"  # version, producer id and epoch, timeout, state
        "03 0261 02 00000000 00"  # two topics: "a" with one partition,
        "07 6f7264657273 03 00000001 00000003 00"  # and "orders" with two
        "00000000000007d0 00000000000003e8"  # last update, start
        "02 02 02 0002 64 02 0004"  # two tagged fields: the client's version, and the epoch before
    )


def test_a_key_in_bytes():
    assert encode_key("jürgen") == bytes.fromhex("0000 0007 6ac3bc7267656e")


def test_without_a_transaction_the_partitions_are_null():
    assert decode_versioned(TransactionLogValue, encode_value(snapshot(TransactionState.EMPTY))) == (
        TransactionLogValue(
            producer_id=7,
            producer_epoch=5,
            transaction_timeout_ms=60_000,
            transaction_status=0,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=0,
            transaction_start_timestamp_ms=-1,
            client_transaction_version=1,
        )
    )


@pytest.mark.parametrize("state", STORED_STATES)
@pytest.mark.parametrize("client_version", [0, 1, 2])
def test_every_state_survives(state: TransactionState, client_version: int):
    before = snapshot(state, client_version=client_version, last_producer_epoch=3)

    assert decode_value(encode_value(before)) == before


def test_a_change_of_producer_id_survives():
    before = snapshot(
        TransactionState.PREPARE_COMMIT,
        producer_epoch=32767,
        last_producer_epoch=32766,
        next_producer_id=2**40,
        next_producer_epoch=0,
        previous_producer_id=3,
        client_version=2,
    )

    assert decode_value(encode_value(before)) == before
    as_kafka_reads_it = decode_versioned(TransactionLogValue, encode_value(before))
    assert as_kafka_reads_it.next_producer_id == 2**40
    assert as_kafka_reads_it.next_producer_epoch == 0
    assert as_kafka_reads_it.previous_producer_id == 3
    assert as_kafka_reads_it.client_transaction_version == 2


@pytest.mark.parametrize("state", NEVER_LOGGED)
def test_two_states_are_never_logged(state: TransactionState):
    for client_version in (0, 1):
        with pytest.raises(AssertionError, match="never logged"):
            encode_value(snapshot(state, client_version=client_version))
    with pytest.raises(MalformedMessage, match=f"state {int(state)}"):
        decode_value(encode_versioned(TransactionLogValue(transaction_status=state)))


@pytest.mark.parametrize("status", [-1, 8, 127])
def test_a_state_that_does_not_exist_is_no_record(status: int):
    for partitions in ((), (PartitionsSchema(topic="t", partition_ids=(1,)),)):
        record = TransactionLogValue(transaction_status=status, transaction_partitions=partitions)
        with pytest.raises(MalformedMessage, match=f"state {status}"):
            decode_value(encode_versioned(record))


def test_the_older_version_is_read_too():
    old = TransactionLogValue(
        producer_id=7,
        producer_epoch=5,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=(PartitionsSchema(topic="orders", partition_ids=(0,)),),
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=0,
    )

    assert decode_value(encode_versioned(old, 0)) == snapshot(TransactionState.ONGOING, client_version=0)


def test_a_version_from_the_future_is_refused_and_not_lost():
    with pytest.raises(UnsupportedVersion):
        decode_value(b"\x00\x02" + encode_value(snapshot(TransactionState.EMPTY))[2:])


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.ONGOING])
def test_a_record_that_is_cut_short_is_malformed(state: TransactionState):
    whole = encode_value(snapshot(state, last_producer_epoch=4))

    for length in range(len(whole)):
        with pytest.raises(MalformedMessage):
            decode_value(whole[:length])
    with pytest.raises(MalformedMessage):
        decode_value(whole + b"\0")


def test_replaying_takes_the_last_value_and_no_notice_of_tombstoned_ids():
    first, second = snapshot(TransactionState.EMPTY), snapshot(TransactionState.ONGOING)
    records = [
        (encode_key("a"), encode_value(first)),
        (encode_key("b"), encode_value(first)),
        (encode_key("gone"), encode_value(first)),
        (encode_key("a"), encode_value(second)),
        (encode_key("gone"), None),
        (encode_key("never-there"), None),
        (encode_key("back"), None),
        (encode_key("back"), encode_value(second)),
    ]

    assert replay(records) == {"a": second, "b": first, "back": second}


def test_replaying_skips_keys_of_a_kind_that_is_not_known():
    key = encode_versioned(TransactionLogKey(transactional_id="a"))

    assert replay([(b"\x00\x09" + key[2:], b"whatever"), (key, encode_value(snapshot(TransactionState.EMPTY)))]) == {
        "a": snapshot(TransactionState.EMPTY)
    }


def test_partitions_of_an_open_transaction_come_back():
    ongoing = snapshot(TransactionState.ONGOING, partitions=frozenset({ORDERS_0, TopicPartition("ü", 2**31 - 1)}))

    assert replay([(encode_key("a"), encode_value(ongoing))]) == {"a": ongoing}


def test_ids_that_no_batch_holds_together_are_forgotten_in_several():
    """KAFKA-13099: there the log refuses them all, each time, and no id is forgotten any more."""
    log = PartitionLog.open(SimulatedDisk(), "/transactions-0", LogConfig(max_message_bytes=1_000), now_ms=0)
    names = [f"checkout-{number}" for number in range(100)]
    leader = alone(log)
    for name in names:
        assert append_transitions(leader, [(name, snapshot(TransactionState.EMPTY))], now_ms=0)

    assert append_transitions(leader, [(name, None) for name in names], now_ms=0)

    log.advance_high_watermark(log.log_end_offset)
    records = [(record.key, record.value) for batch in log.batches() for record in batch.records()]
    assert [key for key, value in records if value is None] == [encode_key(name) for name in names]
    assert replay(records) == {}


def test_transition_that_is_too_large_for_any_batch_is_not_taken():
    log = PartitionLog.open(SimulatedDisk(), "/transactions-0", LogConfig(max_message_bytes=100), now_ms=0)

    assert not append_transitions(alone(log), [("c" * 100, None), ("d", None)], now_ms=0)
