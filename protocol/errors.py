"""Kafka's error codes, what a client does about each, and the exceptions of this package.

The numbers and names are Kafka's. Which of them a client may retry follows Kafka's own Java client; the
other groups are described from the place of a transactional producer, because that is where the choice
between trying again, aborting and giving up decides about correctness.
"""

from __future__ import annotations

import enum
from typing import Self


class ErrorKind(enum.Enum):
    """What a client that receives a code has to do about it.

    A code has one kind, although a few mean more than one thing: INVALID_PRODUCER_EPOCH from a coordinator
    ends the producer, but from a partition leader the transaction can still be aborted (KIP-588). Such
    codes have the kind of the graver case.
    """

    NONE = "none"
    """The operation succeeded."""
    RETRIABLE = "retriable"
    """The same request may succeed later; send it again after a pause."""
    REFRESH_RETRIABLE = "refresh-retriable"
    """The request went to the wrong place: find the leader, coordinator or controller again, then retry."""
    ABORTABLE = "abortable"
    """The transaction can no longer commit. Once it is aborted, the producer can begin another."""
    FATAL = "fatal"
    """The producer can do nothing more, not even abort; a new one has to take its place."""
    EXPECTED = "expected"
    """No failure but a step of the conversation: the code itself says what the client does next."""
    INVALID = "invalid"
    """This one request was refused for what it asked. Asking again changes nothing; other requests go on."""


_NONE = ErrorKind.NONE
_RETRY = ErrorKind.RETRIABLE
_REFRESH = ErrorKind.REFRESH_RETRIABLE
_ABORT = ErrorKind.ABORTABLE
_FATAL = ErrorKind.FATAL
_EXPECTED = ErrorKind.EXPECTED
_INVALID = ErrorKind.INVALID


