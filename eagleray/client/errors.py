"""What can go wrong, as exceptions in the groups that decide what an application does next.

    try:
        async with producer.transaction():
            await producer.send("orders", b"...")
    except AbortableError:
        ...  # the transaction was aborted; begin another one
    except FatalError:
        ...  # this producer can do nothing more; close it and make a new one

A `RetriableError` reaches an application only when the client's own tries have used up their time. Every exception
carries the broker's `error_code` where a broker's answer is its cause, and survives pickling.
"""

from __future__ import annotations

from typing import Final

from eagleray.protocol.errors import ErrorCode, ErrorKind
from eagleray.protocol.records import RecordError


class EaglerayError(Exception):
    """Anything that a client reports. `advice` says what to do about it."""

    advice: str = "Read the message; the call had no effect that it does not mention."

    def __init__(self, message: str = "", error_code: ErrorCode | None = None) -> None:
        super().__init__(message, error_code)
        self.message = message
        self.error_code = error_code

    def __str__(self) -> str:
        code = "" if self.error_code is None else f" [{self.error_code.name}]"
        return f"{self.message or type(self).__doc__}{code} {self.advice}"


# The groups


class RetriableError(EaglerayError):
    """The same call may succeed later. The client has tried again by itself until its time was up."""

    advice = "Try again later, or give the client more time (delivery.timeout.ms, max.block.ms)."


class AbortableError(EaglerayError):
    """The transaction can no longer commit."""

    advice = "Abort the transaction, then begin another one."


class FatalError(EaglerayError):
    """The client can do nothing more."""

    advice = "Close this client and make a new one."


class RefusedError(EaglerayError):
    """This one call was refused for what it asked; everything else goes on."""

    advice = "Correct what the call asks for; repeating it changes nothing."


# Retriable


class NotConnected(RetriableError):
    """No node of the cluster answers."""

    advice = "See whether the cluster runs and can be reached; the client goes on trying."


class NodeUnreachable(NotConnected):
    """A node runs, and its port cannot be reached from here."""

    advice = 'Open the port to this machine, or take Ray\'s lane: connect with lane="ray".'


class BufferFull(RetriableError):
    """The records that wait to be sent fill buffer.memory."""

    advice = "Send more slowly, wait for deliveries, or raise buffer.memory or max.block.ms."


class PoolBusy(RetriableError):
    """All the transactions that a pool may have open are open."""

    advice = "End transactions sooner, or give the pool a higher concurrency or a longer max.block.ms."


class LeaderUnavailable(RetriableError):
    """The partition has no leader that answers."""


class CoordinatorUnavailable(RetriableError):
    """The coordinator of the transactional id or the group does not answer."""


class RequestTimedOut(RetriableError):
    """The cluster did not finish the request in time; it may or may not have been carried out."""


class UnstableOffsets(RetriableError):
    """A transaction that is still open holds offsets of the group."""

    advice = "Wait until that transaction has ended; `admin.find_hanging` finds one that never will."


# Abortable


class DeliveryTimeout(AbortableError):
    """Records were not acknowledged within delivery.timeout.ms; they may or may not be in the log."""

    advice = "In a transaction, abort it; outside of one, decide whether to send the records again."


class MessageTooLarge(AbortableError):
    """A record is larger than the producer or the topic allows."""

    advice = "Send smaller records, or raise max.request.size and the topic's max.message.bytes."


class OutOfOrderSequence(AbortableError):
    """The partition lacks records that were acknowledged to this producer before."""

    advice = "Records before this one were lost by the cluster; abort, look for the cause, then go on."


class TransactionAborted(AbortableError):
    """The transaction was aborted, so what it contains was not and will not be committed."""


class TransactionTimedOut(TransactionAborted):
    """The coordinator has aborted the transaction because it was open for longer than transaction.timeout.ms."""

    advice = "Begin another transaction; commit more often, or raise transaction.timeout.ms."


class TransactionHeldTooLong(TransactionAborted):
    """The coordinator has aborted the transaction: a topic bounds how long its readers may be held back."""

    advice = "Begin another transaction; commit more often, or raise transaction.max.hold.ms of the topic."


class OffsetsInUse(AbortableError):
    """Another transaction of the pool, which has not ended, holds offsets of the same group and partition."""

    advice = "Abort this transaction, and let one transaction at a time go on with a partition."


class CommitFailed(AbortableError):
    """The group did not take the offsets: the member or its generation is not the current one."""

    advice = "Abort the transaction if there is one, let the group rebalance, and read again from the last offsets."


