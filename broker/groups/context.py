"""What the parts of a group coordinator share: its shards, the log behind them, and where answers are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.consumer.events import ConsumerGroupDescribed, ConsumerHeartbeatAnswered
from eagleray.broker.groups.events import Effect, OffsetsCommitted
from eagleray.broker.groups.limits import GroupLimits
from eagleray.broker.groups.log_records import apply_members, encode_key
from eagleray.broker.groups.log_writer import NO_PRODUCER_KEY, LogBatch, size_of
from eagleray.broker.groups.membership import LogRecord
from eagleray.broker.groups.shards import GroupRuntime, Said, Shard, ShardTable
from eagleray.broker.groups.state import Group
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.partitions.coordinator_epochs import CoordinatorEpochs
from eagleray.broker.partitions.events import AskLastDecision, MarkersAnswered, VerifyTransaction
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE
_NOTHING: Final = Group()

RETRY_MS: Final = 100
"""How soon something that time has made due is tried again, where the log takes nothing."""

CODES_FOR_CLIENTS: Final = {
    # Clients try again after this one without looking for another coordinator, and all of them know it.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""What the transaction coordinator answers, in the words that a committing client understands."""


class OffsetsLog(Protocol):
    """The partitions of `__consumer_offsets`, as the coordinator asks about them before it decides."""

    def check_append(self, partition: int, epoch: int) -> ErrorCode:
        """Say why a partition that is led at an epoch cannot be appended to now, or NONE."""

    def producers(self, partition: int) -> ProducerState:
        """What the log of a partition knows of producers; of those of the turn at hand it knows nothing yet."""

    def largest_batch(self, partition: int) -> int:
        """How large a batch the log of a partition takes."""

    def newest_coordinator_epoch(self) -> int:
        """The newest epoch that a transaction coordinator has had."""


class GroupContext:
    """Where records are appended and take effect, and where answers are given.

    Every request is in exactly one place until it is answered: with the members of its group, waiting for the
    verification of its transaction, or as the answer to it that its shard holds back until the log is committed.
    """

    def __init__(self, config: GroupConfig, new_id: Callable[[], str], log: OffsetsLog) -> None:
        self.config = config
        self.new_id = new_id
        self.log = log
        self.runtime = GroupRuntime(log.check_append, refused)
        self.shards = ShardTable(config.offsets_topic_num_partitions, self.runtime.shards)
        self.time_set_by_ms = 0
        """By how much the times in the log are ahead of those here."""
        self.say = self.runtime.say
        """Say something about a shard, once that on which it rests is committed."""
        self.coordinator_epochs = CoordinatorEpochs(log.newest_coordinator_epoch)
        self.limits = GroupLimits(self)
        self.say_at_once = self.runtime.say_at_once
        """Say what rests on nothing that the log has."""

    def end_turn(self) -> list[Effect]:
        """Return what the events of a turn have made necessary, in order, and begin another."""
        said, appends = self.runtime.end_turn()
        return [*said, *appends]

    def reply(self, request_id: int, error_code: ErrorCode, shard: Shard | None = None) -> None:
        """Answer a commit or a deletion that nothing came of, at once or, of a shard, when that is committed."""
        answer = OffsetsCommitted(request_id, CODES_FOR_CLIENTS.get(error_code, error_code))
        if shard is None:
            self.say_at_once(answer)
        else:
            self.say(shard, answer)

    def ask_again(self, request_id: int, question: int) -> None:
        """Refuse a commit with a question of the connection guard, which the client answers by repeating the commit."""
        self.say_at_once(OffsetsCommitted(request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, question=question))

    # Appends: what is appended takes effect at once

    def refusal(self, shard: Shard) -> ErrorCode:
        """Why nothing can be logged in this turn, or NONE; asked before anything changes."""
        refusal = self.runtime.refusal(shard)
        if refusal is _NONE and shard.deleted_topics:
            self._delete_topics(shard)
        return refusal

    def is_too_large(self, shard: Shard, records: Iterable[LogRecord]) -> bool:
        """Whether records that belong together are more than one batch may hold."""
        return size_of(records) > self.log.largest_batch(shard.partition)

    def log_members(self, shard: Shard, records: tuple[LogRecord, ...]) -> None:
        """Log what becomes of a group's members."""
        self.runtime.append(shard, NO_PRODUCER_KEY, LogBatch(records))
        for key, value in records:
            apply_members(shard.state, key, value)

    def log_tombstones(self, shard: Shard, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete offsets of a group."""
        for partition in partitions:
            self.runtime.append(shard, NO_PRODUCER_KEY, LogBatch(((encode_key(group, partition), None),)))
            shard.state.remove(group, partition)

    def log_deletion(self, shard: Shard, group: str, partitions: Iterable[TopicPartition] = ()) -> None:
        """Delete offsets of a group, and the group itself, which has no members and is live no more."""
        self.log_tombstones(shard, group, partitions)
        gone = shard.live.pop(group, None)
        tombstones = () if gone is None else gone.tombstones()
        if tombstones:
            self.log_members(shard, tombstones)

    # Deleted topics

    def delete_topics(self, shard: Shard, topics: Iterable[str]) -> None:
        """Delete the offsets of topics, or do it as soon as the log takes something: a later topic has none of them."""
        shard.deleted_topics.update(topics)
        if shard.is_loaded:
            self.refusal(shard)

    def _delete_topics(self, shard: Shard) -> None:
        topics, shard.deleted_topics = shard.deleted_topics, set()
        for name, group in [*shard.state.groups.items()]:
            self.log_tombstones(shard, name, [each for each in group.partitions() if each.topic in topics])

    # Offsets

    def offsets_of(self, shard: Shard, group: str) -> Group:
        """Return the offsets of a group, which may be none."""
        return shard.state.groups.get(group, _NOTHING)


def refused(said: Said, error_code: ErrorCode) -> Said | None:
    """What takes the place of something that rests on a shard which is thrown away."""
    assert not isinstance(said, VerifyTransaction | AskLastDecision), "a question is asked at once"
    if isinstance(said, MarkersAnswered):
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if error_code is ErrorCode.NOT_COORDINATOR else error_code
        return MarkersAnswered(said.request_id, (code,) * len(said.error_codes))
    if isinstance(said, ConsumerHeartbeatAnswered | ConsumerGroupDescribed):
        return type(said)(said.request_id, error_code, error_code.message)
    return type(said)(said.request_id, error_code)
