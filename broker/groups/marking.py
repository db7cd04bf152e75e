"""Markers: the end of a transaction decides over the offsets that it holds."""

from __future__ import annotations

from eagleray.broker.groups.context import GroupContext
from eagleray.broker.groups.events import OFFSETS_TOPIC
from eagleray.broker.groups.shards import Shard
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Marker, last_epoch_ended_by
from eagleray.broker.partitions.events import LastDecisionAnswered, MarkersAnswered, WriteMarkers
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class MarkerServer:
    """Logs the markers of a request, by the rule of the log, and answers when all that it found is committed.

    That goes for a refusal too: the transaction coordinator may take it for a word that no marker is needed any more,
    and what refused it may not be replicated yet.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    def write(self, event: WriteMarkers, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        """Take a transaction coordinator's markers."""
        outcomes: list[ErrorCode] = []
        asked: dict[int, Shard] = {}
        for marker in event.markers:
            for partition in marker.partitions:
                shard = self._find_shard(partition)
                if isinstance(shard, ErrorCode):
                    outcomes.append(shard)
                else:
                    asked[partition.partition] = shard
                    outcomes.append(self._write(shard, marker))
        self._context.runtime.say_of_all(asked.values(), MarkersAnswered(event.request_id, tuple(outcomes)))

    def _find_shard(self, partition: TopicPartition) -> Shard | ErrorCode:
        shard = self._context.shards.by_partition.get(partition.partition)
        if shard is None or partition.topic != OFFSETS_TOPIC:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _write(self, shard: Shard, marker: Marker) -> ErrorCode:
        context, producer_id = self._context, marker.producer.producer_id
        refusal = context.refusal(shard)
        if refusal is not _NONE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if refusal is ErrorCode.NOT_COORDINATOR else refusal
        if producer_id in shard.latest:
            # The log has not heard of what the producer did in this turn: only one of two coordinators, or of two
            # producers, can be right, and by the next attempt the log knows which.
            return ErrorCode.CONCURRENT_TRANSACTIONS
        late = self._refusal_of(shard, marker)
        if late is not _NONE:
            return late
        rejection = context.log.producers(shard.partition).check_marker(marker)
        if rejection is not None:
            return rejection.error_code
        # Whatever the answer will be, it was about a transaction that is over.
        last_epoch = last_epoch_ended_by(marker.producer.epoch, marker.transaction_version)
        for waiting in shard.verifications.void_up_to(producer_id, last_epoch):
            context.reply(waiting.request_id, ErrorCode.INVALID_TXN_STATE, shard)
        shard.decisions.forget(producer_id)
        context.runtime.append(shard, producer_id, marker)
        if not marker.commit or producer_id not in shard.state.undecided:
            # Its client may have given up a commit that is still under way. What tells of the client's new connection
            # is said elsewhere, so the client that commits in the next transaction is asked again.
            shard.bindings.forget(producer_id)
        shard.state.end_transaction(producer_id, commit=marker.commit)
        return _NONE

    def _refusal_of(self, shard: Shard, marker: Marker) -> ErrorCode:
        """Say why a marker is late, or may be; where that is not known, ask and let it come again."""
        unknown = self._context.coordinator_epochs.refusal_of(marker)
        if unknown is not _NONE:
            return unknown
        producer_id = marker.producer.producer_id
        entry = self._context.log.producers(shard.partition).get(producer_id)
        refusal = shard.decisions.refusal_of(marker, entry, shard.verifications.epoch_of(producer_id))
        if isinstance(refusal, ErrorCode):
            return refusal
        self._context.say_at_once(refusal)
        return ErrorCode.CONCURRENT_TRANSACTIONS

    def answered(self, event: LastDecisionAnswered, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        """Take the transaction coordinator's answer about a marker, which will come again."""
        shard = self._context.shards.by_partition.get(event.partition.partition)
        if shard is not None and event.partition.topic == OFFSETS_TOPIC:
            shard.decisions.answered(event)