class RecordRefused(AbortableError):
    """The topic does not accept a record as it is."""

    advice = "Abort the transaction if there is one, and correct the record."

    record_errors: tuple[RecordError, ...] = ()
    """Which records of a batch the topic does not accept, and why; empty where it is the batch itself."""

    def of_record(self, batch_index: int, destination: str) -> RecordRefused:
        """Return the error of one record of the batch: its own, or that others were refused and it with them."""
        if not self.record_errors:
            return self
        reasons = {error.batch_index: error.message for error in self.record_errors}
        if batch_index in reasons:
            text = f"record {batch_index} of a batch for {destination} is refused: {reasons[batch_index]}."
        else:
            text = f"the record is not written, because others of its batch are refused: {self.message}."
        refusal = type(self)(text, self.error_code)
        refusal.record_errors = self.record_errors
        return refusal


# Fatal


class ProducerFenced(FatalError):
    """Another producer has taken over this transactional id, or may have before the cluster forgot the id."""

    advice = "Close this producer: the newer one goes on in its place. Two of them must not share a transactional id."


class PoolFenced(ProducerFenced):
    """Another program has taken this pool of transactions over, or the cluster has forgotten the pool."""

    advice = "Close this pool: the newer one goes on in its place. Two programs must not share the name of a pool."


class AuthorizationFailed(FatalError):
    """The client may not do this."""

    advice = "Ask for the permission, then make a new client."


class UnsupportedByCluster(FatalError):
    """The cluster does not serve this request."""

    advice = "Use the same release of Eagleray in the client and in the cluster."


class ServerFailed(FatalError):
    """Something failed in the cluster that no other error describes."""

    advice = "The cluster's logs say more. Close this client and make a new one."


class ClientClosed(FatalError):
    """The client was closed."""

    advice = "Make a new client; one that is closed stays closed."


class ForkedClient(FatalError):
    """The client belongs to another process: threads and connections do not survive a fork."""

    advice = "Make the client in the process that uses it, after the fork."


# Refused


class InvalidConfig(RefusedError, ValueError):
    """A setting is unknown, or its value is not allowed."""

    advice = "docs/configuration.md lists every setting with its default."


class InvalidArgument(RefusedError, TypeError, ValueError):
    """An argument of a call has the wrong type, or a value that cannot be."""

    advice = "Nothing was sent. Correct the argument that the message names."


class ClusterNotFound(RefusedError):
    """There is no such cluster, or more than one that may be meant."""

    advice = "Start one with eagleray.start() or `eagleray start`, or choose one by its name and its address."


class CannotStart(RefusedError):
    """A cluster cannot be started as it was asked for."""

    advice = "What was started for it is stopped again; correct what the message names, then start it again."


class CannotAdd(RefusedError):
    """A machine cannot be added to the cluster."""

    advice = "The cluster goes on as it is; correct what the message names, then add the machine again."


class InvalidTransactionState(RefusedError):
    """The call does not fit the state of the transaction."""

    advice = "The order is init, begin, send, then commit or abort."


class NotEnded(InvalidTransactionState):
    """The block of a transaction with many writers has ended, and nothing in it said how the transaction ends."""

    advice = "Call commit() with the sealed branches at the end of the block, or abort()."


class NotCompleted(InvalidTransactionState):
    """The producer still has a prepared transaction, and begins no other before that has ended."""

    advice = (
        "Call complete() with the token that the other system has stored, or with None where it has stored none: "
        "that commits the transaction if it is the one of the token, and aborts it otherwise."
    )


class CompletedOtherwise(RefusedError):
    """A prepared transaction has ended the other way: a program that has its token, or an operator, has decided so."""

    advice = "Bring the other system into line with this; `eagleray txn describe` shows the transaction."


class TopicNotFound(RefusedError):
    """There is no such topic or partition."""

    advice = "Create the topic first (`admin.create_topic`), or look for a misspelt name."


class TopicExists(RefusedError):
    """There is a topic of this name already."""

    advice = "Use it as it is, or choose another name."


class TopicRefused(RefusedError):
    """A topic cannot be like this."""

    advice = "Correct the name, the number of partitions or the settings; nothing was changed."


class ReplicasRefused(RefusedError):
    """Replicas cannot be, or lead, where they are wanted."""

    advice = "`admin.list_nodes` lists the nodes; whatever the message does not mention goes on."


