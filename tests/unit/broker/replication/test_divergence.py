"""Where two logs agree, by their epochs."""

import pytest

from eagleray.broker.log import PartitionLog
from eagleray.broker.replication.divergence import Agreement, epoch_before, find_agreement, told_epochs
from eagleray.broker.replication.events import EPOCHS_TOLD, PushAnswered
from eagleray.protocol.errors import ErrorCode
from tests.support.replicas import INCARNATIONS, PARTITION, open_log, write


def told(log: PartitionLog) -> PushAnswered:
    return PushAnswered(
        PARTITION,
        2,
        INCARNATIONS[2],
        1,
        9,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        log.log_end_offset,
        log.log_start_offset,
        told_epochs(log),
    )


def beginning_at(log: PartitionLog, start_offset: int) -> PartitionLog:
    log.advance_high_watermark(log.log_end_offset)
    log.delete_records(start_offset)
    return log


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ((1, 1), (1, 1), Agreement(2, 1)),
        ((1, 1, 1), (1,), Agreement(1, 1)),
        ((1,), (1, 1, 1), Agreement(1, 1)),
        ((1, 1, 3), (1, 2, 2), Agreement(1, 1)),
        ((1, 3, 3, 3), (1, 3, 4), Agreement(2, 3)),
        ((5,), (1, 2), Agreement(0)),
        ((), (1,), Agreement(0)),
        ((1,), (), Agreement(0)),
    ],
)
def test_logs_agree_up_to_the_end_of_the_newest_epoch_that_both_have(
    theirs: tuple[int, ...], ours: tuple[int, ...], expected: Agreement
) -> None:
    assert find_agreement(write(open_log(), *theirs), told(write(open_log(), *ours))) == expected


def test_an_epoch_that_was_deleted_at_the_leader_is_not_shared() -> None:
    leader = beginning_at(write(open_log(), 4, 4, 6), 2)
    assert find_agreement(leader, told(write(open_log(), 2, 2, 2))) is None


def test_a_log_agrees_up_to_its_own_beginning_with_any_that_reaches_there() -> None:
    follower = beginning_at(write(open_log(), 1, 1, 1), 3)
    assert find_agreement(write(open_log(), 5, 5, 5, 5), told(follower)) == Agreement(3)
    assert find_agreement(write(open_log(), 5, 5), told(follower)) is None


def test_only_the_newest_epochs_are_told() -> None:
    log = write(open_log(), *range(EPOCHS_TOLD + 5))
    epochs = told_epochs(log)
    assert len(epochs) == EPOCHS_TOLD
    assert (epochs[0].epoch, epochs[-1].epoch) == (5, EPOCHS_TOLD + 4)


def test_the_epoch_before_an_offset_is_unknown_where_the_log_begins() -> None:
    log = beginning_at(write(open_log(), 1, 1, 2), 1)
    assert [epoch_before(log, offset) for offset in range(5)] == [-1, -1, 1, 2, -1]
