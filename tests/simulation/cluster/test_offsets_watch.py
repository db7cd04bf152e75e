"""What the watch of groups' offsets lets a coordinator say, and what it does not."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from eagleray.broker.groups.events import CommittedOffset, FetchOffsets, OffsetsFetched, OffsetToCommit
from eagleray.broker.groups.log_records import encode_key, encode_value
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION, last_epoch_ended_by
from eagleray.protocol.errors import ErrorCode
from tests.simulation.cluster.offsets_watch import LogEnd, OffsetsWatch
from tests.simulation.schedule import Violation
from tests.support.batches import NOW_MS, data_batch, marker_batch

GROUP = "transform"
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
PRODUCER_ID = 7
NOTHING, UNSTABLE = (ErrorCode.NONE, -1), (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)


class Log:
    """An offsets log, of which the watch is shown each batch as it is committed."""

    def __init__(self) -> None:
        world: Any = SimpleNamespace(fired=Counter(), decided={(PRODUCER_ID, 0): True}, version_1=set())
        world.last_epoch_ended = lambda _, marker_epoch: last_epoch_ended_by(marker_epoch, IMPLICIT_VERSION)
        self.watch = OffsetsWatch(world)
        self.end_offset = 0

    def commit(self, partition: TopicPartition, offset: int, *, transactional: bool = True) -> None:
        data = data_batch(
            producer_id=PRODUCER_ID if transactional else -1,
            transactional=transactional,
            keys=[encode_key(GROUP, partition)],
            value=encode_value(OffsetToCommit(partition, offset, metadata=f"commit {self.end_offset}"), NOW_MS),
            base_offset=self.end_offset,
        )
        self.watch.committed(data)
        self.end_offset += 1

    def end(self) -> None:
        self.watch.committed(marker_batch(PRODUCER_ID, epoch=1, base_offset=self.end_offset))
        self.end_offset += 1

    def answer(self, *answers: tuple[ErrorCode, int], seen_offset: int, require_stable: bool = True) -> None:
        """Let a coordinator that has seen so much of the log answer of the first partitions."""
        partitions = (FIRST, SECOND)[: len(answers)]
        question = FetchOffsets(1, GROUP, partitions, require_stable)
        said = (CommittedOffset(each, *answer) for each, answer in zip(partitions, answers, strict=True))
        self.watch.answers_fetch(question, OffsetsFetched(1, ErrorCode.NONE, tuple(said)), seen_offset)


@pytest.mark.parametrize("answer", [NOTHING, UNSTABLE, (ErrorCode.NONE, 5)])
def test_an_answer_may_be_of_any_moment_since_the_question(answer: tuple[ErrorCode, int]) -> None:
    log = Log()
    log.commit(FIRST, 5)
    log.end()

    log.answer(answer, seen_offset=0)


@pytest.mark.parametrize(
    ("seen_offset", "answer"),
    [
        pytest.param(1, NOTHING, id="a transaction that is open is told as if it were not"),
        pytest.param(2, UNSTABLE, id="a transaction is told that is over"),
        pytest.param(2, NOTHING, id="what a transaction has committed is not told"),
        pytest.param(0, (ErrorCode.NONE, 6), id="what is told was never so"),
    ],
)
def test_an_answer_of_another_moment_is_caught(seen_offset: int, answer: tuple[ErrorCode, int]) -> None:
    log = Log()
    log.commit(FIRST, 5)
    log.end()

    with pytest.raises(Violation, match="not so at any moment"):
        log.answer(answer, seen_offset=seen_offset)


def test_offsets_about_to_change_may_be_answered_where_they_need_not_be_stable() -> None:
    log = Log()
    log.commit(FIRST, 5)

    log.answer(NOTHING, seen_offset=1, require_stable=False)


def test_all_partitions_of_an_answer_are_of_one_moment() -> None:
    log = Log()
    log.commit(FIRST, 5, transactional=False)
    log.commit(SECOND, 6, transactional=False)

    log.answer((ErrorCode.NONE, 5), NOTHING, seen_offset=0)
    with pytest.raises(Violation, match="not so at any moment"):
        log.answer(NOTHING, (ErrorCode.NONE, 6), seen_offset=0)


@pytest.mark.parametrize(("coordinator_epoch", "seen_offset"), [(3, 9), (4, 5)])
def test_a_coordinator_has_seen_what_its_own_leader_had_appended(coordinator_epoch: int, seen_offset: int) -> None:
    asked_at = LogEnd(committed=5, appended=9, leader_epoch=3)

    assert asked_at.seen_at(coordinator_epoch) == seen_offset
