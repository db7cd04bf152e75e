"""What a transaction coordinator is told, and what it asks for in return."""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.broker.messages import Message, RequestOf
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.protocol.errors import ErrorCode

# What happens to a coordinator.


class InitProducerId(RequestOf["Reply"], frozen=True, tag="InitProducerId"):
    """A producer wants its identity, and whatever its predecessor left open to be ended."""

    transactional_id: str | None
    timeout_ms: int = 60_000
    expected: ProducerIdentity | None = None
    """Who the producer believes to be, when it goes on after an error (KIP-360)."""


class AddPartitions(RequestOf["Reply"], frozen=True, tag="AddPartitions"):
    """Partitions are about to be written in a transaction, or a leader wants to know whether they may be."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]
    client_version: int = 1
    verify_only: bool = False


class EndTransaction(RequestOf["Reply"], frozen=True, tag="EndTransaction"):
    """A producer commits or aborts."""

    transactional_id: str
    producer: ProducerIdentity
    commit: bool
    client_version: int = 1


class BeginBranched(RequestOf["BranchedReply"], frozen=True, tag="BeginBranched"):
    """A driver takes a transactional id over for a transaction whose branches others write; answered `BranchedReply`.

    Whoever had the id before is fenced, and what it left open is aborted.
    """

    transactional_id: str
    tag: str
    """What the transaction is for. The coordinator remembers the last one that was committed; see `tags`."""

    timeout_ms: int = 60_000
    is_shared: bool = False
    """Whether to take part in the transaction of this tag where it is open already, instead of fencing its owner.

    Workers ask in this way whose driver cannot begin for them: the first begins, the others find it begun.
    """


class OpenBranch(RequestOf["Reply"], frozen=True, tag="OpenBranch"):
    """A driver wants an identity under which one attempt of one worker writes; answered with it in the `Reply`."""

    transactional_id: str
    owner: ProducerIdentity


class EndBranched(RequestOf["Reply"], frozen=True, tag="EndBranched"):
    """A driver commits what it has written itself and these branches, and aborts the others; or it aborts all."""

    transactional_id: str
    owner: ProducerIdentity
    commit: bool
    branches: tuple[ProducerIdentity, ...] = ()


class ForgetTransactionalId(RequestOf["Reply"], frozen=True, tag="ForgetTransactionalId"):
    """A producer is done with its transactional id for good, before that would expire.

    Refused to any other, while something is open, and where the id remembers tags: a job run again needs these.
    """

    transactional_id: str
    producer: ProducerIdentity


class DescribeTransaction(RequestOf["TransactionDescribed"], frozen=True, tag="DescribeTransaction"):
    """Somebody wants to know where a transactional id stands; answered by `TransactionDescribed`."""

    transactional_id: str


class ListTransactions(RequestOf["TransactionsListed"], frozen=True, tag="ListTransactions"):
    """Somebody wants to know of all transactional ids here; answered by `TransactionsListed`."""

    states: tuple[str, ...] = ()
    """Only those in one of these states, by Kafka's names; none means any."""

    producer_ids: tuple[int, ...] = ()
    """Only those of these producers; none means any."""

    older_than_ms: int = -1
    """Only those whose transaction began longer ago than this; below zero means any."""


Request: TypeAlias = (
    InitProducerId | AddPartitions | EndTransaction | BeginBranched | OpenBranch | EndBranched | ForgetTransactionalId
)
Query: TypeAlias = DescribeTransaction | ListTransactions


class Committed(Message, frozen=True, tag=True):
    """The log of a partition is committed up to a position that `AppendTransitions` has named: it is replicated."""

    log_partition: int
    coordinator_epoch: int
    position: int


class AppendFailed(Message, frozen=True, tag=True):
    """The log of a partition has not taken the transitions of a turn, so what is known of it here is ahead of it.

    The coordinator throws that away; `PartitionLoaded` has to follow, at the same epoch, once all that the log does
    hold is replicated.
    """

    log_partition: int
    coordinator_epoch: int


class MarkersWritten(Message, frozen=True, tag=True):
    """Every partition of a decided transaction has its marker."""

    transactional_id: str
    log_partition: int
    coordinator_epoch: int
    decision: int


