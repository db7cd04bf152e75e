"""Records of the transaction log: a transactional id as the key, a snapshot as the value, in Kafka's own format.

Kafka's `TransactionLogValue` lacks what a coordinator should still know after a restart: the epoch before the current
one, without which a producer that repeats a request is taken for a stranger, the branches and tags of transactions with
many writers, what is prepared, where a producer comes from, and to whom a slot of a pool belongs. They travel in tagged
fields of ours, which other readers skip.

Most records have one of few shapes. Those are packed and unpacked here in one go, because a transaction writes three of
them and a recovery reads all there are; the codec does the rest. What both write is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from struct import Struct as Packing
from typing import Annotated, Final

from eagleray.broker.identities import NO_EPOCH, NO_PRODUCER_ID, TopicPartition
from eagleray.broker.log import Appended
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.transactions.branches.records import decode_branching, encode_branching
from eagleray.broker.transactions.origin import ORIGIN_BYTES
from eagleray.broker.transactions.pools.owner import OWNER_BYTES, decode_owner, encode_owner
from eagleray.broker.transactions.preparation import decode_preparation, encode_preparation
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.codec import MalformedMessage, decode_versioned, encode_versioned, read_prefix
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.annotations import Int16, Since, Tagged
from eagleray.protocol.messages.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue

VALUE_VERSION: Final = 1
NEVER_LOGGED: Final = (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)


class LoggedTransaction(TransactionLogValue, frozen=True):
    """Kafka's record with fields of ours, far behind the tags that Kafka may come to use."""

    last_producer_epoch: Annotated[Int16, Since(VALUE_VERSION), Tagged(100)] = NO_EPOCH
    branching: Annotated[bytes, Since(VALUE_VERSION), Tagged(101)] = b""
    preparation: Annotated[bytes, Since(VALUE_VERSION), Tagged(102)] = b""
    origin: Annotated[bytes, Since(VALUE_VERSION), Tagged(103)] = b""
    owner: Annotated[bytes, Since(VALUE_VERSION), Tagged(104)] = b""


_KEY_TYPE = TransactionLogKey.wire.record_type
_KEY_HEAD = Packing(">hh")
_EMPTY = TransactionState.EMPTY
_STATES = list(TransactionState)

# A value is a head, the partitions, the two times, and the tagged fields behind their count.
_HEAD = Packing(">hqhib")
_TAIL_WITH_VERSION = Packing(">qq3bh")
_TAIL_WITH_LAST_EPOCH = Packing(">qq3bh2bh")
_WITHOUT_PARTITIONS = Packing(f"{_HEAD.format}bqq")
_NO_TAGS = b"\0"
_COMMON_TAGS = 64 + ORIGIN_BYTES + OWNER_BYTES
"""Tagged fields beyond this have branches among them, and are those of no other record."""
_NULL = b"\0"
_BARE = encode_versioned(LoggedTransaction(transaction_partitions=None), VALUE_VERSION)[: _WITHOUT_PARTITIONS.size]


def _tag_head(message: LoggedTransaction, size_bytes: int) -> bytes:
    """Give what stands before the one tagged field of a message: its tag and its length."""
    return encode_versioned(message, VALUE_VERSION)[len(_BARE) + len(_NO_TAGS) : -size_bytes]


def _origin_head(size_bytes: int) -> bytes:
    return _tag_head(LoggedTransaction(transaction_partitions=None, origin=bytes(size_bytes)), size_bytes)


_ORIGIN_HEADS = (b"", *map(_origin_head, range(1, ORIGIN_BYTES + 1)))
_OWNER_HEAD = _tag_head(LoggedTransaction(transaction_partitions=None, owner=bytes(OWNER_BYTES)), OWNER_BYTES)


@lru_cache(maxsize=16_384)
def encode_key(transactional_id: str) -> bytes:
    """Give the key under which a transactional id is kept."""
    name = transactional_id.encode()
    return _KEY_HEAD.pack(_KEY_TYPE, len(name)) + name


