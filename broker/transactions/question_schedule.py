"""When the resolvers of prepared transactions are to be asked."""

from __future__ import annotations

from eagleray.broker.runtime.deadlines import NEVER_MS, Deadlines
from eagleray.broker.transactions.resolver import hurried_wait_ms, wait_ms
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.table import Transaction


def is_exhausted(current: Snapshot) -> bool:
    """Whether the resolver of a prepared transaction was asked as often as it names."""
    resolver, preparation = current.resolver, current.preparation
    return resolver is not None and preparation is not None and preparation.questions >= resolver.attempts


def next_question_ms(current: Snapshot, *, is_wanted: bool = False) -> int:
    """Say when a transaction is to be asked about, or aborted for want of an answer; NEVER_MS where neither.

    A producer that has the transaction, because it prepared it or took it over, has its time to end it from then on.
    What another producer waits for (`is_wanted`) is asked about sooner, and beyond the number of attempts too, unless
    it is aborted then.
    """
    resolver, preparation = current.resolver, current.preparation
    if resolver is None or preparation is None:
        return NEVER_MS
    if is_exhausted(current) and not resolver.aborts_when_exhausted and not is_wanted:
        return NEVER_MS
    if not current.has_been_asked_about:
        return current.updated_ms if is_wanted else current.updated_ms + resolver.first_after_ms
    hurries = is_wanted and not is_exhausted(current)
    return preparation.asked_ms + (hurried_wait_ms if hurries else wait_ms)(resolver, preparation.questions)


class QuestionSchedule:
    """Which transactions are to be asked about next, and about which a question is on its way.

    Owns: a deadline for each prepared transaction that is to be asked about, and one for each answer that is waited
    for. The first may be that of an earlier transaction: who takes it asks `next_question_ms` again. All of it follows
    from the log, but for who is waited for, and that is asked again by those who wait.
    """

    def __init__(self, most_in_flight: int) -> None:
        self._most_in_flight = most_in_flight
        self._due: Deadlines[str] = Deadlines()
        self._answers: Deadlines[str] = Deadlines()
        self._wanted: set[str] = set()

    @property
    def next_due_ms(self) -> int:
        """When there is something to do."""
        due_ms = self._due.next_due_ms if len(self._answers) < self._most_in_flight else NEVER_MS
        return min(due_ms, self._answers.next_due_ms)

    def watch(self, transaction: Transaction) -> None:
        """Note when an open transaction is to be asked about, if it is."""
        name = transaction.transactional_id
        if name not in self._answers:
            self._due.set(name, self.next_question_ms(transaction))

    def watch_again(self, transaction: Transaction, due_ms: int) -> None:
        """Look at a transaction later, about which the log takes nothing now."""
        self._due.set(transaction.transactional_id, due_ms)

    def next_question_ms(self, transaction: Transaction) -> int:
        """Say when a transaction is to be asked about."""
        is_wanted = transaction.transactional_id in self._wanted
        return next_question_ms(transaction.current, is_wanted=is_wanted)

    def want(self, transaction: Transaction) -> None:
        """Have a transaction asked about as soon as that may be: a producer waits for its transactional id."""
        self._wanted.add(transaction.transactional_id)
        self.watch(transaction)

    def asked(self, transaction: Transaction, until_ms: int) -> None:
        """Note that a question is on its way, and until when its answer is waited for."""
        name = transaction.transactional_id
        self._wanted.discard(name)
        self._due.cancel(name)
        self._answers.set(name, until_ms)

    def answered(self, transactional_id: str) -> None:
        """Note that no further answer is waited for."""
        self._answers.cancel(transactional_id)

    def take_unanswered(self, now_ms: int) -> list[str]:
        """Return the transactional ids whose answer has not come in time."""
        return self._answers.take_due(now_ms)

    def take_due(self, now_ms: int) -> list[str]:
        """Return the transactional ids to ask about now: no more than may be on their way together."""
        return self._due.take_due(now_ms, self._most_in_flight - len(self._answers))

    def forget(self, transactional_id: str) -> None:
        """Leave a transactional id alone that has nothing open, or is coordinated here no longer."""
        self._due.cancel(transactional_id)
        self._answers.cancel(transactional_id)
        self._wanted.discard(transactional_id)
