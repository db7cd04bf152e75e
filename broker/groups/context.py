"""What the parts of a group coordinator share: its shards, and the effects of the event at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.events import Effect, LogOffsets, OffsetsCommitted
from eagleray.broker.groups.log_records import apply_change, apply_members, encode_key
from eagleray.broker.groups.membership import LogRecord
from eagleray.broker.groups.shards import Append, Finished, MarkersAppend, OffsetsAppend, Shard, ShardTable
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import MarkersAnswered
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE

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
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""What the log and the transaction coordinator answer, in the words that a committing client understands."""

CODES_FOR_MEMBERS: Final = CODES_FOR_CLIENTS | {ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR}
"""What the log answers, in the words that a member understands."""


class GroupContext:
    """Where effects are collected, and where appends wait for the log.

    Every request is in exactly one place until it is answered: with the append that it asked for, or waiting for the
    verification of its transaction.
    """

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.config = config
        self.new_id = new_id
        self.shards = ShardTable(config.offsets_topic_num_partitions)
        self.appends: dict[int, Append] = {}
        """All that is under way, by token."""
        self._next_token = 0
        self._effects: list[Effect] = []
        self.emit = self._effects.append

    def drain(self) -> list[Effect]:
        """Return the effects so far, in order, and begin a new list."""
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    def reply(self, request_id: int, error_code: ErrorCode) -> None:
        """Answer a commit or a deletion that nothing came of."""
        self.emit(OffsetsCommitted(request_id, CODES_FOR_CLIENTS.get(error_code, error_code)))

    # Tokens: they tell appends apart, and in which order the log has them

    @property
    def next_token(self) -> int:
        """The token of whatever is appended next; nothing that is in a log already has a position so large."""
        return self._next_token

    def begin_behind(self, position: int) -> None:
        """See to it that what is appended from now on counts as later than what was loaded."""
        self._next_token = max(self._next_token, position)

    def track(self, append: Append) -> None:
        """Note that something is on its way to the log."""
        assert append.token == self._next_token, "the order of tokens is that of the log"
        self._next_token += 1
        self.appends[append.token] = append
        append.shard.in_flight.append(append)

    # Offsets

    def log(self, append: OffsetsAppend, records: tuple[tuple[bytes, bytes | None], ...]) -> None:
        """Have offsets logged; they count, and their request is answered, when the log has them."""
        self.track(append)
        shard = append.shard
        self.emit(LogOffsets(shard.offsets_partition, shard.epoch, append.token, records, append.producer))

    def log_tombstones(
        self, shard: Shard, group: str, partitions: list[TopicPartition], answer: OffsetsCommitted | None = None
    ) -> None:
        """Have offsets of a group deleted."""
        changes = tuple((partition, None) for partition in partitions)
        records = tuple((encode_key(group, partition), None) for partition in partitions)
        self.log(OffsetsAppend(shard, self._next_token, group, changes, answer=answer), records)

    def log_members(
        self, shard: Shard, group: str, records: tuple[LogRecord, ...], finished: Finished | None = None
    ) -> None:
        """Have something logged of a group's members; `finished` is told when it counts, or that it never will."""
        self.log(OffsetsAppend(shard, self._next_token, group, (), members=records, finished=finished), records)

    def log_deletion(
        self, shard: Shard, group: str, partitions: list[TopicPartition], answer: OffsetsCommitted | None = None
    ) -> None:
        """Have offsets of a group deleted, and the group itself, which has no members and is live no more.

        Whoever joins meanwhile finds no such group, and what is logged of the new one comes behind the tombstones. If
        they are lost, the group is live again, unless there is a new one.
        """
        gone = shard.live.pop(group, None)
        members = () if gone is None else gone.tombstones()

        def finished(error_code: ErrorCode, now_ms: int) -> None:  # noqa: ARG001 - whenever it is
            if error_code is not _NONE and gone is not None and shard.is_loaded:
                shard.live.setdefault(group, gone)

        changes = tuple((partition, None) for partition in partitions)
        records = (*((encode_key(group, partition), None) for partition in partitions), *members)
        if records:
            append = OffsetsAppend(shard, self._next_token, group, changes, None, answer, members, finished)
            self.log(append, records)
        elif answer is not None:
            self.emit(answer)

    def finish_offsets(self, append: OffsetsAppend, error_code: ErrorCode, now_ms: int) -> None:
        """Let count what is in the log, and answer; what did not get there changes nothing."""
        answer = append.answer
        if error_code is _NONE:
            state, producer, group = append.shard.state, append.producer, append.group
            for partition, offset in append.changes:
                apply_change(state, producer, group, partition, offset)
            for key, value in append.members:
                apply_members(state, key, value)
            if answer is not None:
                self.emit(answer)
        elif answer is not None:
            self.reply(answer.request_id, error_code)
        if append.finished is not None:
            append.finished(error_code, now_ms)

    # Markers

    def finish_markers(self, append: MarkersAppend, error_codes: tuple[ErrorCode, ...], now_ms: int) -> None:
        """Let the markers that are in the log decide over what is pending, and answer if nothing else is missing."""
        request = append.request
        for place, marker, error_code in zip(append.places, append.markers, error_codes, strict=True):
            request.outcomes[place] = error_code
            if error_code is _NONE:
                append.shard.state.end_transaction(
                    marker.producer, marker.coordinator_epoch, now_ms, commit=marker.commit
                )
        request.appends_left -= 1
        if not request.appends_left:
            self.answer_markers(request.request_id, request.outcomes)

    def answer_markers(self, request_id: int, outcomes: list[ErrorCode]) -> None:
        """Answer a request for markers."""
        all_written = all(outcome is _NONE for outcome in outcomes)
        self.emit(MarkersAnswered(request_id, () if all_written else tuple(outcomes)))