class MarkersForgotten(Message, frozen=True, tag=True):
    """Whoever writes markers has begun anew and knows nothing of what it was asked before."""


class ProducerIdsReceived(Message, frozen=True, tag=True):
    """The allocator has given this coordinator a block of producer ids."""

    first_id: int
    count: int


class PartitionAssigned(Message, frozen=True, tag=True):
    """This coordinator is to lead a partition of the transaction log, at an epoch that none has had before it.

    Until the partition is loaded, clients are told to try again.
    """

    log_partition: int
    coordinator_epoch: int


class PartitionLoaded(Message, frozen=True, tag=True):
    """The transaction log of a partition has been read to its end."""

    log_partition: int
    coordinator_epoch: int
    transactions: dict[str, Snapshot]


class PartitionResigned(Message, frozen=True, tag=True):
    """Another coordinator leads a partition of the transaction log from now on."""

    log_partition: int
    coordinator_epoch: int


class Tick(Message, frozen=True, tag=True):
    """Time has passed."""


Event: TypeAlias = (
    Request
    | Query
    | Committed
    | AppendFailed
    | MarkersWritten
    | MarkersForgotten
    | ProducerIdsReceived
    | PartitionAssigned
    | PartitionLoaded
    | PartitionResigned
    | Tick
)


# What a coordinator wants to happen.


class AppendTransitions(Message, frozen=True, tag=True):
    """Append the transitions of a turn to a partition of the transaction log; None as the snapshot writes a tombstone.

    They go into the log together. `Committed` with the same position follows when they are replicated; `AppendFailed`
    follows in the same turn, before anything else, when the log does not take them.
    """

    log_partition: int
    coordinator_epoch: int
    position: int
    transitions: list[tuple[str, Snapshot | None]]
    """In their order; of one transactional id there may be several."""


class BranchMarkers(Message, frozen=True):
    """How a branch ends, and where that has to be written."""

    producer: ProducerIdentity
    commit: bool
    partitions: frozenset[TopicPartition]


class SendMarkers(Message, frozen=True, tag="SendMarkers"):
    """Write markers to these partitions, trying until each has its own; answered by `MarkersWritten`."""

    transactional_id: str
    log_partition: int
    coordinator_epoch: int
    decision: int
    """Tells this transaction from the one before, which in version 1 may have had the same producer and epoch."""

    producer: ProducerIdentity
    commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int
    branches: tuple[BranchMarkers, ...] = ()
    """The same for those who have written in the transaction under identities of their own."""


class RequestProducerIds(Message, frozen=True, tag=True):
    """Ask the allocator for a block, as often as it takes; answered by `ProducerIdsReceived`."""


class Reply(Message, frozen=True, tag="Reply"):
    """Answer a request."""

    request_id: int
    error_code: ErrorCode
    producer: ProducerIdentity = NO_PRODUCER
    """The identity to go on with, where the request asks for one or ends a transaction in version 2."""

    partition_errors: tuple[ErrorCode, ...] = ()
    """For a verification: one for each partition of the request, in its order."""


class BranchedReply(Message, frozen=True, tag="BranchedReply"):
    """Answer `BeginBranched`."""

    request_id: int
    error_code: ErrorCode
    producer: ProducerIdentity = NO_PRODUCER
    """The owner of the transaction from now on."""

    tag_is_committed: bool = False
    """Whether the transaction of this tag is committed already, so that nothing is left to do for it."""


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


class TransactionDescribed(Message, frozen=True, tag="TransactionDescribed"):
    """Answer `DescribeTransaction`."""

    request_id: int
    error_code: ErrorCode
    transaction: TransactionDescription | None = None


class TransactionsListed(Message, frozen=True, tag="TransactionsListed"):
    """Answer `ListTransactions`."""

    request_id: int
    error_code: ErrorCode
    transactions: tuple[TransactionDescription, ...] = ()


Answer: TypeAlias = Reply | BranchedReply | TransactionDescribed | TransactionsListed
Effect: TypeAlias = AppendTransitions | SendMarkers | RequestProducerIds | Answer
