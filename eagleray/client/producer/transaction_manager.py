"""Transactions as a producer sees them: what it may do when, and how each step gets to the coordinators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from eagleray.broker.groups.events import OffsetsCommitted, OffsetToCommit
from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.broker.transactions.events import EndTransaction, Reply
from eagleray.client.calls import Question, RepeatedCall, Then
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import (
    AbortableError,
    ClientClosed,
    EaglerayError,
    FatalError,
    InvalidTransactionState,
    ProducerFenced,
    TransactionAborted,
    TransactionHeldTooLong,
    TransactionTimedOut,
)
from eagleray.client.lookups import any_error
from eagleray.client.producer.batches import PartitionQueue, ProducerBatch
from eagleray.client.producer.delivery_guarantee import (
    FORGOTTEN,
    LOST_SEQUENCE,
    DeliveryGuarantee,
    Done,
    identity_call,
    identity_question,
    verdict_on,
)
from eagleray.client.producer.offsets_request import offsets_question, too_late
from eagleray.client.producer.sender import Sender
from eagleray.client.producer.transaction_states import ENDABLE, ENDING, FAILABLE, IN_DOUBT, IS_ENDING, NOT_BEGUN, State
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerGroupMetadata
from eagleray.protocol.errors import ErrorCode

SUSPICIOUS: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Answers that a producer gets when it was fenced, but also when only its transaction was ended for it."""


