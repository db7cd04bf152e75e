"""Where a transaction comes from: noted with the identity, kept in the log, shown to those who ask."""

import pytest

from eagleray.broker.transactions.branches.branching import Branch, Branching
from eagleray.broker.transactions.descriptions import DescribeTransaction
from eagleray.broker.transactions.log_records import LoggedTransaction, decode_value, encode_value
from eagleray.broker.transactions.origin import ORIGIN_BYTES, UNKNOWN_ORIGIN, Origin, decode_origin, encode_origin
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.codec import decode_versioned, encode_versioned
from eagleray.protocol.messages.transaction_log import TransactionLogValue
from tests.support.coordinators import ORDERS_0, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

LOADER = Origin("10.0.0.3", "loader", ray_job="01000000", ray_task="Loader")
SPARK = Origin("10.0.0.4", "eagleray-17", spark_application="app-1", spark_query="7ab2", spark_batch=12)
STORED_STATES = [TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.COMPLETE_ABORT]


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


def origin_of(driver: CoordinatorDriver) -> Origin:
    request_id = driver.request(DescribeTransaction, TRANSACTIONAL_ID)
    return driver.answer_to(request_id).transaction.origin


@pytest.mark.parametrize("origin", [LOADER, SPARK, Origin("::1"), Origin(spark_batch=0)])
def test_origin_survives_as_bytes(origin: Origin):
    assert decode_origin(encode_origin(origin)) == origin


@pytest.mark.parametrize("origin", [None, UNKNOWN_ORIGIN])
def test_unknown_origin_takes_no_bytes(origin: Origin | None):
    assert encode_origin(origin) == b""
    assert decode_origin(b"") == UNKNOWN_ORIGIN


def test_client_with_an_address_and_a_name_takes_few_bytes():
    assert len(encode_origin(Origin("10.0.0.3", "loader"))) == 18


@pytest.mark.parametrize("letter", ["x", "ü", "\N{BRAIN}"])
def test_long_texts_are_cut_to_the_bound(letter: str):
    encoded = encode_origin(Origin("10.0.0.3", letter * 30_000, ray_task=letter * 150))

    assert ORIGIN_BYTES // 2 < len(encoded) <= ORIGIN_BYTES
    found = decode_origin(encoded)
    assert found.client_address == "10.0.0.3"
    assert set(found.client_id) == set(found.ray_task) == {letter}


@pytest.mark.parametrize("data", [b"\x02\x90", b"\x01", b"\x01\xff", b"\x01\x91\x05", b"\x01\x91\xa1\xff"])
def test_origin_that_cannot_be_read_is_an_unknown_one(data: bytes):
    assert decode_origin(data) == UNKNOWN_ORIGIN


# In the log


@pytest.mark.parametrize("state", STORED_STATES)
@pytest.mark.parametrize("last_epoch", [-1, 4])
@pytest.mark.parametrize("branching", [None, Branching(tag="batch-1", branches={9: Branch(frozenset({ORDERS_0}))})])
@pytest.mark.parametrize("size_bytes", [1, 126, 127, 128, ORIGIN_BYTES, ORIGIN_BYTES + 1, 5000])
def test_record_with_an_origin_is_what_the_codec_writes(
    state: TransactionState, last_epoch: int, branching: Branching | None, size_bytes: int
):
    before = snapshot(state, last_producer_epoch=last_epoch, branching=branching, origin=b"o" * size_bytes)
    value = encode_value(before)

    assert value == encode_versioned(decode_versioned(LoggedTransaction, value), 1)
    assert decode_versioned(LoggedTransaction, value).origin == before.origin
    assert decode_value(value) == before


def test_other_readers_skip_the_origin():
    with_origin = snapshot(TransactionState.ONGOING, origin=encode_origin(LOADER))
    plain = snapshot(TransactionState.ONGOING)

    found = decode_versioned(TransactionLogValue, encode_value(with_origin))

    assert found == decode_versioned(TransactionLogValue, encode_value(plain))


# At the coordinator


def test_origin_is_shown_with_the_transaction_and_after_a_restart(driver: CoordinatorDriver):
    driver.init(origin=LOADER)
    driver.settle()
    producer = driver.reply_to(1).producer
    driver.begun(producer, version=2)

    assert origin_of(driver) == LOADER
    assert origin_of(driver.restarted()) == LOADER


def test_origin_is_that_of_the_newest_producer(driver: CoordinatorDriver):
    driver.init(origin=LOADER)
    driver.settle()
    driver.init(origin=SPARK)
    driver.settle()
    assert origin_of(driver) == SPARK

    driver.init()
    driver.settle()
    assert origin_of(driver) == UNKNOWN_ORIGIN


def test_origin_stays_over_the_transactions_of_a_producer(driver: CoordinatorDriver):
    driver.init(origin=LOADER)
    driver.settle()
    producer = driver.reply_to(1).producer
    for _ in range(3):
        driver.begun(producer, version=2)
        producer = driver.ended(producer, version=2)

    assert origin_of(driver) == LOADER


def test_shared_transaction_comes_from_the_worker_that_began_it(driver: CoordinatorDriver):
    driver.begin_branched(is_shared=True, opens_branch=True, origin=SPARK)
    driver.settle()
    driver.begin_branched(is_shared=True, opens_branch=True, origin=LOADER)
    driver.settle()

    assert origin_of(driver) == SPARK
    assert origin_of(driver.restarted()) == SPARK
