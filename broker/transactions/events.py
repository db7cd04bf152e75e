"""What a transaction coordinator is told, and what it asks for in return."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from eagleray.broker.identities import NO_EPOCH, NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.broker.limits import Int8, Int32, Int64, PartitionNumber, Text
from eagleray.broker.messages import Message, RequestOf
from eagleray.broker.runtime.connection_bindings import NO_QUESTION, ClientConnection, ConnectionClosed
from eagleray.broker.runtime.coordinator_events import AppendRecords, LogEvent
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.failures import ReloadPartition, RequestFailed
from eagleray.broker.transactions.descriptions import (
    DescribeTransaction,
    ListTransactions,
    TransactionDescribed,
    TransactionDescription,
    TransactionsListed,
)
from eagleray.broker.transactions.origin import Origin
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.broker.transactions.resolver_events import AskResolver, ResolverAnswered
from eagleray.protocol.errors import ErrorCode

# What happens to a coordinator.


class InitProducerId(RequestOf["Reply"], frozen=True, tag="InitProducerId"):
    """A producer wants its identity, and whatever its predecessor left open to be ended."""

    transactional_id: Text | None
    timeout_ms: Int32 = 60_000
    expected: ProducerIdentity | None = None
    """Who the producer believes to be, when it goes on after an error (KIP-360)."""

    origin: Origin | None = None
    """Which program asks; see `Origin`."""

    two_phase: bool = False
    """Whether the producer takes part in a two-phase commit: its transactions have no timeout (KIP-939)."""

    keep_prepared: bool = False
    """Whether what its predecessor left open stays open, for the producer to end it and nothing else (KIP-939)."""

    client: ClientConnection | None = None
    """The connection of the Kafka client that asks; None for all other askers, here and below."""

    owner: ProducerIdentity | None = None
    """For a slot: who the producer believes to have its pool. Refused with INVALID_PRODUCER_EPOCH where another has."""


class TakePoolOver(RequestOf["PoolReply"], frozen=True, tag="TakePoolOver"):
    """A program takes a pool over: its owner until then is fenced in all slots; answered `PoolReply`.

    What is open in them and not prepared is aborted, what is prepared stays. The answer waits until nothing else is
    under way in them. Refused with INVALID_TXN_STATE where a producer has left a prepared transaction under the pool's
    own name.
    """

    transactional_id: Text
    """The name of the pool."""

    timeout_ms: Int32 = 60_000
    origin: Origin | None = None
    owner: ProducerIdentity | None = None
    """Whom the pool has been given to by this request, which the coordinator lets wait for what is under way."""

    client: ClassVar = None
    """No Kafka client sends this."""


class AddPartitions(RequestOf["Reply"], frozen=True, tag="AddPartitions"):
    """Partitions are about to be written in a transaction, or a leader wants to know whether they may be."""

    transactional_id: Text
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]
    client_version: Int8 = 1
    verify_only: bool = False
    client: ClientConnection | None = None


class EndTransaction(RequestOf["Reply"], frozen=True, tag="EndTransaction"):
    """A producer commits or aborts."""

    transactional_id: Text
    producer: ProducerIdentity
    commit: bool
    client_version: Int8 = 1
    client: ClientConnection | None = None


class BeginBranched(RequestOf["BranchedReply"], frozen=True, tag="BeginBranched"):
    """A driver takes a transactional id over for a transaction whose branches others write; answered `BranchedReply`.

    The driver that had the id before is fenced, and what it left open is aborted.
    """

    transactional_id: Text
    tag: Text
    """What the transaction is for. The coordinator remembers the last one that was committed; see `tags`."""

    timeout_ms: Int32 = 60_000
    is_shared: bool = False
    """Whether to take part in the transaction of this tag where it is open already, instead of fencing its owner.

    Workers ask in this way whose driver cannot begin for them: the first begins, the others find it begun.
    """

    opens_branch: bool = False
    """Whether the worker that shares wants a branch too, as by `OpenBranch`, which the answer names then."""

    origin: Origin | None = None
    """Which program asks; that of the first worker is kept where they share a transaction."""

    begins_anew: bool = False
    """Whether later tags of its series, committed or open, do not settle or overtake this one.

    Drivers ask in this way which have been told to go on although their own memory was set back.
    """

    client: ClassVar = None
    """No Kafka client sends this."""


class OpenBranch(RequestOf["Reply"], frozen=True, tag="OpenBranch"):
    """A driver wants an identity under which one attempt of one worker writes; answered with it in the `Reply`."""

    transactional_id: Text
    owner: ProducerIdentity

    client: ClassVar = None


class EndBranched(RequestOf["Reply"], frozen=True, tag="EndBranched"):
    """A driver commits what it has written itself and these branches, and aborts the others; or it aborts all."""

    transactional_id: Text
    owner: ProducerIdentity
    commit: bool
    branches: tuple[ProducerIdentity, ...] = ()
    client: ClientConnection | None = None


class PrepareTransaction(RequestOf["Reply"], frozen=True, tag="PrepareTransaction"):
    """A producer has written all of a transaction: from now on it takes nothing more, and only its token ends it.

    Answered with the token, which is the producer's identity. A producer that prepares has heard that all of its
    records are written. A preparation that repeats another is answered in the same way.
    """

    transactional_id: Text
    producer: ProducerIdentity
    context: bytes = b""
    """For those who find the transaction later; `max_prepared_context_bytes` at most."""

    branches: tuple[ProducerIdentity, ...] = ()
    """The branches that a commit will commit, where many write; it aborts the others."""

    resolver: ResolverName | None = None
    """Who may be asked how it has to end, when its producer does not end it."""

    client: ClassVar = None
    """No Kafka client sends this."""


class CompleteTransaction(RequestOf["Reply"], frozen=True, tag="CompleteTransaction"):
    """A program that holds the token of a prepared transaction, from wherever it has it, commits or aborts it.

    It may ask again, as long as the coordinator remembers the outcome. Refused with INVALID_TXN_STATE where the
    transaction has ended the other way, or is not prepared; with INVALID_PRODUCER_ID_MAPPING where the token is that
    of no transaction which is open or remembered.
    """

    transactional_id: Text
    prepared: ProducerIdentity
    commit: bool
    is_unprepared: bool = False
    """Whether to end one that is open and not prepared, too, as an operator may."""

    client: ClassVar = None
    """No Kafka client sends this."""


class ForgetTransactionalId(RequestOf["Reply"], frozen=True, tag="ForgetTransactionalId"):
    """A producer is done with its transactional id for good, before that would expire.

    Refused to any other, while something is open, and where the id remembers tags: a job run again needs these.
    """

    transactional_id: Text
    producer: ProducerIdentity

    client: ClassVar = None


class LastDecision(RequestOf["Reply"], frozen=True, tag="LastDecision"):
    """A leader wants to know up to which decision the transactions of a transactional id are over.

    Unlike a verification it is never held: the leader has a marker at hand, for which the coordinator may be waiting.
    """

    transactional_id: Text


Request: TypeAlias = (
    InitProducerId
    | TakePoolOver
    | AddPartitions
    | EndTransaction
    | BeginBranched
    | OpenBranch
    | EndBranched
    | PrepareTransaction
    | CompleteTransaction
    | ForgetTransactionalId
)
Query: TypeAlias = DescribeTransaction | ListTransactions | LastDecision


class MarkersWritten(Message, frozen=True, tag=True):
    """Every partition of a decided transaction has its marker."""

    transactional_id: str
    log_partition: int
    coordinator_epoch: int
    decision: int


class MarkersForgotten(Message, frozen=True, tag=True):
    """The marker channel manager has begun anew and knows nothing of what it was asked before."""


class ProducerIdsReceived(Message, frozen=True, tag=True):
    """The allocator has given this coordinator a block of producer ids."""

    first_id: int
    count: int


class HoldLimitsKnown(Message, frozen=True, tag=True):
    """These topics bound how long a transaction may hold their readers back; see `HoldLimits`."""

    limits_ms: dict[str, int]


Event: TypeAlias = (
    Request
    | Query
    | LogEvent
    | MarkersWritten
    | MarkersForgotten
    | ProducerIdsReceived
    | HoldLimitsKnown
    | ResolverAnswered
    | ConnectionClosed
    | Tick
)


# What a coordinator wants to happen.


class BranchMarkers(Message, frozen=True):
    """How a branch ends, and where that has to be written."""

    producer: ProducerIdentity
    commit: bool
    partitions: frozenset[TopicPartition]


class SendMarkers(Message, frozen=True, tag="SendMarkers"):
    """Write markers to these partitions, trying until each has its own; answered by `MarkersWritten`."""

    transactional_id: Text
    log_partition: PartitionNumber
    coordinator_epoch: Int32
    decision: Int64
    """Tells this transaction from the one before, which in version 1 may have had the same producer and epoch."""

    producer: ProducerIdentity
    commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: Int8
    branches: tuple[BranchMarkers, ...] = ()
    """The same for those who have written in the transaction under identities of their own."""


class RequestProducerIds(Message, frozen=True, tag=True):
    """Ask the allocator for a block, as often as it takes; answered by `ProducerIdsReceived`."""


class HeldTooLong(Message, frozen=True, tag=True):
    """Note in the node's log that a transaction is aborted for having held readers back, and why."""

    transactional_id: str
    producer: ProducerIdentity
    message: str
    origin: Origin


