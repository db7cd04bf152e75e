"""What keeps the last stable offset back."""

from eagleray.broker.log.unstable_transactions import UnstableTransactions


def test_nothing_is_unstable_at_first() -> None:
    unstable = UnstableTransactions()
    assert len(unstable) == 0
    assert unstable.first_unstable_offset is None
    assert unstable.first_undecided_offset is None


def test_a_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    unstable = UnstableTransactions()
    unstable.begin(5)
    assert (unstable.first_unstable_offset, unstable.first_undecided_offset) == (5, 5)
    unstable.decide(5, 9)
    assert (unstable.first_unstable_offset, unstable.first_undecided_offset) == (5, None)
    unstable.replicated_up_to(9)
    assert unstable.first_unstable_offset == 5
    unstable.replicated_up_to(10)
    assert unstable.first_unstable_offset is None


def test_an_older_open_transaction_holds_back_what_is_decided_behind_it() -> None:
    unstable = UnstableTransactions()
    unstable.begin(0)
    unstable.begin(3)
    unstable.decide(3, 4)
    unstable.replicated_up_to(5)
    assert (unstable.first_unstable_offset, unstable.first_undecided_offset) == (0, 0)
    unstable.begin(5)
    unstable.decide(0, 6)
    assert (unstable.first_unstable_offset, unstable.first_undecided_offset) == (0, 5)
    unstable.replicated_up_to(7)
    assert (unstable.first_unstable_offset, unstable.first_undecided_offset) == (5, 5)


def test_markers_that_come_out_of_turn_are_let_go_in_the_order_of_the_markers() -> None:
    unstable = UnstableTransactions()
    for first_offset in (0, 1, 2):
        unstable.begin(first_offset)
    unstable.decide(2, 3)
    unstable.decide(0, 4)
    unstable.decide(1, 5)
    unstable.replicated_up_to(5)
    assert unstable.first_unstable_offset == 1
    unstable.replicated_up_to(6)
    assert unstable.first_unstable_offset is None


def test_what_is_stable_takes_no_memory_while_an_older_transaction_stays_open() -> None:
    unstable = UnstableTransactions()
    unstable.begin(0)
    for first_offset in range(1, 2001, 2):
        unstable.begin(first_offset)
        unstable.decide(first_offset, first_offset + 1)
        unstable.replicated_up_to(first_offset + 2)
    assert unstable.first_unstable_offset == 0
    assert len(unstable) == 1