class ErrorCode(enum.IntEnum):
    """Every error code of Kafka 4.3, each with its kind and a sentence for people."""

    _value_: int
    kind: ErrorKind
    message: str

    # The defaults are for type checkers only, which take the lookup ErrorCode(3) for a construction.
    def __new__(cls, number: int, kind: ErrorKind = ErrorKind.NONE, message: str = "") -> Self:  # noqa: D102
        member = int.__new__(cls, number)
        member._value_ = number
        member.kind = kind
        member.message = message
        return member

    UNKNOWN_SERVER_ERROR = -1, _FATAL, "Something failed on the server that no other code describes."
    NONE = 0, _NONE, "No error."
    OFFSET_OUT_OF_RANGE = 1, _EXPECTED, "The log does not hold this offset, or no longer does."
    CORRUPT_MESSAGE = 2, _RETRY, "The bytes of the batch are damaged, or do not match their checksum."
    UNKNOWN_TOPIC_OR_PARTITION = 3, _REFRESH, "This broker knows no such topic or partition."
    INVALID_FETCH_SIZE = 4, _INVALID, "The number of bytes to fetch makes no sense."
    LEADER_NOT_AVAILABLE = 5, _REFRESH, "The partition has no leader at the moment; one is being elected."
    NOT_LEADER_OR_FOLLOWER = 6, _REFRESH, "Another broker leads this partition or holds its replica."
    REQUEST_TIMED_OUT = 7, _RETRY, "The request was not finished in the time that it allowed."
    BROKER_NOT_AVAILABLE = 8, _INVALID, "The broker that the request needs is not there."
    REPLICA_NOT_AVAILABLE = 9, _REFRESH, "The replica that the request needs is not there."
    MESSAGE_TOO_LARGE = 10, _ABORT, "The record or batch is larger than the topic allows."
    STALE_CONTROLLER_EPOCH = 11, _INVALID, "The request comes from a controller that has been replaced."
    OFFSET_METADATA_TOO_LARGE = 12, _ABORT, "The text stored beside the committed offset is too long."
    NETWORK_EXCEPTION = 13, _REFRESH, "The connection ended before the answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRY, "The coordinator is still reading its log."
    COORDINATOR_NOT_AVAILABLE = 15, _REFRESH, "No coordinator serves this group or transactional id now."
    NOT_COORDINATOR = 16, _REFRESH, "Another broker coordinates this group or transactional id."
    INVALID_TOPIC_EXCEPTION = 17, _ABORT, "The topic's name is not allowed, or the topic is not for clients."
    RECORD_LIST_TOO_LARGE = 18, _ABORT, "The batch does not fit into one segment of the log."
    NOT_ENOUGH_REPLICAS = 19, _RETRY, "Too few replicas are in sync, so nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _RETRY, "The records were written, but to too few replicas in sync."
    INVALID_REQUIRED_ACKS = 21, _ABORT, "The required acknowledgements are not one of -1, 0 and 1."
    ILLEGAL_GENERATION = 22, _ABORT, "The group has moved on to another generation than the member's."
    INCONSISTENT_GROUP_PROTOCOL = 23, _INVALID, "The member shares no protocol with the rest of its group."
    INVALID_GROUP_ID = 24, _INVALID, "The group id is not one that can be used."
    UNKNOWN_MEMBER_ID = 25, _ABORT, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, _INVALID, "The session timeout is outside what the broker allows."
    REBALANCE_IN_PROGRESS = 27, _EXPECTED, "The group is rebalancing; the member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, _INVALID, "The offsets to commit take more bytes than the broker allows."
    TOPIC_AUTHORIZATION_FAILED = 29, _ABORT, "The client may not do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, _ABORT, "The client may not do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, _FATAL, "The client may not do this with the cluster."
    INVALID_TIMESTAMP = 32, _ABORT, "A record's timestamp is not one that the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, _FATAL, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, _FATAL, "The request does not fit the state of the SASL handshake."
    UNSUPPORTED_VERSION = 35, _FATAL, "The broker does not serve this version of the request."
    TOPIC_ALREADY_EXISTS = 36, _INVALID, "There is a topic of this name already."
    INVALID_PARTITIONS = 37, _INVALID, "The number of partitions makes no sense."
    INVALID_REPLICATION_FACTOR = 38, _INVALID, "The replication factor is below one, or more than the brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, _INVALID, "The replicas cannot be placed as the request asks."
    INVALID_CONFIG = 40, _INVALID, "A configuration key or its value is not accepted."
    NOT_CONTROLLER = 41, _REFRESH, "Another broker is the controller."
    INVALID_REQUEST = 42, _FATAL, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, _FATAL, "The format of the records does not allow this."
    POLICY_VIOLATION = 44, _INVALID, "A policy of the cluster forbids this."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _ABORT, "The batch does not follow on the producer's last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, _EXPECTED, "The batch was written before, too long ago to know where."
    INVALID_PRODUCER_EPOCH = 47, _FATAL, "The producer's epoch is older than the current one."
    INVALID_TXN_STATE = 48, _FATAL, "The transaction is in a state in which this cannot be done."
    INVALID_PRODUCER_ID_MAPPING = 49, _ABORT, "The producer id does not belong to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, _FATAL, "The transaction timeout is not positive, or above the maximum."
    CONCURRENT_TRANSACTIONS = 51, _RETRY, "An earlier step of the same transaction is still being finished."
    TRANSACTION_COORDINATOR_FENCED = 52, _FATAL, "A newer coordinator has taken over this producer."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FATAL, "The client may not use this transactional id."
    SECURITY_DISABLED = 54, _INVALID, "The broker runs without the security feature that this needs."
    OPERATION_NOT_ATTEMPTED = 55, _ABORT, "Not tried, because another part of the same request failed."
    KAFKA_STORAGE_ERROR = 56, _REFRESH, "The broker's disk failed."
    LOG_DIR_NOT_FOUND = 57, _INVALID, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, _FATAL, "The credentials were not accepted."
    UNKNOWN_PRODUCER_ID = 59, _ABORT, "The partition knows nothing of this producer id, or no longer does."
    REASSIGNMENT_IN_PROGRESS = 60, _INVALID, "The partition's replicas are being moved."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _INVALID, "The broker does not use delegation tokens."
    DELEGATION_TOKEN_NOT_FOUND = 62, _INVALID, "The broker knows no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _INVALID, "The delegation token belongs to another owner."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, _INVALID, "This connection cannot ask for delegation tokens."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _INVALID, "The client may not do this with the token."
    DELEGATION_TOKEN_EXPIRED = 66, _INVALID, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, _INVALID, "The broker does not know this type of principal."
    NON_EMPTY_GROUP = 68, _INVALID, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, _INVALID, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRY, "The broker has forgotten the fetch session; begin a new one."
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRY, "The fetch session is at another epoch; begin a new one."
    LISTENER_NOT_FOUND = 72, _REFRESH, "The leader has no listener of the name that this request came in by."
    TOPIC_DELETION_DISABLED = 73, _INVALID, "Topics cannot be deleted on this cluster."
    FENCED_LEADER_EPOCH = 74, _REFRESH, "The request names a leader epoch that is past."
    UNKNOWN_LEADER_EPOCH = 75, _RETRY, "The request names a leader epoch that is news to this broker."
    UNSUPPORTED_COMPRESSION_TYPE = 76, _ABORT, "The compression codec is not known or not allowed here."
    STALE_BROKER_EPOCH = 77, _INVALID, "The broker has registered again since this request was made."
    OFFSET_NOT_AVAILABLE = 78, _RETRY, "A new leader does not yet know how far the log is committed."
    MEMBER_ID_REQUIRED = 79, _EXPECTED, "The member has to join again with the id that it was just given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _REFRESH, "The preferred leader is not in sync."
    GROUP_MAX_SIZE_REACHED = 81, _INVALID, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, _ABORT, "A newer member has taken over this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _REFRESH, "No replica that could lead the partition is there."
    ELECTION_NOT_NEEDED = 84, _REFRESH, "The partition already has the leader that an election would give it."
    NO_REASSIGNMENT_IN_PROGRESS = 85, _INVALID, "The partition's replicas are not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _INVALID, "The group is subscribed to the topic whose offsets should go."
    INVALID_RECORD = 87, _ABORT, "The broker's checks refused the record."
    UNSTABLE_OFFSET_COMMIT = 88, _RETRY, "A transaction that is still open holds offsets of this group."
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRY, "The client has used up its quota for now."
    PRODUCER_FENCED = 90, _FATAL, "A newer producer has taken over this transactional id."
    RESOURCE_NOT_FOUND = 91, _INVALID, "The request names something that does not exist."
    DUPLICATE_RESOURCE = 92, _INVALID, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, _INVALID, "The new credential does not meet the rules for credentials."
    INCONSISTENT_VOTER_SET = 94, _INVALID, "Sender and receiver do not agree on who votes."
    INVALID_UPDATE_VERSION = 95, _INVALID, "The update does not apply to the current version."
    FEATURE_UPDATE_FAILED = 96, _INVALID, "The finalized features could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FATAL, "The principal of a forwarded request could not be read."
    SNAPSHOT_NOT_FOUND = 98, _INVALID, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, _INVALID, "The position is not inside the snapshot."
    UNKNOWN_TOPIC_ID = 100, _REFRESH, "This broker knows no topic with this id."
    DUPLICATE_BROKER_REGISTRATION = 101, _FATAL, "Another broker is registered under this id."
    BROKER_ID_NOT_REGISTERED = 102, _FATAL, "No broker is registered under this id."
    INCONSISTENT_TOPIC_ID = 103, _REFRESH, "The log belongs to a topic with another id."
    INCONSISTENT_CLUSTER_ID = 104, _FATAL, "The request was meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, _INVALID, "The coordinator knows no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRY, "The fetch session mixes topic names and topic ids."
    INELIGIBLE_REPLICA = 107, _INVALID, "A replica that should join the in-sync set may not."
    NEW_LEADER_ELECTED = 108, _EXPECTED, "The change was made, and the partition has a new leader by it."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _EXPECTED, "The offset is only in remote storage now."
    FENCED_MEMBER_EPOCH = 110, _EXPECTED, "The member was fenced: it gives up its partitions and joins again."
    UNRELEASED_INSTANCE_ID = 111, _INVALID, "Another member still holds this group instance id."
    UNSUPPORTED_ASSIGNOR = 112, _INVALID, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, _ABORT, "The member's epoch is past; it learns the new one by a heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, _INVALID, "The request belongs to the other type of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, _INVALID, "This type of endpoint is not served."
    UNKNOWN_CONTROLLER_ID = 116, _INVALID, "There is no controller with this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, _EXPECTED, "The telemetry subscription is out of date; ask for a new one."
    TELEMETRY_TOO_LARGE = 118, _INVALID, "The telemetry takes more bytes than the broker accepts."
    INVALID_REGISTRATION = 119, _FATAL, "The controller does not accept the broker's registration."
    TRANSACTION_ABORTABLE = 120, _ABORT, "The transaction has failed; abort it, then go on."
    INVALID_RECORD_STATE = 121, _INVALID, "The record is not in a state in which it can be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, _RETRY, "The broker has forgotten the share session; begin a new one."
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRY, "The share session is at another epoch; begin a new one."
    FENCED_STATE_EPOCH = 124, _INVALID, "The state of the share group is at another epoch."
    INVALID_VOTER_KEY = 125, _INVALID, "The voter's key is not that of the replica that was asked."
    DUPLICATE_VOTER = 126, _INVALID, "This voter votes already."
    VOTER_NOT_FOUND = 127, _INVALID, "There is no such voter."
    INVALID_REGULAR_EXPRESSION = 128, _INVALID, "The regular expression cannot be parsed."
    REBOOTSTRAP_REQUIRED = 129, _EXPECTED, "The client's metadata is useless; it begins at its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, _INVALID, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _INVALID, "The topology differs from the group's at the same epoch."
    STREAMS_TOPOLOGY_FENCED = 132, _INVALID, "The group has moved on to a newer topology."
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRY, "The broker keeps as many share sessions as it may."

    @classmethod
    def from_wire(cls, number: int) -> ErrorCode:
        """Return the code with this number, or UNKNOWN_SERVER_ERROR when it is newer than this table."""
        try:
            return cls(number)
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR

    @property
    def is_retriable(self) -> bool:
        """Whether the same request can succeed when it is sent again, perhaps to another broker."""
        return self.kind is _RETRY or self.kind is _REFRESH


