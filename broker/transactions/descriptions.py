"""Where transactional ids stand: what a coordinator is asked about them, and its answers."""

from __future__ import annotations

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.limits import Int64, Text
from eagleray.broker.messages import Message, RequestOf
from eagleray.broker.transactions.origin import UNKNOWN_ORIGIN, Origin
from eagleray.broker.transactions.preparation import NO_TIMEOUT_MS
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.protocol.errors import ErrorCode


class TransactionDescription(Message, frozen=True):
    """Where a transactional id stands, as its log has it."""

    transactional_id: str
    state: str
    """Kafka's name of it."""

    producer: ProducerIdentity
    timeout_ms: int
    start_ms: int
    updated_ms: int
    partitions: tuple[TopicPartition, ...]
    """All that take part, those of branches too."""

    tag: str | None = None
    branches: int = 0
    origin: Origin = UNKNOWN_ORIGIN
    """Which program has taken the transactional id."""

    max_hold_ms: int = -1
    """How long the transaction may hold readers back, by its topics; -1 where none of them says so."""

    prepared_ms: int = -1
    """Since when it is prepared; below zero where it is not."""

    context: bytes = b""
    """What its producer said when it prepared."""

    resolver: ResolverName | None = None
    """Who may be asked how the prepared transaction has to end."""

    questions: int = 0
    """How often that was asked."""

    next_question_ms: int = -1
    """When that is asked next, or the transaction is aborted for want of an answer; below zero where neither."""

    @property
    def is_in_two_phases(self) -> bool:
        """Whether another system may commit its part: only that system knows then how an open transaction has to end.

        It may where the transaction is prepared; a client of Kafka does not say when it is, but has no timeout then.
        """
        return self.prepared_ms >= 0 or self.timeout_ms == NO_TIMEOUT_MS


class DescribeTransaction(RequestOf["TransactionDescribed"], frozen=True, tag="DescribeTransaction"):
    """Ask where a transactional id stands; answered by `TransactionDescribed`."""

    transactional_id: Text


class TransactionDescribed(Message, frozen=True, tag="TransactionDescribed"):
    """Answer `DescribeTransaction`."""

    request_id: int
    error_code: ErrorCode
    transaction: TransactionDescription | None = None


class ListTransactions(RequestOf["TransactionsListed"], frozen=True, tag="ListTransactions"):
    """Ask for all transactional ids here; answered by `TransactionsListed`."""

    states: tuple[Text, ...] = ()
    """Only those in one of these states, by Kafka's names; none means any."""

    producer_ids: tuple[Int64, ...] = ()
    """Only those of these producers; none means any."""

    older_than_ms: Int64 = -1
    """Only those whose transaction began longer ago than this; below zero means any."""


class TransactionsListed(Message, frozen=True, tag="TransactionsListed"):
    """Answer `ListTransactions`."""

    request_id: int
    error_code: ErrorCode
    transactions: tuple[TransactionDescription, ...] = ()
    log_partitions: tuple[int, ...] = ()
    """The partitions of the transaction log of which this tells: those that the node coordinates at the moment."""
