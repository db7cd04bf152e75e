"""Transactions that may be prepared: what a producer does that takes part in a two-phase commit."""

from __future__ import annotations

from typing import Final

from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity
from eagleray.broker.transactions.descriptions import DescribeTransaction, TransactionDescribed
from eagleray.broker.transactions.events import PrepareTransaction, Reply
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.client.calls import Question, RepeatedCall
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import (
    AbortableError,
    CompletedOtherwise,
    EaglerayError,
    FatalError,
    InvalidArgument,
    InvalidTransactionState,
    NotCompleted,
    ProducerFenced,
    TransactionAborted,
)
from eagleray.client.producer.delivery_guarantee import Done, identity_question
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.sender import Sender
from eagleray.client.producer.transaction_manager import SUSPICIOUS, TransactionManager
from eagleray.client.producer.transaction_states import IS_PREPARED, State
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

_GIVEN_UP: Final = TransactionAborted("the transaction was aborted while it was being prepared.")


class TwoPhaseManager(TransactionManager):
    """Transactions that may be prepared, and that outlive their producer then.

    Owns, beyond what its base does: the prepared transaction that it has to end, which it prepared itself or which a
    predecessor left. That is asked about when the producer begins: what is open and not prepared may lack records, and
    is aborted. A Kafka client with two-phase commit is the exception. It logs no preparation, for its flush is one
    (KIP-939), and its transactions have no timeout, by which they are known: one that it has left counts as prepared.

    A producer may prepare that was made for it, or whose transaction has a resolver. Only one that was made for it
    keeps what a predecessor has left; where that has a resolver, any other waits for its word.

    Nothing but its own `end`, or another holder of its token, ends a prepared transaction: not `close`, not an error.
    """

    def __init__(self, sender: Sender, runtime: ClientRuntime, config: ProducerConfig) -> None:
        super().__init__(sender, runtime, config)
        self.prepared: PreparedTransaction | None = None
        """The prepared transaction that has to be ended before another begins."""

        self._context: bytes | None = None
        """What the transaction at hand was prepared with, by this producer itself."""

        self._resolver: ResolverName | None = None
        """Who is asked how the transaction at hand has to end, once it is prepared."""

        self._describing: RepeatedCall[TransactionDescribed] | None = None
        self._preparing: RepeatedCall[Reply] | None = None
        """These two are made when they are first needed: most producers never prepare anything."""

    @property
    def takes_part(self) -> bool:
        """Whether it may prepare the transaction at hand."""
        is_made_for_it = self._config.transaction_two_phase_commit_enable
        return is_made_for_it or self._resolver is not None or self.prepared is not None

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is outstanding beside those of batches."""
        return self.state in (State.INITIALIZING, State.PREPARING) or super().is_waiting

    # Beginning

    def _identity_question(self, expected: ProducerIdentity | None) -> Question[Reply]:
        # A transaction that is open and not prepared would be aborted anyway, where this producer had it.
        keeps = self.prepared is not None or (expected is None and self._config.transaction_two_phase_commit_enable)
        return identity_question(self._runtime, self._config, expected, keep_prepared=keeps)

    def _initialized(self, reply: Reply) -> None:
        if reply.ongoing == NO_PRODUCER:
            self._become_ready()
        else:
            self.prepared = PreparedTransaction(self.transactional_id, reply.ongoing)
            self._describe()

    def _describe(self) -> None:
        runtime, config = self._runtime, self._config
        if self._describing is None:
            self._describing = RepeatedCall(
                runtime,
                lambda: runtime.view.transaction_coordinator(self.transactional_id),
                f"asking about the transaction that was left of {self.transactional_id!r}",
                self._on_described,
                retry_policy=RetryPolicy.of(config, config.max_block_ms),
            )
        self._describing.ask(Question(DescribeTransaction, self.transactional_id))

    def _on_described(self, outcome: TransactionDescribed | EaglerayError) -> None:
        if isinstance(outcome, EaglerayError):
            self.prepared = None
            self._not_initialized(outcome)
            return
        self.has_begun = True
        left = outcome.transaction
        if left is not None and left.state == "Ongoing" and left.is_in_two_phases:
            self._become_prepared()
        else:
            self.prepared = None
            self._is_commit = False
            self.state = State.ABORTING
            self._ask_to_end()

    def begin(self, resolver: ResolverName | None = None) -> None:
        """Begin a transaction; refused while a prepared one is left."""
        if self.prepared is not None and self.state is State.PREPARED:
            raise NotCompleted(
                f"the producer of {self.transactional_id!r} still has the prepared transaction {self.prepared}."
            )
        super().begin()
        self._resolver = resolver

    # Preparing

    def prepare_to_end(self, context: bytes, done: Done) -> None:
        """Prepare once every record and every offset is acknowledged; asking again joins what is under way."""
        if self.state is State.OPEN:
            unsent = self._sender.shut(IS_PREPARED)
            self._sender.take()
            if unsent is not None:
                self.failed(unsent)
        state = self.state
        if state is State.CHECKING:
            self._after_verdict.append(lambda: self.prepare_to_end(context, done))
        elif state is State.OPEN:
            self._begin_to_prepare(context, done)
        elif state in (State.PREPARING, State.PREPARED) and context == self._context:
            self._join(done)
        else:
            done(self._misuse("prepare the transaction"))

    def _begin_to_prepare(self, context: bytes, done: Done) -> None:
        self._waiters.append(done)
        self._context = context
        self._is_commit = True
        self.state = State.PREPARING
        self._sender.refusal = IS_PREPARED
        if self._sender.unresolved:
            self._sender.flush()
        elif not self._offsets:
            self._ask_to_prepare()

    def _join(self, done: Done) -> None:
        if self.state is State.PREPARED:
            done(None)
        else:
            self._waiters.append(done)

    def drained(self) -> None:
        """Every batch is acknowledged: a preparation or a commit may go on."""
        if self.state is not State.PREPARING:
            super().drained()
        elif not self._offsets:
            self._ask_to_prepare()

    def _ask_to_prepare(self) -> None:
        if not self._sender.is_watched:
            self._runtime.watch(self._sender)
        if self._preparing is None:
            self._preparing = RepeatedCall(
                self._runtime,
                self._find_coordinator,
                f"preparing the transaction of {self.transactional_id!r}",
                self._on_prepared,
                retry_policy=self._sender.retry_policy,
            )
        fields = self.identity, self._context or b"", (), self._resolver
        self._preparing.ask(Question(PrepareTransaction, self.transactional_id, *fields))

    def _on_prepared(self, outcome: Reply | EaglerayError) -> None:
        if not isinstance(outcome, EaglerayError):
            self.has_begun = True
            self.prepared = PreparedTransaction(self.transactional_id, outcome.producer)
            self._become_prepared()
        elif outcome.error_code in SUSPICIOUS:
            self._check(outcome.error_code)
        else:
            self.failed(self._refused_to_prepare(outcome))

    def _refused_to_prepare(self, error: EaglerayError) -> EaglerayError:
        if error.error_code is ErrorCode.INVALID_REQUEST:
            size_bytes = len(self._context or b"")
            return InvalidArgument(
                f"a context of {size_bytes} bytes was refused: max.prepared.context.bytes of the cluster says how many "
                "it may have (4096 by default). The transaction is not prepared, and has to be aborted."
            )
        return error if isinstance(error, FatalError) else AbortableError(error.message, error.error_code)

    def _become_prepared(self) -> None:
        self.state = State.PREPARED
        self.may_send = False
        self._failure = None
        self._sender.refusal = IS_PREPARED
        self._answer(None)

    # Ending

    def end(self, done: Done, *, commit: bool) -> None:
        """Commit or abort; a prepared transaction is ended by one question, and one that is being prepared aborted."""
        if self.state is State.PREPARED:
            self._waiters.append(done)
            self._ask_to_end_prepared(commit=commit)
            return
        if self.state is State.PREPARING and not commit:
            # No caller has its token yet, so that it may be aborted whether it is prepared by now or not.
            self._stop_preparing()
            self.has_begun = True
            self.failed(_GIVEN_UP)
        super().end(done, commit=commit)

    def _ask_to_end_prepared(self, *, commit: bool) -> None:
        self._is_commit = commit
        self.state = State.COMMITTING if commit else State.ABORTING
        self._sender.refusal = IS_PREPARED
        self._ask_to_end()

    def is_to_commit(self, stored: PreparedTransaction | None) -> bool:
        """Whether `complete` commits, by the token that the other system has stored; raises where nothing is left."""
        if stored is not None and stored.transactional_id != self.transactional_id:
            raise InvalidArgument(
                f"{stored} is a transaction of {stored.transactional_id!r}, but the producer is that of "
                f"{self.transactional_id!r}."
            )
        if self.prepared is None:
            raise InvalidTransactionState(
                f"there is no prepared transaction of {self.transactional_id!r} to complete: look at "
                "`producer.prepared` first. A token that was stored without it being left has been committed."
            )
        return stored == self.prepared

    def _on_verdict(self, error_code: ErrorCode | None, outcome: Reply | EaglerayError) -> None:
        if self.prepared is None or isinstance(outcome, EaglerayError):
            super()._on_verdict(error_code, outcome)
            return
        self._asking = None
        self.identity = outcome.producer
        if outcome.ongoing != NO_PRODUCER:
            self._ask_to_end_prepared(commit=self._is_commit)
        else:
            self._become_ready(self._completed_otherwise(self.prepared))
        self._go_on_after_verdict()

    def _why_fenced(self, error: ProducerFenced) -> str:
        if self.prepared is None or self._resolver is None:
            return super()._why_fenced(error)
        return (
            f"the resolver of {self.prepared} is asked how it has to end, or another producer has it by now: this "
            "producer can do nothing more in it."
        )

    def _completed_otherwise(self, prepared: PreparedTransaction) -> CompletedOtherwise:
        ended, wanted = ("aborted", "commit") if self._is_commit else ("committed", "abort")
        return CompletedOtherwise(f"cannot {wanted} {prepared}: it was {ended} by its token.")

    def _become_ready(self, error: EaglerayError | None = None) -> None:
        self.prepared = self._context = self._resolver = None
        super()._become_ready(error)

    def _die(self, error: EaglerayError) -> None:
        if self._describing is not None:
            self._describing.cancel()
        self._stop_preparing()
        super()._die(error)

    def _stop_preparing(self) -> None:
        if self._preparing is not None:
            self._preparing.cancel()

    def _check(self, error_code: ErrorCode | None) -> None:
        self._stop_preparing()
        super()._check(error_code)

    def tick(self, now_ms: int) -> None:
        """Repeat what was not answered."""
        super().tick(now_ms)
        if self._describing is not None:
            self._describing.tick(now_ms)
        if self._preparing is not None:
            self._preparing.tick(now_ms)
