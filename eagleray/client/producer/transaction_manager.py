"""Transactions as a producer sees them: what it may do when, and how each step gets to the coordinators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from eagleray.actors.messages import Malformed
from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.groups.events import OffsetToCommit
from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions.events import EndTransaction, Reply
from eagleray.client.calls import is_only_busy
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import (
    AbortableError,
    ClientClosed,
    EaglerayError,
    FatalError,
    InvalidTransactionState,
    ProducerFenced,
    TransactionAborted,
    TransactionTimedOut,
    error_for,
)
from eagleray.client.producer.batches import PartitionQueue, ProducerBatch
from eagleray.client.producer.delivery_guarantee import LOST_SEQUENCE, DeliveryGuarantee, Done, IdentityRequest
from eagleray.client.producer.offsets_request import SUSPICIOUS, OffsetsRequest, too_late
from eagleray.client.producer.sender import Sender
from eagleray.client.producer.transaction_states import ENDABLE, ENDING, IN_DOUBT, IS_ENDING, NOT_BEGUN, State
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerGroupMetadata
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


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
        self._all = sender
        self._runtime = runtime
        self._config = config
        self._request = IdentityRequest(runtime, config)
        self._coordinator: TopicPartition | None = None
        self._waiters: list[Done] = []
        self._after_verdict: list[Callable[[], None]] = []
        self._is_commit = False
        self._attempt = 0
        self._sent_ms = 0
        self._retries = 0
        self._pending_offsets = 0
        self._begun_ms = 0
        self._failure: Exception | None = None
        self.refusal = self._misuse("send")

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is outstanding beside those of batches."""
        return self._request.is_under_way or self._pending_offsets > 0 or self.state in ENDING

    # What an application does

    def init(self, done: Done) -> None:
        """Get an identity, and have whatever a predecessor left open ended."""
        if self.state is not State.UNINITIALIZED and self.state is not State.INITIALIZING:
            done(self._failure if self.state is State.DEAD else None)
            return
        self._waiters.append(done)
        if self.state is State.UNINITIALIZED:
            self.state = State.INITIALIZING
            self._runtime.watch(self._all)
            self._request.ask(None, self._on_initialized, max_block_ms=self._config.max_block_ms)

    def _on_initialized(self, identity: ProducerIdentity, error: EaglerayError | None) -> None:
        if error is None:
            self._coordinator = self._runtime.view.transaction_partition(self.transactional_id)
            self.identity = identity
            self._become_ready()
        elif isinstance(error, FatalError):
            self._die(error)
        else:
            self.state = State.UNINITIALIZED
            self._answer(error)

    def begin(self) -> None:
        """Begin a transaction; nothing is sent for it."""
        if self.state is not State.READY:
            raise self._misuse("begin a transaction")
        self.state = State.OPEN
        self._all.open()
        self.may_send = True
        self.has_begun = False
        self._begun_ms = self._runtime.now_ms()

    def end(self, done: Done, *, commit: bool) -> None:
        """Commit once everything is acknowledged, or abort at once; asking again joins what is under way."""
        if self.state is State.OPEN:
            # What comes after this is refused, so that all that belongs to the transaction is taken over now.
            unsent = self._all.shut(IS_ENDING)
            self._all.take()
            if commit and unsent is not None:
                self.failed(unsent)
        state = self.state
        if state is State.CHECKING:
            self._after_verdict.append(partial(self.end, done, commit=commit))
        elif state is State.OPEN or (state is State.FAILED and not commit):
            self._waiters.append(done)
            self._is_commit = commit
            self._retries = 0
            self._failure = None
            self.state = State.COMMITTING if commit else State.ABORTING
            self.refusal = IS_ENDING
            self._begin_end()
        elif state is State.FAILED:
            done(self._failure)
        elif state in ENDING and commit is self._is_commit:
            self._waiters.append(done)
        else:
            done(self._misuse("commit" if commit else "abort"))

    def send_offsets(self, offsets: tuple[OffsetToCommit, ...], group: ConsumerGroupMetadata, done: Done) -> None:
        """Have a group's offsets committed with the transaction."""
        self._all.take()
        if self.state is State.CHECKING:
            self._after_verdict.append(partial(self.send_offsets, offsets, group, done))
            return
        if self.state is not State.OPEN:
            done(self._misuse("send offsets"))
            return
        request = OffsetsRequest(self, self._runtime, self._config, done, offsets, group)
        self.has_begun = True
        self._pending_offsets += 1
        if not self._all.is_watched:
            self._runtime.watch(self._all)
        request.send()

    # Ending

    def _begin_end(self) -> None:
        if self._is_commit:
            if self._all.unresolved:
                self._all.flush()
            elif not self._pending_offsets:
                self._ask_to_end()
            return
        self.may_send = False
        self._all.fail_all(TransactionAborted("the transaction was aborted before the record was acknowledged."))
        self._ask_to_end()

    def drained(self) -> None:
        """Every batch is acknowledged: a commit may go on."""
        if self.state is State.COMMITTING and not self._pending_offsets:
            self._ask_to_end()

    def _ask_to_end(self) -> None:
        if not self.has_begun:
            self._become_ready()
            return
        self._attempt += 1
        self._sent_ms = self._runtime.now_ms()
        node_id = self._runtime.view.leaders.get(self._coordinator, NO_NODE) if self._coordinator else NO_NODE
        if node_id == NO_NODE:
            self._ask_again(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if not self._all.is_watched:
            self._runtime.watch(self._all)
        self._runtime.ask(
            node_id,
            partial(self._on_ended, self._attempt),
            EndTransaction,
            self.transactional_id,
            self.identity,
            self._is_commit,
            IMPLICIT_VERSION,
        )

    def _on_ended(self, attempt: int, reply: Reply | Malformed | None) -> None:
        if attempt != self._attempt or self.state not in ENDING:
            return
        if isinstance(reply, Reply) and reply.error_code is _NONE:
            self.identity = reply.producer
            self._become_ready()
            return
        error_code = ErrorCode.NETWORK_EXCEPTION if reply is None else reply.error_code
        if error_code.is_retriable:
            self._ask_again(error_code)
        elif error_code in SUSPICIOUS:
            self._check(error_code)
        else:
            self._die(error_for(error_code, f"ending the transaction of {self.transactional_id!r}"))

    def _ask_again(self, error_code: ErrorCode) -> None:
        self._attempt += 1
        if not is_only_busy(error_code):
            self._runtime.view.refresh()
        pause_ms = min(self._config.retry_backoff_ms << min(self._retries, 16), self._config.retry_backoff_max_ms)
        self._retries += 1
        self._runtime.later(pause_ms, partial(self._if_still_ending, self._attempt))

    def _if_still_ending(self, attempt: int) -> None:
        if attempt == self._attempt and self.state in ENDING:
            self._ask_to_end()

    def _become_ready(self) -> None:
        self.state = State.READY
        self.may_send = False
        self._pending_offsets = 0
        self._failure = None
        self.refusal = NOT_BEGUN
        self._all.forget_idle()
        self._answer(None)

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
            self._all.retry(batch, error_code)
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
            self._all.resolve(batch, error)

    def send_failed(self, error: Exception) -> None:
        """Fail the transaction: without the record that was refused it is not what the application wanted."""
        self.failed(error)

    def failed(self, error: Exception) -> None:
        """Note that the transaction can no longer commit; tell those who wait for its end."""
        if isinstance(error, FatalError):
            self._die(error)
        elif self.state is State.OPEN or self.state is State.COMMITTING:
            self.state = State.FAILED
            self.may_send = False
            self._failure = self.refusal = error
            self._all.fail_all(_as_reason(error))
            self._answer(error)

    def _check(self, error_code: ErrorCode) -> None:
        """Find out whether this producer was fenced, or only its transaction was ended by the coordinator."""
        if self.state in ENDABLE:
            self.state = State.CHECKING
            self.may_send = False
            self._attempt += 1
            self.refusal = IN_DOUBT
            self._runtime.watch(self._all)
            self._request.ask(self.identity, partial(self._on_verdict, error_code), max_block_ms=None)

    def _on_verdict(self, error_code: ErrorCode, identity: ProducerIdentity, error: EaglerayError | None) -> None:
        if error is not None:
            self._die(error)
            return
        self.identity = identity
        self.has_begun = False
        if self._waiters and not self._is_commit:
            self._become_ready()
        else:
            self.state = State.OPEN
            self.failed(self._ended_for_us(error_code))
        self._go_on_after_verdict()

    def _go_on_after_verdict(self) -> None:
        waiting, self._after_verdict = self._after_verdict, []
        for go_on in waiting:
            go_on()

    def _ended_for_us(self, error_code: ErrorCode) -> EaglerayError:
        open_ms = self._runtime.now_ms() - self._begun_ms
        timeout_ms = self._config.transaction_timeout_ms
        if open_ms >= timeout_ms:
            return TransactionTimedOut(f"the transaction was open for {open_ms} ms of {timeout_ms} ms.", error_code)
        return TransactionAborted(f"the coordinator ended the transaction after {open_ms} ms.", error_code)

    def _die(self, error: EaglerayError) -> None:
        if isinstance(error, ProducerFenced):
            error = ProducerFenced(
                f"transactional id {self.transactional_id!r} has a newer producer.", error.error_code
            )
        self.state = State.DEAD
        self.may_send = False
        self._attempt += 1
        self._failure = self.refusal = error
        self._all.fail_all(error)
        self._answer(error)
        self._go_on_after_verdict()

    def close(self) -> None:
        """Take nothing more; calls that wait are told."""
        self._die(ClientClosed("the producer was closed."))

    def _misuse(self, wanted: str) -> Exception:
        if self._failure is not None and self.state in (State.DEAD, State.FAILED):
            return self._failure
        return InvalidTransactionState(f"cannot {wanted}: the producer is {self.state.value}.")

    # Offsets and time

    @property
    def wants_offsets(self) -> bool:
        """Whether offsets that are on their way still matter."""
        return self.state is State.OPEN or self.state is State.COMMITTING

    def offsets_done(self, error_code: ErrorCode) -> EaglerayError | None:
        """Take the outcome of `send_offsets`; return what to tell its caller."""
        self._pending_offsets -= 1
        if error_code is _NONE:
            if self._all.unresolved == 0:
                self.drained()
            return None
        error = error_for(error_code, f"committing offsets with the transaction of {self.transactional_id!r}")
        if not isinstance(error, AbortableError | FatalError):
            error = AbortableError(error.message, error_code)
        self.failed(error)
        return error

    def offsets_suspicious(self, error_code: ErrorCode, done: Done) -> None:
        """A group was told that this producer is not the current one."""
        self._pending_offsets -= 1
        if self.wants_offsets:
            self._waiters.append(done)
            self._is_commit = True
            self._check(error_code)
        elif self.state is State.CHECKING:
            self._after_verdict.append(lambda: done(self._failure))
        else:
            done(self._failure or too_late())

    def tick(self, now_ms: int) -> None:
        """Repeat what was not answered."""
        self._request.tick(now_ms)
        is_asking = self.state in ENDING and not self._all.unresolved and not self._pending_offsets
        if is_asking and now_ms - self._sent_ms >= self._config.request_timeout_ms:
            self._sent_ms = now_ms
            self._ask_again(ErrorCode.REQUEST_TIMED_OUT)


def _as_reason(error: Exception) -> EaglerayError:
    """Say why the other records of a transaction go no further where one was refused."""
    if isinstance(error, EaglerayError):
        return error
    return TransactionAborted(f"another record of the transaction was refused: {error!r}.")