class Reply(Message, frozen=True, tag="Reply"):
    """Answer a request."""

    request_id: int
    error_code: ErrorCode
    producer: ProducerIdentity = NO_PRODUCER
    """The identity to go on with, where the request asks for one or ends a transaction in version 2."""

    partition_errors: tuple[ErrorCode, ...] = ()
    """For a verification: one for each partition of the request, in its order."""

    message: str | None = None
    """To a producer whose transaction the coordinator has ended, why, where there is more to say than its timeout."""

    ongoing: ProducerIdentity = NO_PRODUCER
    """The token of the transaction that was kept, where a producer has asked to keep one and there is one."""

    question: int = NO_QUESTION
    """Where the connection guard refuses the request: the number of its question to the connection."""

    coordinator_epoch: int = NO_EPOCH
    """For a verification and `LastDecision`: of the coordinator that answers."""

    decision: int = 0
    """For these too: no decision up to this number is under way, or will be; the next one of the id is above it."""


class BranchedReply(Message, frozen=True, tag="BranchedReply"):
    """Answer `BeginBranched`."""

    request_id: int
    error_code: ErrorCode
    producer: ProducerIdentity = NO_PRODUCER
    """The owner of the transaction from now on."""

    tag_is_committed: bool = False
    """Whether the transaction of this tag is committed already, so that nothing is left to do for it."""

    branch: ProducerIdentity = NO_PRODUCER
    """The branch, where one is asked for and the tag is not committed."""

    committed_tag: str | None = None
    """The last tag that is committed, as far as the coordinator remembers."""

    memory_ms: int = -1
    """How long the coordinator remembers that when the transactional id is not used."""


class PoolReply(Message, frozen=True, tag="PoolReply"):
    """Answer `TakePoolOver`."""

    request_id: int
    error_code: ErrorCode
    producer: ProducerIdentity = NO_PRODUCER
    """The owner of the pool from now on."""

    left: tuple[TransactionDescription, ...] = ()
    """The slots with a prepared transaction of an earlier owner."""


Answer: TypeAlias = Reply | BranchedReply | PoolReply | TransactionDescribed | TransactionsListed
Effect: TypeAlias = (
    AppendRecords
    | SendMarkers
    | RequestProducerIds
    | HeldTooLong
    | AskResolver
    | Answer
    | RequestFailed
    | ReloadPartition
)