class TransactionManager(DeliveryGuarantee):
    """Whole transactions under one transactional id, in transaction version 2.

    Owns: the producer's identity, which changes with each transaction, and the state. An `EndTransaction` without an
    answer is repeated until there is one, for only the coordinator knows then how the transaction ended. When an answer
    could mean a newer producer as well as a transaction that timed out, InitProducerId with the own identity (KIP-360)
    tells which; every batch and every caller waits for that verdict.
    """

    is_transactional = True
    may_send = False

    def __init__(self, sender: Sender, runtime: ClientRuntime, config: ProducerConfig) -> None:
        super().__init__(sender)
        assert config.transactional_id is not None
        self.transactional_id: str = config.transactional_id
        self.identity = NO_PRODUCER
        self.state = State.UNINITIALIZED
        self._runtime = runtime
        self._config = config
        self._asking: RepeatedCall[Reply] | None = None
        """The question who the producer is, while it is under way."""

        self._ending = RepeatedCall(
            runtime,
            self._find_coordinator,
            f"ending the transaction of {self.transactional_id!r}",
            self._on_ended,
            retry_policy=sender.retry_policy,
        )
        self._offsets: dict[RepeatedCall[OffsetsCommitted], Done] = {}
        """The offsets on their way to their groups, and who waits for each."""

        self._coordinator: TopicPartition | None = None
        self._waiters: list[Done] = []
        self._after_verdict: list[Callable[[], None]] = []
        self._is_commit = False
        self._begun_ms = 0
        self._failure: Exception | None = None
        self.refusal = self._misuse("send")

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is outstanding beside those of batches."""
        return self._asking is not None or bool(self._offsets) or self.state in ENDING

    # What an application does

    def init(self, done: Done) -> None:
        """Get an identity, and have whatever a predecessor left open ended."""
        if self.state is not State.UNINITIALIZED and self.state is not State.INITIALIZING:
            done(self._failure if self.state is State.DEAD else None)
            return
        self._waiters.append(done)
        if self.state is State.UNINITIALIZED:
            self.state = State.INITIALIZING
            self._runtime.watch(self._sender)
            self._ask_identity(self._on_initialized, self._config.max_block_ms)

    def _ask_identity(
        self, then: Then[Reply], total_ms: int = NEVER_MS, expected: ProducerIdentity | None = None
    ) -> None:
        self._asking = identity_call(self._runtime, self._config, then, total_ms)
        self._asking.ask(self._identity_question(expected))

    def _identity_question(self, expected: ProducerIdentity | None) -> Question[Reply]:
        return identity_question(self._runtime, self._config, expected)

    def _on_initialized(self, outcome: Reply | EaglerayError) -> None:
        self._asking = None
        if not isinstance(outcome, EaglerayError):
            self._coordinator = self._runtime.view.transaction_partition(self.transactional_id)
            self.identity = outcome.producer
            self._initialized(outcome)
        else:
            self._not_initialized(outcome)

    def _initialized(self, reply: Reply) -> None:  # noqa: ARG002 - what is left open is in it, for those who keep that
        self._become_ready()

    def _not_initialized(self, error: EaglerayError) -> None:
        if isinstance(error, FatalError):
            self._die(error)
        else:
            self.state = State.UNINITIALIZED
            self._answer(error)

    def begin(self) -> None:
        """Begin a transaction; nothing is sent for it."""
        if self.state is not State.READY:
            raise self._misuse("begin a transaction")
        self.state = State.OPEN
        self._sender.open()
        self.may_send = True
        self.has_begun = False
        self._begun_ms = self._runtime.now_ms()

    def end(self, done: Done, *, commit: bool) -> None:
        """Commit once everything is acknowledged, or abort at once; asking again joins what is under way."""
        if self.state is State.OPEN:
            # What comes after this is refused, so that all that belongs to the transaction is taken over now.
            unsent = self._sender.shut(IS_ENDING)
            self._sender.take()
            if commit and unsent is not None:
                self.failed(unsent)
        state = self.state
        if state is State.CHECKING:
            self._after_verdict.append(partial(self.end, done, commit=commit))
        elif state is State.OPEN or (state is State.FAILED and not commit):
            self._waiters.append(done)
            self._is_commit = commit
            self._failure = None
            self.state = State.COMMITTING if commit else State.ABORTING
            self._sender.refusal = IS_ENDING
            self._begin_end()
        elif state is State.FAILED:
            done(self._failure)
        elif state in ENDING and commit is self._is_commit:
            self._waiters.append(done)
        else:
            done(self._misuse("commit" if commit else "abort"))

    def send_offsets(self, offsets: tuple[OffsetToCommit, ...], group: ConsumerGroupMetadata, done: Done) -> None:
        """Have a group's offsets committed with the transaction."""
        self._sender.take()
        if self.state is State.CHECKING:
            self._after_verdict.append(partial(self.send_offsets, offsets, group, done))
            return
        if self.state is not State.OPEN:
            done(self._misuse("send offsets"))
            return
        call: RepeatedCall[OffsetsCommitted] = RepeatedCall(
            self._runtime,
            lambda: self._runtime.view.group_coordinator(group.group_id),
            f"committing offsets with the transaction of {self.transactional_id!r}",
            lambda outcome: self._on_offsets(call, outcome),
            retry_policy=self._sender.retry_policy,
            error_of=any_error,
        )
        self.has_begun = True
        self._offsets[call] = done
        if not self._sender.is_watched:
            self._runtime.watch(self._sender)
        call.ask(offsets_question(self.transactional_id, self.identity, offsets, group))

    def _on_offsets(self, call: RepeatedCall[OffsetsCommitted], outcome: OffsetsCommitted | EaglerayError) -> None:
        done = self._offsets.pop(call)
        if not isinstance(outcome, EaglerayError):
            if self._sender.unresolved == 0:
                self.drained()
            done(None)
        elif outcome.error_code in SUSPICIOUS:
            self._offsets[call] = done
            self._check(outcome.error_code)
        else:
            is_grave = isinstance(outcome, AbortableError | FatalError)
            error = outcome if is_grave else AbortableError(outcome.message, outcome.error_code)
            self.failed(error)
            done(error)

    def _drop_offsets(self, tell: Callable[[Done], None]) -> None:
        """Send offsets no more that are on their way: they cannot come to be part of the transaction."""
        dropped, self._offsets = self._offsets, {}
        for call, done in dropped.items():
            call.cancel()
            tell(done)

    # Ending

    def _begin_end(self) -> None:
        if self._is_commit:
            if self._sender.unresolved:
                self._sender.flush()
            elif not self._offsets:
                self._ask_to_end()
            return
        self.may_send = False
        self._drop_offsets(lambda done: done(too_late()))
        self._sender.fail_all(TransactionAborted("the transaction was aborted before the record was acknowledged."))
        self._ask_to_end()

    def drained(self) -> None:
        """Every batch is acknowledged: a commit may go on."""
        if self.state is State.COMMITTING and not self._offsets:
            self._ask_to_end()

    def _ask_to_end(self) -> None:
        if not self.has_begun:
            self._become_ready()
            return
        if not self._sender.is_watched:
            self._runtime.watch(self._sender)
        fields = (self.transactional_id, self.identity, self._is_commit, IMPLICIT_VERSION)
        self._ending.ask(Question(EndTransaction, *fields))

    def _find_coordinator(self) -> int:
        return NO_NODE if self._coordinator is None else self._runtime.view.leaders.get(self._coordinator, NO_NODE)

    def _on_ended(self, outcome: Reply | EaglerayError) -> None:
        if not isinstance(outcome, EaglerayError):
            self.identity = outcome.producer
            self._become_ready()
        elif outcome.error_code in SUSPICIOUS:
            self._check(outcome.error_code)
        else:
            self._die(outcome)

    def _become_ready(self, error: EaglerayError | None = None) -> None:
        self.state = State.READY
        self.may_send = False
        self._failure = None
        self._sender.refusal = NOT_BEGUN
        self._sender.forget_idle()
        self._answer(error)

    def _answer(self, error: Exception | None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(error)

    # Failing

    def identity_for(self, queue: PartitionQueue) -> ProducerIdentity:
        """Return the identity of this transaction; it begins every partition's sequence at zero."""
        if queue.identity is not self.identity:
            queue.start_sequences(self.identity)
        return self.identity

    def refused(self, batch: ProducerBatch, error_code: ErrorCode, error: EaglerayError) -> None:
        """Retry behind a gap that has a reason; find out what a fenced epoch means; else fail the transaction."""
        if error_code in LOST_SEQUENCE and not batch.was_first:
            self._sender.retry(batch, error_code)
        elif error_code in SUSPICIOUS:
            self._check(error_code)
        else:
            self._fail_with(batch, error)

    def expired(self, batch: ProducerBatch, error: EaglerayError) -> None:
        """Fail the transaction: the batch may be in the log or not, and the abort makes it not matter."""
        if self.state is not State.CHECKING:
            self._fail_with(batch, error)

    def _fail_with(self, batch: ProducerBatch, error: EaglerayError) -> None:
        self.failed(error)
        if not batch.is_done:
            self._sender.resolve(batch, error)

    def send_failed(self, error: Exception) -> None:
        """Fail the transaction: without the record that was refused it is not what the application wanted."""
        self.failed(error)

    def failed(self, error: Exception) -> None:
        """Note that the transaction can no longer commit; tell those who wait for its end."""
        if isinstance(error, FatalError):
            self._die(error)
        elif self.state in FAILABLE:
            self.state = State.FAILED
            self.may_send = False
            self._failure = self.refusal = error
            self._sender.fail_all(_as_reason(error))
            self._drop_offsets(lambda done: done(error))
            self._answer(error)

    def _check(self, error_code: ErrorCode | None) -> None:
        """Find out whether this producer was fenced, or only its transaction was ended by the coordinator."""
        if self.state in ENDABLE:
            self.state = State.CHECKING
            self.may_send = False
            self._ending.cancel()
            self._drop_offsets(lambda done: self._after_verdict.append(lambda: done(self._failure or too_late())))
            self.refusal = IN_DOUBT
            self._runtime.watch(self._sender)
            then = partial(self._on_verdict, error_code)
            self._ask_identity(lambda outcome: then(verdict_on(self.identity, outcome)), expected=self.identity)

    def _on_verdict(self, error_code: ErrorCode | None, outcome: Reply | EaglerayError) -> None:
        self._asking = None
        if isinstance(outcome, EaglerayError):
            self._die(outcome)
            return
        self.identity = outcome.producer
        self.has_begun = False
        if self._waiters and not self._is_commit:
            self._become_ready()
        else:
            self.state = State.OPEN
            self.failed(self._ended_for_us(error_code, outcome.message))
        self._go_on_after_verdict()

    def _go_on_after_verdict(self) -> None:
        waiting, self._after_verdict = self._after_verdict, []
        for go_on in waiting:
            go_on()

    def _ended_for_us(self, error_code: ErrorCode | None, why: str | None) -> EaglerayError:
        if why is not None:
            return TransactionHeldTooLong(f"{why}.", error_code)
        open_ms = self._runtime.now_ms() - self._begun_ms
        timeout_ms = self._config.transaction_timeout_ms
        if open_ms >= timeout_ms:
            return TransactionTimedOut(f"the transaction was open for {open_ms} ms of {timeout_ms} ms.", error_code)
        return TransactionAborted(f"the coordinator ended the transaction after {open_ms} ms.", error_code)

    def _die(self, error: EaglerayError) -> None:
        if type(error) is ProducerFenced:
            error = ProducerFenced(self._why_fenced(error), error.error_code)
        self.state = State.DEAD
        self.may_send = False
        self._ending.cancel()
        self._failure = self.refusal = error
        self._sender.fail_all(error)
        self._drop_offsets(lambda done: done(error))
        self._answer(error)
        self._go_on_after_verdict()

    def _why_fenced(self, error: ProducerFenced) -> str:
        why = FORGOTTEN if error.message == FORGOTTEN else "has a newer producer."
        return f"transactional id {self.transactional_id!r} {why}"

    def close(self) -> None:
        """Take nothing more; calls that wait are told."""
        self._die(ClientClosed("the producer was closed."))

    def _misuse(self, wanted: str) -> Exception:
        if self._failure is not None and self.state in (State.DEAD, State.FAILED):
            return self._failure
        return InvalidTransactionState(f"cannot {wanted}: the producer is {self.state.value}.")

    def tick(self, now_ms: int) -> None:
        """Repeat what was not answered."""
        if self._asking is not None:
            self._asking.tick(now_ms)
        self._ending.tick(now_ms)
        for call in list(self._offsets):
            call.tick(now_ms)


def _as_reason(error: Exception) -> EaglerayError:
    """Say why the other records of a transaction go no further where one was refused."""
    if isinstance(error, EaglerayError):
        return error
    return TransactionAborted(f"another record of the transaction was refused: {error!r}.")
