"""What a producer guarantees: nothing, each record once, or whole transactions.

The `Sender` carries batches; a guarantee decides under whose identity they go and what a failure means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from eagleray.broker.identities import LAST_EPOCH, NO_PRODUCER, ProducerIdentity
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.broker.transactions.events import InitProducerId, Reply
from eagleray.client.calls import Question, RepeatedCall, Then
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import EaglerayError, FatalError, ProducerFenced
from eagleray.client.producer.batches import UNASSIGNED, PartitionQueue, ProducerBatch
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from eagleray.client.producer.sender import Sender

Done = Callable[[Exception | None], None]
"""Called once, with what went wrong or None."""

LOST_SEQUENCE: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The batch does not follow on what the partition has of the producer."""

FORGOTTEN: Final = "was forgotten by the cluster, and may have had a newer producer before."
"""What is said of the transactional id of a producer that cannot be told from one that was fenced any more."""


class DeliveryGuarantee:
    """No guarantee: a repetition may write a record twice, and a failure loses it."""

    transactional_id: str | None = None
    is_transactional = False
    may_send = True
    """Whether batches may go out."""

    has_begun = False
    """Whether anything has been sent, for those who would have to end it."""

    def __init__(self, sender: Sender) -> None:
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


def identity_call(
    runtime: ClientRuntime, config: ProducerConfig, then: Then[Reply], total_ms: int = NEVER_MS
) -> RepeatedCall[Reply]:
    """Return what asks a coordinator who a producer is."""
    name, view = config.transactional_id, runtime.view

    def find_node() -> int:
        return view.any_transaction_coordinator() if name is None else view.transaction_coordinator(name)

    doing = "getting a producer id" if name is None else f"getting the identity of transactional id {name!r}"
    return RepeatedCall(runtime, find_node, doing, then, retry_policy=RetryPolicy.of(config, total_ms))


def identity_question(
    runtime: ClientRuntime,
    config: ProducerConfig,
    expected: ProducerIdentity | None = None,
    *,
    keep_prepared: bool = False,
) -> Question[Reply]:
    """Return the question, which names who the producer believes to be where it goes on after an error (KIP-360)."""
    name, timeout_ms = config.transactional_id, config.transaction_timeout_ms
    return Question(InitProducerId, name, timeout_ms, expected, runtime.origin, False, keep_prepared)


def verdict_on(asker: ProducerIdentity, outcome: Reply | EaglerayError) -> Reply | EaglerayError:
    """Take an identity that was made anew for a refusal of the producer that has named itself.

    The coordinator had forgotten the transactional id then, and with it who has had it since: what the asker goes on
    with may be done already. Another producer id is the asker's own only where its epochs were used up.
    """
    if isinstance(outcome, EaglerayError):
        return outcome
    if outcome.producer.producer_id == asker.producer_id or asker.epoch >= LAST_EPOCH - 1:
        return outcome
    return ProducerFenced(FORGOTTEN, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


class Idempotent(DeliveryGuarantee):
    """Each record once and in order, as long as the producer lives.

    Owns: the producer's identity. A batch that is given up leaves a gap in the sequences of its partition; what comes
    behind goes on in the next epoch there, once nothing of the old one is in doubt any more.
    """

    may_send = False

    def __init__(self, sender: Sender, runtime: ClientRuntime, config: ProducerConfig) -> None:
        super().__init__(sender)
        self._runtime = runtime
        self._config = config
        self._asking: RepeatedCall[Reply] | None = None
        self.identity = NO_PRODUCER

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is outstanding beside those of batches."""
        return self._asking is not None

    def prepare(self) -> None:
        """Get an identity, unless that is under way."""
        if self._asking is None:
            config = self._config
            self._asking = identity_call(self._runtime, config, self._on_identity, config.max_block_ms)
            self._asking.ask(identity_question(self._runtime, config))

    def _on_identity(self, outcome: Reply | EaglerayError) -> None:
        self._asking = None
        if not isinstance(outcome, EaglerayError):
            self.identity = outcome.producer
            self.may_send = True
            self._sender.look_at_all()
            return
        if isinstance(outcome, FatalError):
            self.refusal = outcome
        self._sender.fail_all(outcome)

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
        if self._asking is not None:
            self._asking.tick(now_ms)
