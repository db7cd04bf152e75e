"""The limit on transactional ids: which of them make room for a new one, and which never do."""

import pytest

from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.id_limit import LOOK_MS, UNUSED_MS
from eagleray.broker.transactions.pools.names import slot_name
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import CoordinatorDriver, snapshot

EMPTY = TransactionState.EMPTY
NONE, REFUSED = ErrorCode.NONE, ErrorCode.POLICY_VIOLATION


def limited_to(most: int, **fields: object) -> CoordinatorDriver:
    config = CoordinatorConfig(
        transaction_state_log_num_partitions=1,
        transaction_completion_log_delay_ms=0,
        max_transactional_ids_per_partition=most,
    )
    return CoordinatorDriver(config, **fields)


def asked(driver: CoordinatorDriver, name: str) -> ErrorCode:
    """Ask for an identity, and have the log take all there is."""
    request_id = driver.init(name)
    driver.settle()
    return driver.error_of(request_id)


def names(driver: CoordinatorDriver) -> set[str]:
    return {each.transactional_id for each in driver.coordinator}


def test_new_id_is_refused_while_none_makes_room():
    driver = limited_to(2)
    for name in ("a", "b"):
        assert asked(driver, name) is NONE
    assert asked(driver, "c") is REFUSED
    assert asked(driver, "a") is NONE, "a known one is no newcomer"
    assert names(driver) == {"a", "b"}


def test_id_that_was_never_used_makes_room_after_a_while():
    driver = limited_to(2)
    asked(driver, "a")
    driver.tick(1)
    asked(driver, "b")
    driver.tick(UNUSED_MS - 1)
    assert asked(driver, "c") is NONE
    assert names(driver) == {"b", "c"}
    assert asked(driver, "d") is REFUSED
    driver.tick(LOOK_MS)
    assert asked(driver, "d") is NONE
    assert names(driver) == {"c", "d"}
    assert set(driver.load()) == {"c", "d"}, "a replay of the log comes to the same"


def test_producer_whose_unused_id_has_made_room_is_told_to_begin_anew():
    driver = limited_to(1)
    producer = driver.initialized()
    driver.tick(UNUSED_MS)
    assert asked(driver, "b") is NONE
    assert driver.error_of(driver.add(producer)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(
    "kept",
    [
        snapshot(TransactionState.ONGOING, producer_epoch=0),
        snapshot(TransactionState.PREPARE_COMMIT, producer_epoch=0),
        snapshot(TransactionState.COMPLETE_COMMIT, producer_epoch=0),
        snapshot(TransactionState.COMPLETE_ABORT, producer_epoch=0),
        snapshot(EMPTY, producer_epoch=1),
    ],
    ids=lambda each: f"{each.state.name}-{each.producer_epoch}",
)
def test_id_that_was_used_never_makes_room(kept):
    # An open transaction has to stay open.
    if kept.state is TransactionState.ONGOING:
        kept = snapshot(kept.state, producer_epoch=0, timeout_ms=10 * UNUSED_MS)
    driver = limited_to(1, loaded={"used": kept})
    driver.tick(2 * UNUSED_MS)
    assert asked(driver, "new") is REFUSED
    assert names(driver) == {"used"}


def test_pool_and_its_slots_never_make_room():
    unused = snapshot(EMPTY, producer_epoch=0)
    driver = limited_to(2, loaded={"pool": unused, slot_name("pool", 0): unused})
    driver.tick(2 * UNUSED_MS)
    assert asked(driver, "new") is REFUSED
    assert names(driver) == {"pool", slot_name("pool", 0)}


def test_ids_are_not_looked_at_for_each_newcomer(monkeypatch):
    looked = []
    monkeypatch.setattr(
        "eagleray.broker.transactions.id_limit._is_unused", lambda each, now_ms: looked.append(each) or False
    )
    driver = limited_to(3)
    for name in ("a", "b", "c"):
        asked(driver, name)
    for number in range(10):
        assert asked(driver, f"new-{number}") is REFUSED
    assert len(looked) == 3
    driver.tick(LOOK_MS)
    asked(driver, "new")
    assert len(looked) == 6


def test_log_that_takes_nothing_forgets_nothing():
    driver = limited_to(1)
    asked(driver, "a")
    driver.tick(UNUSED_MS)
    driver.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.error_of(driver.init("b")) is not NONE
    assert names(driver) == {"a"}