class ProtocolError(Exception):
    """Bytes or a request that the protocol does not allow.

    It carries the code that answers them on the wire, survives pickling, and is the only exception that
    decoding raises, whatever the bytes.
    """

    error_code: ErrorCode = ErrorCode.INVALID_REQUEST

    def __init__(self, text: str, error_code: ErrorCode | None = None) -> None:
        super().__init__(text)
        if error_code is not None:
            self.error_code = error_code


class CorruptRecord(ProtocolError):
    """A record batch whose bytes are damaged: a torn end, impossible lengths, a wrong checksum."""

    error_code = ErrorCode.CORRUPT_MESSAGE


class UnsupportedMessageFormat(ProtocolError):
    """A message set of the formats before record batches (magic 0 and 1)."""

    error_code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class InvalidRecord(ProtocolError):
    """A batch that arrived as it was sent, but that a correct client would not have built."""

    error_code = ErrorCode.INVALID_RECORD


class InvalidTimestamp(InvalidRecord):
    """A batch of a client that claims a timestamp which only a broker may set."""

    error_code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedCompression(ProtocolError):
    """A batch that names a compression codec which does not exist."""

    error_code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class RecordTooLarge(ProtocolError):
    """Records that are larger than the reader allows, above all when they would unpack to too much."""

    error_code = ErrorCode.MESSAGE_TOO_LARGE
