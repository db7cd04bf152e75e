"""Late markers of version 1: which decisions about a producer's transactions are over.

In version 1 the epoch of a producer is the same from one transaction to the next. So a marker that was delayed, or is
repeated, looks like the end of whatever transaction the producer has open by the time that it arrives. The number that
the coordinator gives to each decision tells the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from eagleray.broker.identities import NO_EPOCH, TopicPartition
from eagleray.broker.log.producer_entry import NO_OFFSET, ProducerEntry
from eagleray.broker.messages import IMPLICIT_VERSION, Marker
from eagleray.broker.partitions.events import AskLastDecision, LastDecisionAnswered, TransactionVerified
from eagleray.protocol.errors import ErrorCode

DecisionAge: TypeAlias = tuple[int, int]
"""The epoch of a coordinator and the number of one of its decisions; it ascends for each transactional id."""


class FinishedDecisions:
    """For each producer with something open in a partition, the last decision that was over when its coordinator spoke.

    The decision about what is open is above that, so a marker which is not is late.
    Owns: the numbers, and the questions about them. Persists: nothing; what was open before the partition got this
    leader, it asks about. Bounded: a number goes with what it is about, which is a transaction in the log, or batches
    that wait for their verification.
    A coordinator speaks of what is open while it has its lease, and what its successor decides comes after. The marker
    of a newer coordinator is never late here.
    """

    __slots__ = ("_asked", "_finished", "_ids", "_partition")

    def __init__(self, partition: TopicPartition, ids: Iterator[int]) -> None:
        """Know nothing yet; the ids of questions are shared with the leaders of the partition before and after."""
        self._partition = partition
        self._ids = ids
        self._finished: dict[int, DecisionAge] = {}
        self._asked: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._finished.keys() | self._asked.keys())

    def verified(self, event: TransactionVerified) -> None:
        """Take what the coordinator has said of a transaction that begins here."""
        self.forget(event.producer_id)
        if event.coordinator_epoch != NO_EPOCH:
            self._finished[event.producer_id] = event.coordinator_epoch, event.decision

    def answered(self, event: LastDecisionAnswered) -> None:
        """Take the answer to a question; without one, the marker's next attempt asks again."""
        if self._asked.get(event.producer_id) != event.question_id:
            return
        del self._asked[event.producer_id]
        if event.error_code is ErrorCode.NONE:
            self._finished[event.producer_id] = event.coordinator_epoch, event.decision

    def forget(self, producer_id: int) -> None:
        """Take note that a producer has nothing open any more."""
        self._finished.pop(producer_id, None)
        self._asked.pop(producer_id, None)

    def refusal_of(
        self, marker: Marker, entry: ProducerEntry | None, waiting_epoch: int | None
    ) -> ErrorCode | AskLastDecision:
        """Say why a marker may not be written now, or NONE; `waiting_epoch` is that of batches not yet verified.

        CONCURRENT_TRANSACTIONS, or a question, where it has to come again because the coordinator must be asked first.
        """
        if not marker.decision or marker.transaction_version >= IMPLICIT_VERSION:
            return ErrorCode.NONE
        producer_id = marker.producer.producer_id
        finished = self._finished.get(producer_id)
        if finished is not None:
            is_due = (marker.coordinator_epoch, marker.decision) > finished
            return ErrorCode.NONE if is_due else ErrorCode.INVALID_PRODUCER_EPOCH
        if not _ends_something(marker.producer.epoch, entry, waiting_epoch):
            return ErrorCode.NONE
        if producer_id in self._asked:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        question_id = self._asked[producer_id] = next(self._ids)
        return AskLastDecision(question_id, self._partition, marker.transactional_id, producer_id)


def _ends_something(epoch: int, entry: ProducerEntry | None, waiting_epoch: int | None) -> bool:
    """Whether there is something that a late marker would end; one of a newer epoch than what is open is never late."""
    if waiting_epoch == epoch:
        return True
    return entry is not None and entry.open_since_offset != NO_OFFSET and entry.epoch == epoch
