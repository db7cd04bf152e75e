"""Which state may follow which, written down a second time, pair by pair."""

from itertools import count, product

import pytest

from eagleray.broker.transactions.states import EXPIRABLE, VALID_PREVIOUS, TransactionState, may_follow
from eagleray.broker.transactions.table import Transaction, TransactionShard
from tests.support.coordinators import snapshot

# From the state before the arrow to each of those behind it.
WAYS = """
    EMPTY               -> EMPTY ONGOING PREPARE_COMMIT PREPARE_ABORT DEAD
    ONGOING             -> ONGOING PREPARE_COMMIT PREPARE_ABORT PREPARE_EPOCH_FENCE
    PREPARE_COMMIT      -> COMPLETE_COMMIT
    PREPARE_ABORT       -> COMPLETE_ABORT
    COMPLETE_COMMIT     -> EMPTY ONGOING PREPARE_ABORT DEAD
    COMPLETE_ABORT      -> EMPTY ONGOING PREPARE_ABORT DEAD
    DEAD                ->
    PREPARE_EPOCH_FENCE -> PREPARE_ABORT
"""


def allowed_ways() -> set[tuple[str, str]]:
    rows = (line.split("->") for line in WAYS.strip().splitlines())
    return {(before.strip(), after) for before, behind in rows for after in behind.split()}


@pytest.mark.parametrize(("before", "after"), list(product(TransactionState, TransactionState)))
def test_every_pair_of_states(before: TransactionState, after: TransactionState):
    is_allowed = (before.name, after.name) in allowed_ways()

    assert (before in VALID_PREVIOUS[after]) == is_allowed
    assert may_follow(after, before) == is_allowed


@pytest.mark.parametrize(("before", "after"), list(product(TransactionState, TransactionState)))
def test_a_transaction_takes_no_other_way(before: TransactionState, after: TransactionState):
    transaction = Transaction("t", TransactionShard(0, 1, count(1)), snapshot(before))

    if (before.name, after.name) in allowed_ways():
        transaction.change_to(snapshot(after))
        assert transaction.current.state is after
    else:
        with pytest.raises(AssertionError, match="no way"):
            transaction.change_to(snapshot(after))
        assert transaction.current.state is before


def test_an_epoch_never_falls():
    transaction = Transaction("t", TransactionShard(0, 1, count(1)), snapshot(TransactionState.EMPTY, producer_epoch=5))

    with pytest.raises(AssertionError, match="never falls"):
        transaction.change_to(snapshot(TransactionState.EMPTY, producer_epoch=4))
    transaction.change_to(snapshot(TransactionState.EMPTY, producer_id=8, producer_epoch=0))


def test_the_numbers_are_those_of_the_log():
    names = "EMPTY ONGOING PREPARE_COMMIT PREPARE_ABORT COMPLETE_COMMIT COMPLETE_ABORT DEAD PREPARE_EPOCH_FENCE"
    assert [state.name for state in sorted(TransactionState)] == names.split()


def test_nothing_open_is_ever_forgotten():
    assert {state.name for state in EXPIRABLE} == {"EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"}
