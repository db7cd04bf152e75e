"""Verification of a producer's first batch in a transaction: its coordinator has to know of the partition (KIP-890).

Without it, a batch that arrives after its transaction ended would open a transaction that never ends, and the last
stable offset (LSO) would stand still for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

    A producer has at most one open question; its batches wait behind it in the order in which they came. A marker for
    the producer makes the question void, because its transaction is over. The ids are shared with the leaders of the
    partition before and after this one, so that a late answer is never taken for another's.
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

        A question about another epoch of the producer has to be void by then: an answer holds for one epoch alone.
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
        """Withdraw a producer's question, because its answer no longer matters; return the batches that waited."""
        verification = self._by_producer.pop(producer_id, None)
        return [] if verification is None else verification.waiting

    def void_up_to(self, producer_id: int, last_epoch: int) -> list[Waiting]:
        """Withdraw a producer's question if it is about this epoch or an older one; return the batches that waited."""
        epoch = self.epoch_of(producer_id)
        return [] if epoch is None or epoch > last_epoch else self.void(producer_id)

    def withdraw(self, is_meant: Callable[[Waiting], bool]) -> list[Waiting]:
        """Let some of the batches wait no longer, and return them; a question that nothing waits for is void."""
        withdrawn: list[Waiting] = []
        for producer_id, verification in [*self._by_producer.items()]:
            meant = [batch for batch in verification.waiting if is_meant(batch)]
            if meant:
                withdrawn += meant
                verification.waiting = [batch for batch in verification.waiting if not is_meant(batch)]
                if not verification.waiting:
                    del self._by_producer[producer_id]
        return withdrawn

    def void_all(self) -> list[Waiting]:
        """Withdraw every question; return the batches that waited."""
        waiting = [batch for verification in self._by_producer.values() for batch in verification.waiting]
        self._by_producer.clear()
        return waiting