def encode_value(snapshot: Snapshot) -> bytes:
    """Give the value that keeps a snapshot."""
    assert snapshot.state not in NEVER_LOGGED, f"{snapshot.state.name} is never logged"
    origin, origin_bytes = snapshot.origin, len(snapshot.origin)
    is_common = (
        snapshot.client_version
        and snapshot.previous_producer_id == NO_PRODUCER_ID
        and snapshot.next_producer_id == NO_PRODUCER_ID
        and snapshot.next_producer_epoch == NO_EPOCH
        and snapshot.branching is None
        and snapshot.preparation is None
        and origin_bytes <= ORIGIN_BYTES
    )
    if not is_common:
        return encode_versioned(_to_message(snapshot), VALUE_VERSION)
    head = _HEAD.pack(VALUE_VERSION, snapshot.producer_id, snapshot.producer_epoch, snapshot.timeout_ms, snapshot.state)
    partitions = _NULL if snapshot.state is _EMPTY else _encode_partitions(snapshot.partitions)
    updated_ms, start_ms, version = snapshot.updated_ms, snapshot.start_ms, snapshot.client_version
    # How many tagged fields there are, then each with its tag and its length.
    count, last_epoch = 2 if origin else 1, snapshot.last_producer_epoch
    owner = b""
    if snapshot.owner is not None:
        count += 1
        owner = _OWNER_HEAD + encode_owner(snapshot.owner)
    if last_epoch == NO_EPOCH:
        tail = _TAIL_WITH_VERSION.pack(updated_ms, start_ms, count, 2, 2, version)
    else:
        tail = _TAIL_WITH_LAST_EPOCH.pack(updated_ms, start_ms, count + 1, 2, 2, version, 100, 2, last_epoch)
    return head + partitions + tail + _ORIGIN_HEADS[origin_bytes] + origin + owner


def decode_value(value: bytes) -> Snapshot:
    """Read a snapshot. Raises UnsupportedVersion or MalformedMessage."""
    size = _WITHOUT_PARTITIONS.size
    if len(value) <= size:
        return _from_message(decode_versioned(LoggedTransaction, value))
    version, producer_id, epoch, timeout_ms, status, partitions, updated_ms, start_ms = _WITHOUT_PARTITIONS.unpack_from(
        value
    )
    if version != VALUE_VERSION or partitions not in (0, 1):
        return _from_message(decode_versioned(LoggedTransaction, value))
    section = value[size:]
    tagged = _decode_tags(section) if len(section) <= _COMMON_TAGS else _decode_tags.__wrapped__(section)
    return Snapshot(
        state=_state_of(status),
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=tagged.last_producer_epoch,
        previous_producer_id=tagged.previous_producer_id,
        next_producer_id=tagged.next_producer_id,
        next_producer_epoch=tagged.next_producer_epoch,
        timeout_ms=timeout_ms,
        start_ms=start_ms,
        updated_ms=updated_ms,
        client_version=tagged.client_transaction_version,
        branching=decode_branching(tagged.branching) if tagged.branching else None,
        preparation=decode_preparation(tagged.preparation) if tagged.preparation else None,
        origin=tagged.origin,
        owner=decode_owner(tagged.owner) if tagged.owner else None,
    )


def replay(records: Iterable[tuple[bytes, bytes | None]]) -> dict[str, Snapshot]:
    """Give what a log comes to: the last value of each key, and nothing where that is a tombstone.

    Keys of a type that is not known here are skipped: a newer version may have left them.
    """
    latest: dict[bytes, bytes] = {}
    for key, value in records:
        if value is None:
            latest.pop(key, None)
        else:
            latest[key] = value
    return {
        decode_versioned(TransactionLogKey, key).transactional_id: decode_value(value)
        for key, value in latest.items()
        if read_prefix(key) == _KEY_TYPE
    }