class OffsetOutOfRange(RefusedError):
    """The log does not hold this offset, or no longer does."""

    advice = "Seek to an offset that is there, or set auto.offset.reset to earliest or latest."


class NoOffset(RefusedError):
    """The group has no offset for the partition, and auto.offset.reset is none."""

    advice = "Seek to where to begin, or set auto.offset.reset to earliest or latest."


class CorruptRecords(RefusedError):
    """Records that were read are damaged."""

    advice = "Seek behind the damaged batch to go on without it; the cluster's disk or memory may be failing."


class TransactionNotFound(RefusedError):
    """The coordinator knows no such transactional id."""

    advice = "It may be misspelt, expired, or never have been used; `admin.list_transactions` lists those known."


class GroupNotFound(RefusedError):
    """There is no such group."""

    advice = "`admin.list_groups` lists those that have committed offsets."


class GroupBusy(RefusedError):
    """The group still has members."""

    advice = "Stop its consumers first."


_Error = type[EaglerayError]

_BY_KIND: Final[dict[ErrorKind, _Error]] = {
    ErrorKind.RETRIABLE: RetriableError,
    ErrorKind.REFRESH_RETRIABLE: RetriableError,
    ErrorKind.ABORTABLE: AbortableError,
    ErrorKind.FATAL: FatalError,
    ErrorKind.EXPECTED: RefusedError,
    ErrorKind.INVALID: RefusedError,
}

_BY_CODE: Final[dict[ErrorCode, _Error]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: ServerFailed,
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRange,
    ErrorCode.CORRUPT_MESSAGE: CorruptRecords,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: TopicNotFound,
    ErrorCode.UNKNOWN_TOPIC_ID: TopicNotFound,
    ErrorCode.LEADER_NOT_AVAILABLE: LeaderUnavailable,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: LeaderUnavailable,
    ErrorCode.FENCED_LEADER_EPOCH: LeaderUnavailable,
    ErrorCode.UNKNOWN_LEADER_EPOCH: LeaderUnavailable,
    ErrorCode.NOT_ENOUGH_REPLICAS: LeaderUnavailable,
    ErrorCode.REQUEST_TIMED_OUT: RequestTimedOut,
    ErrorCode.NETWORK_EXCEPTION: NotConnected,
    ErrorCode.BROKER_NOT_AVAILABLE: NotConnected,
    ErrorCode.MESSAGE_TOO_LARGE: MessageTooLarge,
    ErrorCode.RECORD_LIST_TOO_LARGE: MessageTooLarge,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: MessageTooLarge,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: CoordinatorUnavailable,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: CoordinatorUnavailable,
    ErrorCode.NOT_COORDINATOR: CoordinatorUnavailable,
    ErrorCode.CONCURRENT_TRANSACTIONS: CoordinatorUnavailable,
    ErrorCode.INVALID_TOPIC_EXCEPTION: RecordRefused,
    ErrorCode.INVALID_TIMESTAMP: RecordRefused,
    ErrorCode.INVALID_RECORD: RecordRefused,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: RecordRefused,
    ErrorCode.ILLEGAL_GENERATION: CommitFailed,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitFailed,
    ErrorCode.REBALANCE_IN_PROGRESS: CommitFailed,
    ErrorCode.FENCED_INSTANCE_ID: CommitFailed,
    ErrorCode.STALE_MEMBER_EPOCH: CommitFailed,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.UNSUPPORTED_VERSION: UnsupportedByCluster,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExists,
    ErrorCode.INVALID_CONFIG: InvalidConfig,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: OutOfOrderSequence,
    ErrorCode.UNKNOWN_PRODUCER_ID: OutOfOrderSequence,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFenced,
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ProducerFenced,
    ErrorCode.INVALID_TXN_STATE: TransactionAborted,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAborted,
    ErrorCode.OPERATION_NOT_ATTEMPTED: TransactionAborted,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: TransactionNotFound,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupNotFound,
    ErrorCode.NON_EMPTY_GROUP: GroupBusy,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: UnstableOffsets,
}
"""Codes that have an exception of their own; all others have that of their kind."""


def error_for(error_code: ErrorCode, doing: str, detail: str | None = None) -> EaglerayError:
    """Return the exception for a broker's answer, which says what was being done and what the broker said about it."""
    exception = _BY_CODE.get(error_code) or _BY_KIND[error_code.kind]
    return exception(f"{doing}: {detail or error_code.message}", error_code)
