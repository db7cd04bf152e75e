"""What a producer guarantees: nothing, each record once, or whole transactions.

The `Sender` carries batches; a guarantee decides under whose identity they go and what a failure means.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from eagleray.actors.messages import Malformed
from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.identities import LAST_EPOCH, NO_PRODUCER, ProducerIdentity
from eagleray.broker.transactions.events import InitProducerId, Reply
from eagleray.client.calls import Backoff, is_only_busy
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import EaglerayError, FatalError, error_for
from eagleray.client.producer.batches import UNASSIGNED, PartitionQueue, ProducerBatch
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

Done = Callable[[Exception | None], None]
"""Called once, with what went wrong or None."""

LOST_SEQUENCE: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The batch does not follow on what the partition has of the producer."""


class Failures(Protocol):
    """What a guarantee can have a sender do."""

    refusal: Exception | None
    """Why no records are taken; None while they are."""

    def retry(self, batch: ProducerBatch, error_code: ErrorCode | None) -> None:
        """Send a batch again, after a pause."""

    def resolve(self, batch: ProducerBatch, error: EaglerayError | None) -> None:
        """End a batch's way."""

    def fail_all(self, error: EaglerayError) -> None:
        """End every batch's way."""

    def look_at_all(self) -> None:
        """Send what can be sent."""

    def flush(self) -> None:
        """Let no batch linger."""


class DeliveryGuarantee:
    """No guarantee: a repetition may write a record twice, and a failure loses it."""

    transactional_id: str | None = None
    is_transactional = False
    may_send = True
    """Whether batches may go out."""

    has_begun = False
    """Whether anything has been sent, for those who would have to end it."""

    def __init__(self, sender: Failures) -> None:
        self._sender = sender

    @property
    def refusal(self) -> Exception | None:
        """Why no records are taken; None while they are."""
        return self._sender.refusal

    @refusal.setter
    def refusal(self, refusal: Exception | None) -> None:
        self._sender.refusal = refusal

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is outstanding beside those of batches."""
        return False

    def prepare(self) -> None:
        """Get what batches need before they may go out."""

    def identity_for(self, queue: PartitionQueue) -> ProducerIdentity | None:  # noqa: ARG002 - all guarantees take it
        """Return under which identity the queue's next batch goes out; None where it has to wait for one."""
        return NO_PRODUCER

    def refused(self, batch: ProducerBatch, error_code: ErrorCode, error: EaglerayError) -> None:  # noqa: ARG002
        """Decide about a batch that a leader has refused for good."""
        self._sender.resolve(batch, error)

    def expired(self, batch: ProducerBatch, error: EaglerayError) -> None:
        """Decide about a batch whose time is up."""
        self._sender.resolve(batch, error)

    def send_failed(self, error: Exception) -> None:
        """Take note that a record was not even taken; the sender refuses more of a transaction already."""

    def drained(self) -> None:
        """Every batch has been resolved."""

    def tick(self, now_ms: int) -> None:
        """Look for answers that take too long."""


