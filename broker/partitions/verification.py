"""Whether a producer's first batch in a transaction may be appended: its coordinator has to know of the partition.

Without this, a batch that was delayed until after its transaction ended would open a transaction that nobody ends, and
the last stable offset would stand still for good (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from eagleray.broker.identities import ProducerIdentity

Waiting = TypeVar("Waiting")


class _Verification(Generic[Waiting]):
    __slots__ = ("producer", "verification_id", "waiting")

    def __init__(self, verification_id: int, producer: ProducerIdentity) -> None:
        self.verification_id = verification_id
        self.producer = producer
        self.waiting: list[Waiting] = []


class Verifications(Generic[Waiting]):
    """The questions that a partition has put to coordinators, and the batches that wait for the answers.

    A producer has at most one question open; its batches wait behind it in the order in which they came. A marker for
    the producer makes the question void: whatever the answer will be, it was about a transaction that is over. The ids
    are shared with whoever leads the partition before and after, so that a late answer is never taken for another's.
    """

    __slots__ = ("_by_producer", "_ids")

    def __init__(self, ids: Iterator[int]) -> None:
        self._by_producer: dict[int, _Verification[Waiting]] = {}
        self._ids = ids

    def __len__(self) -> int:
        return len(self._by_producer)

    def epoch_of(self, producer_id: int) -> int | None:
        """The epoch that a producer's open question is about; None where it has none."""
        verification = self._by_producer.get(producer_id)
        return None if verification is None else verification.producer.epoch

    def wait(self, producer: ProducerIdentity, waiting: Waiting) -> int | None:
        """Let a batch wait; return the id of the question that has to be asked, or None where it was asked already.

        A question about another epoch of the producer has to be void by then: an answer speaks for one epoch alone.
        """
        known = self._by_producer.get(producer.producer_id)
        if known is None:
            known = self._by_producer[producer.producer_id] = _Verification(next(self._ids), producer)
        assert known.producer == producer, f"{producer} cannot wait for what was asked about {known.producer}"
        known.waiting.append(waiting)
        return known.verification_id if len(known.waiting) == 1 else None

    def answered(self, verification_id: int, producer_id: int) -> list[Waiting]:
        """Return the batches that waited for an answer; none where the question was void by then."""
        verification = self._by_producer.get(producer_id)
        if verification is None or verification.verification_id != verification_id:
            return []
        del self._by_producer[producer_id]
        return verification.waiting

    def void(self, producer_id: int) -> list[Waiting]:
        """Take back a producer's question, because it does not matter any more; return the batches that waited."""
        verification = self._by_producer.pop(producer_id, None)
        return [] if verification is None else verification.waiting

    def void_up_to(self, producer_id: int, last_epoch: int) -> list[Waiting]:
        """Take back a producer's question if it is about this epoch or an older one; return the batches that waited."""
        epoch = self.epoch_of(producer_id)
        return [] if epoch is None or epoch > last_epoch else self.void(producer_id)

    def void_all(self) -> list[Waiting]:
        """Take back every question; return the batches that waited."""
        waiting = [batch for verification in self._by_producer.values() for batch in verification.waiting]
        self._by_producer.clear()
        return waiting
