"""Preparations in records of the transaction log: ours to read, for others to skip, and open to more."""

import msgspec
import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.log_records import decode_value, encode_value
from eagleray.broker.transactions.preparation import (
    NO_TIMEOUT_MS,
    Outcome,
    Preparation,
    decode_preparation,
    encode_preparation,
)
from eagleray.broker.transactions.resolver import ResolverKind, ResolverName
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.codec import MalformedMessage, decode_versioned
from eagleray.protocol.messages.transaction_log import PartitionsSchema, TransactionLogValue
from tests.support.coordinators import snapshot

RESOLVER = ResolverName(ResolverKind.ACTOR, "shop", "ns", "say", 7, 8, 9, False)
PREPARATION = Preparation(70, b"42", (30, 31), 1000, Outcome(7, 4, True), RESOLVER, 2, 71)


def test_a_preparation_in_bytes():
    assert encode_preparation(PREPARATION) == bytes.fromhex(
        "01"  # version
        "98 46 c4 02 3432"  # since when, and the context
        "92 1e 1f cd 03e8"  # branches, and the timeout of the transactions to come
        "93 07 04 c3"  # the last outcome: producer id, epoch, committed
        "98 00 a473686f70 a26e73 a3736179 07 08 09 c2"  # the resolver: its kind, its names, and when it is asked
        "02 47"  # how often it was asked, and when last
    )


def test_nothing_takes_no_bytes():
    assert encode_preparation(None) == b""
    assert decode_preparation(b"") is None


@pytest.mark.parametrize("state", [TransactionState.ONGOING, TransactionState.COMPLETE_COMMIT])
def test_it_comes_back_with_everything_else(state: TransactionState):
    before = snapshot(state, client_version=2, preparation=PREPARATION)

    assert decode_value(encode_value(before)) == before


def test_a_reader_that_knows_nothing_of_it_reads_the_rest_and_finds_the_producer_that_has_kept_it():
    kept = snapshot(
        TransactionState.ONGOING,
        client_version=2,
        timeout_ms=NO_TIMEOUT_MS,
        next_producer_id=7,
        next_producer_epoch=6,
        preparation=PREPARATION,
    )

    assert kept.is_kept
    assert kept.holder == ProducerIdentity(7, 6)
    assert decode_versioned(TransactionLogValue, encode_value(kept)) == TransactionLogValue(
        producer_id=7,
        producer_epoch=5,
        next_producer_id=7,
        next_producer_epoch=6,
        transaction_timeout_ms=2**31 - 1,
        transaction_status=1,
        transaction_partitions=(PartitionsSchema(topic="orders", partition_ids=(0,)),),
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=0,
        client_transaction_version=2,
    )


def test_a_record_without_a_preparation_is_what_it_always_was():
    plain = snapshot(TransactionState.ONGOING, client_version=2, last_producer_epoch=4)

    assert encode_value(plain).endswith(bytes.fromhex("02 02 02 0002 64 02 0004"))


def test_records_with_fewer_and_with_more_fields_are_read():
    fields = msgspec.msgpack.decode(encode_preparation(PREPARATION)[1:])

    assert decode_preparation(b"\x01" + msgspec.msgpack.encode(fields[:5])) == Preparation(
        70, b"42", (30, 31), 1000, Outcome(7, 4, True)
    )
    assert decode_preparation(b"\x01" + msgspec.msgpack.encode(fields[:2])) == Preparation(70, b"42")
    assert decode_preparation(b"\x01" + msgspec.msgpack.encode([*fields, "later", 3])) == PREPARATION


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x02" + encode_preparation(PREPARATION)[1:],
        encode_preparation(PREPARATION)[:-1],
        encode_preparation(PREPARATION) + b"\0",
        b"\x01\xc0",
        b"\x01\x91\xa1a",
        b"\x01\x93\x01\xc4\x00\x91\xff",
    ],
)
def test_damage_is_noticed(damaged: bytes):
    with pytest.raises(MalformedMessage, match="preparation"):
        decode_preparation(damaged)