class IdentityRequest:
    """Asks a coordinator who a producer is, until it is answered or the time is up."""

    __slots__ = ("_attempt", "_backoff", "_config", "_deadline_ms", "_expected", "_runtime", "_sent_ms", "_then")

    def __init__(self, runtime: ClientRuntime, config: ProducerConfig) -> None:
        self._runtime = runtime
        self._config = config
        self._attempt = 0
        self._then: Callable[[ProducerIdentity, EaglerayError | None], None] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether the answer is outstanding."""
        return self._then is not None

    def ask(
        self,
        expected: ProducerIdentity | None,
        then: Callable[[ProducerIdentity, EaglerayError | None], None],
        *,
        max_block_ms: int | None,
    ) -> None:
        """Ask, naming who the producer believes to be where it goes on after an error (KIP-360)."""
        self._expected = expected
        self._then = then
        self._deadline_ms = None if max_block_ms is None else self._runtime.now_ms() + max_block_ms
        self._backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        self._try()

    def _try(self) -> None:
        if self._then is None:
            return
        name, view = self._config.transactional_id, self._runtime.view
        node_id = view.any_transaction_coordinator() if name is None else view.transaction_coordinator(name)
        self._attempt += 1
        self._sent_ms = self._runtime.now_ms()
        if node_id == NO_NODE:
            self._again(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        on_reply = partial(self._on_reply, self._attempt)
        fields = (name, self._config.transaction_timeout_ms, self._expected)
        self._runtime.ask(node_id, on_reply, InitProducerId, *fields)

    def _on_reply(self, attempt: int, reply: Reply | Malformed | None) -> None:
        if attempt != self._attempt or self._then is None:
            return
        if isinstance(reply, Reply) and reply.error_code is ErrorCode.NONE:
            self._settle(reply.producer, None)
            return
        error_code = ErrorCode.NETWORK_EXCEPTION if reply is None else reply.error_code
        if error_code.is_retriable:
            self._again(error_code)
        else:
            self._settle(NO_PRODUCER, error_for(error_code, self._doing, getattr(reply, "message", None)))

    @property
    def _doing(self) -> str:
        name = self._config.transactional_id
        return "getting a producer id" if name is None else f"getting the identity of transactional id {name!r}"

    def _again(self, error_code: ErrorCode) -> None:
        if self._deadline_ms is not None and self._runtime.now_ms() >= self._deadline_ms:
            self._settle(NO_PRODUCER, error_for(error_code, self._doing))
            return
        if not is_only_busy(error_code):
            self._runtime.view.refresh()
        self._attempt += 1
        self._runtime.later(self._backoff.next_ms(), self._try)

    def _settle(self, identity: ProducerIdentity, error: EaglerayError | None) -> None:
        then, self._then = self._then, None
        assert then is not None
        then(identity, error)

    def tick(self, now_ms: int) -> None:
        """Take a request that was never answered as one that failed."""
        if self._then is not None and now_ms - self._sent_ms >= self._config.request_timeout_ms:
            self._sent_ms = now_ms
            self._again(ErrorCode.REQUEST_TIMED_OUT)


class Idempotent(DeliveryGuarantee):
    """Each record once and in order, as long as the producer lives.

    Owns: the producer's identity. A batch that is given up leaves a gap in the sequences of its partition; what comes
    behind goes on in the next epoch there, once nothing of the old one is in doubt any more.
    """

    may_send = False

    def __init__(self, sender: Failures, runtime: ClientRuntime, config: ProducerConfig) -> None:
        super().__init__(sender)
        self._request = IdentityRequest(runtime, config)
        self._max_block_ms = config.max_block_ms
        self.identity = NO_PRODUCER

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is outstanding beside those of batches."""
        return self._request.is_under_way

    def prepare(self) -> None:
        """Get an identity, unless that is under way."""
        if not self._request.is_under_way:
            self._request.ask(None, self._on_identity, max_block_ms=self._max_block_ms)

    def _on_identity(self, identity: ProducerIdentity, error: EaglerayError | None) -> None:
        if error is None:
            self.identity = identity
            self.may_send = True
            self._sender.look_at_all()
            return
        if isinstance(error, FatalError):
            self.refusal = error
        self._sender.fail_all(error)

    def identity_for(self, queue: PartitionQueue) -> ProducerIdentity | None:
        """Return under which identity the queue's next batch goes out; None where it has to wait for one."""
        known = queue.identity
        if known is None:
            queue.start_sequences(self.identity)
        elif queue.needs_new_epoch and known.epoch + 1 < LAST_EPOCH:
            queue.start_sequences(ProducerIdentity(known.producer_id, known.epoch + 1))
        elif queue.needs_new_epoch:
            # Its epochs are used up. Nothing of the old identity is in doubt here, so that another one does as well.
            queue.identity = None
            self.may_send = False
            self.prepare()
        return queue.identity

    def refused(self, batch: ProducerBatch, error_code: ErrorCode, error: EaglerayError) -> None:
        """Retry behind a gap that has a reason; else give the batch up, and go on in another epoch."""
        queue = batch.queue
        if error_code in LOST_SEQUENCE and not batch.was_first:
            self._sender.retry(batch, error_code)
        elif error_code in LOST_SEQUENCE and queue.needs_new_epoch:
            # The partition says that it does not have the batch, because of the gap before it.
            batch.base_sequence = UNASSIGNED
            batch.encoded = None
            self._sender.retry(batch, None)
        else:
            queue.needs_new_epoch = True
            self._sender.resolve(batch, error)

    def expired(self, batch: ProducerBatch, error: EaglerayError) -> None:
        """Give the batch up; where it was sent it may be in the log, or not."""
        if batch.base_sequence != UNASSIGNED:
            batch.queue.needs_new_epoch = True
        self._sender.resolve(batch, error)

    def tick(self, now_ms: int) -> None:
        """Look for answers that take too long."""
        self._request.tick(now_ms)
