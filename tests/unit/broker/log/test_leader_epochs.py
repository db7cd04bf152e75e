"""Where leader epochs begin, and how replicas find where they part."""

import pytest

from eagleray.broker.log.leader_epochs import EpochEnd, EpochStart, LeaderEpochs

UNKNOWN = EpochEnd(-1, -1)


def epochs_of(*starts: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start_offset in starts:
        epochs.assign(epoch, start_offset)
    epochs.is_dirty = False
    return epochs


def starts(epochs: LeaderEpochs) -> list[tuple[int, int]]:
    return [(start.epoch, start.start_offset) for start in epochs]


def test_without_records_no_epoch_is_known() -> None:
    epochs = LeaderEpochs()
    assert (epochs.latest_epoch, len(epochs), epochs.epoch_at(0)) == (-1, 0, -1)
    assert epochs.end_of(0, 10) == UNKNOWN


def test_an_epoch_begins_once() -> None:
    epochs = epochs_of((2, 0))
    epochs.assign(2, 5)
    assert (starts(epochs), epochs.is_dirty) == ([(2, 0)], False)
    epochs.assign(3, 5)
    assert (starts(epochs), epochs.is_dirty, epochs.latest_epoch) == ([(2, 0), (3, 5)], True, 3)


def test_an_older_epoch_changes_nothing() -> None:
    epochs = epochs_of((2, 0), (5, 7))
    epochs.assign(3, 9)
    epochs.assign(-1, 9)
    assert (starts(epochs), epochs.is_dirty) == ([(2, 0), (5, 7)], False)


def test_an_epoch_without_records_gives_way_to_the_next() -> None:
    epochs = epochs_of((1, 0), (2, 5))
    epochs.assign(3, 5)
    assert starts(epochs) == [(1, 0), (3, 5)]


@pytest.mark.parametrize(("offset", "epoch"), [(0, -1), (9, -1), (10, 2), (19, 2), (20, 4), (2**40, 4)])
def test_the_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert epochs_of((2, 10), (4, 20)).epoch_at(offset) == epoch


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        pytest.param(-1, UNKNOWN, id="no epoch"),
        pytest.param(0, EpochEnd(0, 10), id="older than the log: it ends where the log begins"),
        pytest.param(2, EpochEnd(2, 20), id="an epoch ends where the next begins"),
        pytest.param(3, EpochEnd(2, 20), id="one that wrote nothing: the one before"),
        pytest.param(4, EpochEnd(4, 50), id="the next one was skipped"),
        pytest.param(7, EpochEnd(7, 99), id="the latest ends with the log"),
        pytest.param(8, UNKNOWN, id="newer than this log"),
    ],
)
def test_the_end_of_an_epoch(epoch: int, expected: EpochEnd) -> None:
    assert epochs_of((2, 10), (4, 20), (7, 50)).end_of(epoch, 99) == expected


@pytest.mark.parametrize(
    ("offset", "kept"),
    [
        (0, []),
        (10, []),
        (11, [(2, 10)]),
        (20, [(2, 10)]),
        (21, [(2, 10), (4, 20)]),
    ],
)
def test_a_cut_tail_takes_its_epochs_along(offset: int, kept: list[tuple[int, int]]) -> None:
    epochs = epochs_of((2, 10), (4, 20))
    epochs.truncate_from(offset)
    assert starts(epochs) == kept
    assert epochs.is_dirty is (len(kept) < 2)


@pytest.mark.parametrize(
    ("offset", "kept"),
    [
        (0, [(2, 10), (4, 20), (7, 30)]),
        (10, [(2, 10), (4, 20), (7, 30)]),
        (11, [(2, 11), (4, 20), (7, 30)]),
        (19, [(2, 19), (4, 20), (7, 30)]),
        (20, [(4, 20), (7, 30)]),
        (25, [(4, 25), (7, 30)]),
        (30, [(7, 30)]),
        (90, [(7, 90)]),
    ],
)
def test_a_deleted_beginning_takes_its_epochs_along(offset: int, kept: list[tuple[int, int]]) -> None:
    epochs = epochs_of((2, 10), (4, 20), (7, 30))
    epochs.truncate_before(offset)
    assert starts(epochs) == kept
    assert epochs.is_dirty is (offset > 10)


def test_the_file_is_kafkas() -> None:
    assert epochs_of((2, 10), (4, 20)).encode() == b"0\n2\n2 10\n4 20\n"
    assert LeaderEpochs().encode() == b"0\n0\n"


def test_the_file_is_read_back() -> None:
    epochs = LeaderEpochs.decode(b"0\n2\n2 10\n4 20\n")
    assert epochs is not None
    assert list(epochs) == [EpochStart(2, 10), EpochStart(4, 20)]
    assert not epochs.is_dirty


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"0\n2\n2 10\n",
        b"0\n1\n2 10\n4 20\n",
        b"1\n1\n2 10\n",
        b"0\n1\n2\n",
        b"0\n1\n2 10 3\n",
        b"0\n1\ntwo 10\n",
        b"0\n2\n4 10\n2 20\n",
        b"0\n2\n2 20\n4 10\n",
        b"0\n2\n2 10\n4 10\n",
        b"0\n1\n2 \xff\n",
    ],
)
def test_a_damaged_file_is_noticed(data: bytes) -> None:
    assert LeaderEpochs.decode(data) is None


def test_it_has_only_epochs_that_begin_in_the_log() -> None:
    epochs = LeaderEpochs([EpochStart(2, 0), EpochStart(5, 10)])
    assert [epoch for epoch in range(7) if epoch in epochs] == [2, 5]
    epochs.truncate_before(10)
    assert 2 not in epochs
    epochs.clear()
    assert (len(epochs), epochs.is_dirty, 5 in epochs) == (0, True, False)
