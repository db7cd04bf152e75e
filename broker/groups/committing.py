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
from eagleray.broker.groups.limits import size_of
from eagleray.broker.groups.log_records import apply_change, encode_key, encode_value
from eagleray.broker.groups.log_writer import NO_PRODUCER_KEY, LogBatch
from eagleray.broker.groups.membership import NO_MEMBERS
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import OffsetsState, StoredOffset
from eagleray.broker.identities import NO_EPOCH, ProducerIdentity, TopicPartition
from eagleray.broker.log.producer_entry import NO_OFFSET, ProducerEntry
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.partitions.events import TransactionVerified, VerifyTransaction
from eagleray.broker.runtime.connection_bindings import NO_QUESTION, ConnectionClosed
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class CommitServer:
    """Logs offsets for the members that may commit them.

    The first commit of a transaction waits until the transaction's coordinator has confirmed that it will send a marker
    here, as a partition leader's first batch does. Whether its group takes it is decided after that, when it goes to
    the log: a generation that has ended meanwhile must not commit any more.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._find_shard = context.shards.find
        self._is_guarded = context.config.transaction_v1_guard.is_on

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
        else:
            self._commit_or_verify(shard, request, now_ms)

    def _commit_or_verify(self, shard: Shard, request: CommitTransactionOffsets, now_ms: int) -> None:
        producer = request.producer
        known = self._context.log.producers(shard.partition).get(producer.producer_id)
        if producer.epoch < _newest_epoch(shard, producer.producer_id, known):
            self._context.reply(request.request_id, ErrorCode.INVALID_PRODUCER_EPOCH, shard)
        elif request.client is not None and self._guard_refuses(shard, request):
            return
        elif (
            known is not None
            and known.epoch == producer.epoch
            and known.open_since_offset != NO_OFFSET
            and producer.producer_id not in shard.latest
        ):
            # The log has something of this transaction, whose coordinator will surely send a marker here.
            self._append(shard, request, producer, now_ms)
        else:
            self._verify(shard, request)

    def _guard_refuses(self, shard: Shard, request: CommitTransactionOffsets) -> bool:
        """Refuse a commit of version 1 that does not come by the connection of its producer.

        One that was held up in the network could not be told from one of the transaction that is open now.
        """
        client, producer_id = request.client, request.producer.producer_id
        if client is None or request.transaction_version >= IMPLICIT_VERSION or not self._is_guarded:
            return False
        if shard.bindings.is_bound(producer_id, client.number):
            return False
        asked_for = frozenset((request.group, offset) for offset in request.offsets)
        question = shard.bindings.question_to(producer_id, client, asked_for)
        if question != NO_QUESTION:
            self._context.ask_again(request.request_id, question)
        return question != NO_QUESTION

    def connection_closed(self, event: ConnectionClosed, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        """Forget a connection, and refuse the commits that have come by it and wait: its client hears nothing."""
        for shard in self._context.shards:
            shard.bindings.closed(event.connection)
            for request in shard.verifications.withdraw(lambda each: _is_of(each, event.connection)):
                self._context.reply(request.request_id, ErrorCode.NETWORK_EXCEPTION)

    def _verify(self, shard: Shard, request: CommitTransactionOffsets) -> None:
        producer = request.producer
        waiting_epoch = shard.verifications.epoch_of(producer.producer_id)
        if waiting_epoch is not None and waiting_epoch < producer.epoch:
            # The coordinator's word for the newer producer is not one for the commits of the older.
            for older in shard.verifications.void(producer.producer_id):
                self._context.reply(older.request_id, ErrorCode.INVALID_PRODUCER_EPOCH, shard)
        verification_id = shard.verifications.wait(producer, request)
        if verification_id is not None:
            partition = TopicPartition(OFFSETS_TOPIC, shard.partition)
            adds_partition = request.transaction_version >= IMPLICIT_VERSION
            self._context.say_at_once(
                VerifyTransaction(verification_id, partition, request.transactional_id, producer, adds_partition)
            )

    def verified(self, event: TransactionVerified, now_ms: int) -> None:
        """Take the coordinator's answer: append what waited for it, or refuse it."""
        shard = self._context.shards.by_partition.get(event.partition.partition)
        if shard is None or event.partition.topic != OFFSETS_TOPIC:
            return
        known = self._context.log.producers(shard.partition).get(event.producer_id)
        waiting = shard.verifications.answered(event.verification_id, event.producer_id)
        for request in waiting:
            if event.error_code is not _NONE:
                self._context.reply(request.request_id, event.error_code)
            elif known is not None and request.producer.epoch < known.epoch:
                self._context.reply(request.request_id, ErrorCode.INVALID_PRODUCER_EPOCH, shard)
            else:
                self._append(shard, request, request.producer, now_ms)
        if event.producer_id in shard.latest:
            shard.decisions.verified(event)
        elif waiting and (known is None or known.open_since_offset == NO_OFFSET):
            shard.decisions.forget(event.producer_id)

    # Both

    def _append(self, shard: Shard, request: Commit, producer: ProducerIdentity | None, now_ms: int) -> None:
        error_code = self._check_member(shard, request, now_ms, is_transactional=producer is not None)
        if error_code is not _NONE:
            self._context.reply(request.request_id, error_code, shard)
            return
        refusal = self._context.refusal(shard)
        if refusal is not _NONE:
            self._context.reply(request.request_id, refusal)
            return
        limits = self._context.limits
        refusal = limits.refusal_of_group(shard, request.group, now_ms)
        if refusal is not _NONE:
            self._context.reply(request.request_id, refusal)
            return
        taken: list[OffsetToCommit] = []
        records, errors = [], []
        group = self._context.offsets_of(shard, request.group)
        size = size_of(group)
        for offset in request.offsets:
            record = self._encode(request.group, offset, now_ms)
            refusal = limits.refusal_of_offset(shard, group, size + len(taken), offset.partition, now_ms)
            if not isinstance(record, ErrorCode) and refusal is not _NONE:
                record = refusal
            if isinstance(record, ErrorCode):
                errors.append(record)
            else:
                errors.append(_NONE)
                taken.append(offset)
                records.append(record)
        if self._context.is_too_large(shard, records):
            self._context.reply(request.request_id, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            return
        if producer is not None and not self._is_remembered(shard, producer, now_ms):
            self._context.reply(request.request_id, ErrorCode.POLICY_VIOLATION)
            return
        if records:
            producer_id = NO_PRODUCER_KEY if producer is None else producer.producer_id
            self._context.runtime.append(shard, producer_id, LogBatch(tuple(records), producer))
            _apply(shard.state, request.group, taken, None if producer is None else producer_id, now_ms)
        all_taken = len(taken) == len(errors)
        self._context.say(shard, OffsetsCommitted(request.request_id, _NONE, () if all_taken else tuple(errors)))

    def _is_remembered(self, shard: Shard, producer: ProducerIdentity, now_ms: int) -> bool:
        """Whether the log knows a producer, or has room for another (`max.producer.ids`)."""
        producers, producer_id = self._context.log.producers(shard.partition), producer.producer_id
        is_known = producers.get(producer_id) is not None or producer_id in shard.latest
        return is_known or producers.limit.has_room(now_ms + self._context.time_set_by_ms)

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
            return encode_key(group, offset.partition), encode_value(offset, now_ms + self._context.time_set_by_ms)
        except DoesNotFit:
            return ErrorCode.INVALID_REQUEST


def _apply(
    state: OffsetsState, group: str, offsets: list[OffsetToCommit], producer_id: int | None, now_ms: int
) -> None:
    for offset in offsets:
        stored = StoredOffset(offset.offset, offset.leader_epoch, offset.metadata, now_ms, state.next_position)
        state.next_position += 1
        apply_change(state, producer_id, group, offset.partition, stored)


def _is_of(request: CommitTransactionOffsets, connection: int) -> bool:
    return request.client is not None and request.client.number == connection


def _newest_epoch(shard: Shard, producer_id: int, known: ProducerEntry | None) -> int:
    """The newest epoch of a producer that the log has, or that a commit which waits was made with."""
    waiting = shard.verifications.epoch_of(producer_id)
    return max(NO_EPOCH if known is None else known.epoch, NO_EPOCH if waiting is None else waiting)