@lru_cache(maxsize=4096)
def _encode_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    """Give the partitions alone; a producer writes to the same ones again and again."""
    whole = encode_versioned(LoggedTransaction(transaction_partitions=_by_topic(partitions)), VALUE_VERSION)
    return whole[_HEAD.size : len(_NO_TAGS) + _HEAD.size - _WITHOUT_PARTITIONS.size - len(_NULL)]


@lru_cache(maxsize=4096)
def _decode_tags(section: bytes) -> LoggedTransaction:
    """Read the tagged fields alone, of which most records have the same."""
    return decode_versioned(LoggedTransaction, _BARE + section)


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[PartitionsSchema, ...]:
    return tuple(
        PartitionsSchema(topic=topic, partition_ids=tuple(member.partition for member in members))
        for topic, members in groupby(sorted(partitions), key=attrgetter("topic"))
    )


def _to_message(snapshot: Snapshot) -> LoggedTransaction:
    return LoggedTransaction(
        producer_id=snapshot.producer_id,
        previous_producer_id=snapshot.previous_producer_id,
        next_producer_id=snapshot.next_producer_id,
        producer_epoch=snapshot.producer_epoch,
        next_producer_epoch=snapshot.next_producer_epoch,
        transaction_timeout_ms=snapshot.timeout_ms,
        transaction_status=snapshot.state,
        transaction_partitions=None if snapshot.state is _EMPTY else _by_topic(snapshot.partitions),
        transaction_last_update_timestamp_ms=snapshot.updated_ms,
        transaction_start_timestamp_ms=snapshot.start_ms,
        client_transaction_version=snapshot.client_version,
        last_producer_epoch=snapshot.last_producer_epoch,
        branching=encode_branching(snapshot.branching),
        preparation=encode_preparation(snapshot.preparation),
        origin=snapshot.origin,
        owner=encode_owner(snapshot.owner),
    )


def _from_message(message: LoggedTransaction) -> Snapshot:
    return Snapshot(
        state=_state_of(message.transaction_status),
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
        last_producer_epoch=message.last_producer_epoch,
        previous_producer_id=message.previous_producer_id,
        next_producer_id=message.next_producer_id,
        next_producer_epoch=message.next_producer_epoch,
        timeout_ms=message.transaction_timeout_ms,
        partitions=frozenset(
            TopicPartition(of_topic.topic, partition)
            for of_topic in message.transaction_partitions or ()
            for partition in of_topic.partition_ids
        ),
        start_ms=message.transaction_start_timestamp_ms,
        updated_ms=message.transaction_last_update_timestamp_ms,
        client_version=message.client_transaction_version,
        branching=decode_branching(message.branching),
        preparation=decode_preparation(message.preparation),
        origin=message.origin,
        owner=decode_owner(message.owner),
    )


def _state_of(status: int) -> TransactionState:
    if not 0 <= status < len(_STATES) or _STATES[status] in NEVER_LOGGED:
        raise MalformedMessage(TransactionLogValue.__name__, None, f"no transaction is logged in state {status}")
    return _STATES[status]


def append_transitions(
    leader: ReplicationLeader, transitions: Sequence[tuple[str, Snapshot | None]], now_ms: int
) -> bool:
    """Append transitions, and say whether the log has taken all of them. Raises LogWriteFailed.

    It is one batch and one write, unless that is too large: very many ids may expire in one turn. Where this fails, the
    log may have some of them.
    """
    records = [
        (encode_key(name), None if snapshot is None else encode_value(snapshot)) for name, snapshot in transitions
    ]
    return _append(leader, records, now_ms)


def _append(leader: ReplicationLeader, records: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> bool:
    result = leader.append_records(records, now_ms)
    if isinstance(result, Appended):
        return True
    if result.error_code is not ErrorCode.MESSAGE_TOO_LARGE or len(records) == 1:
        return False
    middle = len(records) // 2
    return _append(leader, records[:middle], now_ms) and _append(leader, records[middle:], now_ms)
