from eagleray.protocol.records import committed_batches
from tests.support.batches import data_batch, marker_batch

ABORT, COMMIT = False, True


def data(offset, producer_id, *, transactional=True):
    return data_batch(producer_id=producer_id, transactional=transactional, base_offset=offset)


def marker(offset, producer_id, commit):
    return marker_batch(producer_id, commit=commit, base_offset=offset)


def shown(batches, *aborted):
    return [batch.header.base_offset for batch in committed_batches(batches, aborted)]


def test_markers_are_never_shown():
    assert shown([data(0, 1), marker(1, 1, COMMIT), data(2, 1)]) == [0, 2]


def test_an_aborted_transaction_is_left_out_up_to_its_marker():
    batches = [data(0, 1), data(1, 2), data(2, 1), marker(3, 1, ABORT), data(4, 1), marker(5, 1, COMMIT)]
    assert shown(batches, (0, 1)) == [1, 4]


def test_a_producer_may_abort_twice_in_one_fetch():
    batches = [data(0, 1), marker(1, 1, ABORT), data(2, 1), marker(3, 1, COMMIT), data(4, 1), marker(5, 1, ABORT)]
    assert shown(batches, (4, 1), (0, 1)) == [2]


def test_an_abort_that_began_before_the_fetch_counts():
    assert shown([data(7, 1), marker(8, 1, ABORT), data(9, 1)], (3, 1)) == [9]


def test_plain_batches_of_the_same_producer_are_shown():
    assert shown([data(0, 1, transactional=False), data(1, 1), marker(2, 1, ABORT)], (0, 1)) == [0]
