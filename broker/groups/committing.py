"""Commits: offsets on their way to the log, alone or in a transaction that its coordinator knows of."""

from __future__ import annotations

from struct import error as DoesNotFit  # noqa: N812 - it reads as what it is

from eagleray.broker.groups.context import GroupContext
from eagleray.broker.groups.events import (
    OFFSETS_TOPIC,
    Commit,
    CommitOffsets,
    CommitTransactionOffsets,
    OffsetsCommitted,
    OffsetToCommit,
)
from eagleray.broker.groups.log_records import encode_key, encode_value
from eagleray.broker.groups.membership import NO_MEMBERS
from eagleray.broker.groups.shards import OffsetsAppend, Shard
from eagleray.broker.groups.state import StoredOffset
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.partitions.events import TransactionVerified, VerifyTransaction
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class CommitServer:
    """Has offsets logged for those who may commit them.

    The first commit of a transaction waits until the transaction's coordinator has confirmed that it will send a marker
    here, as a partition leader's first batch does. Whether its group takes it is decided after that, when it goes to
    the log: a generation that has ended meanwhile must not commit any more.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._find_shard = context.shards.find

    # Outside of transactions

    def commit(self, request: CommitOffsets, now_ms: int) -> None:
        """Take a consumer's commit."""
        shard = self._find_shard(request.group)
        if not request.group:
            self._context.reply(request.request_id, ErrorCode.INVALID_GROUP_ID)
        elif isinstance(shard, ErrorCode):
            self._context.reply(request.request_id, shard)
        else:
            self._append(shard, request, None, now_ms)

    # In transactions

    def commit_in_transaction(self, request: CommitTransactionOffsets, now_ms: int) -> None:
        """Take a producer's commit, or let it wait until its transaction is verified."""
        shard = self._find_shard(request.group)
        producer = request.producer
        if not request.group:
            self._context.reply(request.request_id, ErrorCode.INVALID_GROUP_ID)
        elif not request.transactional_id or producer.producer_id < 0 or producer.epoch < 0:
            self._context.reply(request.request_id, ErrorCode.INVALID_REQUEST)
        elif isinstance(shard, ErrorCode):
            self._context.reply(request.request_id, shard)
        elif producer.epoch < _newest_epoch(shard, producer.producer_id):
            self._context.reply(request.request_id, ErrorCode.INVALID_PRODUCER_EPOCH)
        elif shard.confirmed.get(producer.producer_id) == producer.epoch:
            self._append(shard, request, producer, now_ms)
        else:
            self._verify(shard, request)

    def _verify(self, shard: Shard, request: CommitTransactionOffsets) -> None:
        producer = request.producer
        waiting_epoch = shard.verifications.epoch_of(producer.producer_id)
        if waiting_epoch is not None and waiting_epoch < producer.epoch:
            # The coordinator's word for the newer producer is not one for the commits of the older.
            for older in shard.verifications.void(producer.producer_id):
                self._context.reply(older.request_id, ErrorCode.INVALID_PRODUCER_EPOCH)
        verification_id = shard.verifications.wait(producer, request)
        if verification_id is not None:
            partition = TopicPartition(OFFSETS_TOPIC, shard.offsets_partition)
            adds_partition = request.transaction_version >= IMPLICIT_VERSION
            self._context.emit(
                VerifyTransaction(verification_id, partition, request.transactional_id, producer, adds_partition)
            )

    def verified(self, event: TransactionVerified, now_ms: int) -> None:
        """Take the coordinator's answer: append what waited for it, or refuse it."""
        shard = self._context.shards.by_partition.get(event.partition.partition)
        if shard is None or event.partition.topic != OFFSETS_TOPIC:
            return
        for request in shard.verifications.answered(event.verification_id, event.producer_id):
            if event.error_code is _NONE:
                shard.confirmed[event.producer_id] = request.producer.epoch
                self._append(shard, request, request.producer, now_ms)
            else:
                self._context.reply(request.request_id, event.error_code)

    # Both

    def _append(self, shard: Shard, request: Commit, producer: ProducerIdentity | None, now_ms: int) -> None:
        error_code = self._check_member(shard, request, now_ms, is_transactional=producer is not None)
        if error_code is not _NONE:
            self._context.reply(request.request_id, error_code)
            return
        token = self._context.next_token
        changes, records, errors = [], [], []
        for offset in request.offsets:
            record = self._encode(request.group, offset, now_ms)
            if isinstance(record, ErrorCode):
                errors.append(record)
                continue
            errors.append(_NONE)
            records.append(record)
            stored = StoredOffset(offset.offset, offset.leader_epoch, offset.metadata, now_ms, token)
            changes.append((offset.partition, stored))
        all_taken = len(records) == len(errors)
        answer = OffsetsCommitted(request.request_id, _NONE, () if all_taken else tuple(errors))
        if records:
            append = OffsetsAppend(shard, token, request.group, tuple(changes), producer, answer)
            self._context.log(append, tuple(records))
        else:
            self._context.emit(answer)

    def _check_member(self, shard: Shard, request: Commit, now_ms: int, *, is_transactional: bool) -> ErrorCode:
        membership = shard.membership_of(request.group)
        if request.generation >= 0 and membership is NO_MEMBERS and request.group not in shard.state.groups:
            return ErrorCode.ILLEGAL_GENERATION
        error_code = membership.check_commit(
            request.generation, request.member_id, request.group_instance_id, is_transactional=is_transactional
        )
        if error_code is ErrorCode.STALE_MEMBER_EPOCH:
            partitions = [offset.partition for offset in request.offsets]
            if membership.may_commit_late(request.generation, request.member_id, partitions):
                error_code = _NONE
        if error_code is _NONE and not is_transactional:
            membership.commit_taken(request.member_id, now_ms)
        return error_code

    def _encode(self, group: str, offset: OffsetToCommit, now_ms: int) -> tuple[bytes, bytes] | ErrorCode:
        """Make the record of an offset, whatever its value: what a client may commit is not for the broker to say."""
        if len(offset.metadata) > self._context.config.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        try:
            return encode_key(group, offset.partition), encode_value(offset, now_ms)
        except DoesNotFit:
            return ErrorCode.INVALID_REQUEST


def _newest_epoch(shard: Shard, producer_id: int) -> int:
    """The newest epoch of a producer that the log has, or that somebody was confirmed with or asks about."""
    known = shard.state.producers.get(producer_id)
    logged = -1 if known is None else known.epoch
    waiting = shard.verifications.epoch_of(producer_id)
    return max(logged, shard.confirmed.get(producer_id, -1), -1 if waiting is None else waiting)
