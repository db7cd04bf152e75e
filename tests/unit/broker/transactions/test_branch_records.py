"""Branches and tags in records of the transaction log: ours to read, and for others to skip."""

import pytest

from eagleray.broker.transactions.branches.branching import Branch, Branching
from eagleray.broker.transactions.branches.records import decode_branching, encode_branching
from eagleray.broker.transactions.log_records import decode_value, encode_value
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.codec import MalformedMessage, decode_versioned
from eagleray.protocol.messages.transaction_log import PartitionsSchema, TransactionLogValue
from tests.support.coordinators import ORDERS_0, ORDERS_1, snapshot

BRANCHING = Branching(
    tag="batch-13",
    committed_tag="batch-12",
    branches={31: Branch(frozenset({ORDERS_0, ORDERS_1}), True), 30: Branch(frozenset({ORDERS_1})), 32: Branch()},
)


def test_branches_in_bytes():
    assert encode_branching(BRANCHING) == bytes.fromhex(
        "01"  # version
        "94 a8 62617463682d3133 a8 62617463682d3132"  # the tag, and the tag that was committed last
        "92 92 a6 6f7264657273 00 92 a6 6f7264657273 01"  # partitions, each once
        "93 93 1f c3 92 00 01 93 1e c2 91 01 93 20 c2 90"  # branches: producer id, committed, places of its partitions
    )


def test_nothing_takes_no_bytes():
    assert encode_branching(None) == b""
    assert decode_branching(b"") is None


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT])
def test_they_come_back_with_everything_else(state: TransactionState):
    before = snapshot(state, client_version=2, last_producer_epoch=4, branching=BRANCHING)

    assert decode_value(encode_value(before)) == before


def test_the_order_in_which_branches_were_opened_comes_back():
    read = decode_branching(encode_branching(BRANCHING))

    assert list(read.branches) == [31, 30, 32]


def test_who_knows_nothing_of_branches_reads_the_rest():
    with_branches = snapshot(
        TransactionState.PREPARE_COMMIT, client_version=2, last_producer_epoch=4, branching=BRANCHING
    )

    assert decode_versioned(TransactionLogValue, encode_value(with_branches)) == TransactionLogValue(
        producer_id=7,
        producer_epoch=5,
        transaction_timeout_ms=60_000,
        transaction_status=2,
        transaction_partitions=(PartitionsSchema(topic="orders", partition_ids=(0,)),),
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=0,
        client_transaction_version=2,
    )


def test_a_record_without_branches_is_what_it_always_was():
    plain = snapshot(TransactionState.ONGOING, client_version=2, last_producer_epoch=4)

    assert encode_value(plain).endswith(bytes.fromhex("02 02 02 0002 64 02 0004"))


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x02" + encode_branching(BRANCHING)[1:],
        encode_branching(BRANCHING)[:-1],
        encode_branching(BRANCHING) + b"\0",
        b"\x01\x94\xc0\xc0\x90\x91\x93\x1f\xc3\x91\x00",
        b"\x01\x94\xc0\xc0\x91\x92\xa1a\x00\x91\x93\x1f\xc3\x91\xff",
        b"\x01\x93\xc0\xc0\x90",
        b"\x01\x94\xa1\xff\xc0\x90\x90",
    ],
    ids=[
        "a newer version",
        "cut short",
        "too long",
        "a place beyond the list",
        "a place before the list",
        "a field less",
        "no text",
    ],
)
def test_what_cannot_be_read_is_refused_and_not_lost(damaged: bytes):
    with pytest.raises(MalformedMessage, match="branches"):
        decode_branching(damaged)
