"""The leader of one partition."""

from __future__ import annotations

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import Appended, Isolation, NewMarker, OffsetOutOfRange, PartitionLog, Rejection
from eagleray.broker.log.producer_state import NO_OFFSET
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.partitions.events import (
    Effect,
    FetchedPartition,
    FetchPartition,
    Produce,
    Produced,
    TransactionVerified,
    VerifyTransaction,
)
from eagleray.broker.partitions.verification import Verifications
from eagleray.protocol.errors import ErrorCode, InvalidRecord, ProtocolError
from eagleray.protocol.records import RecordBatch, check_client_batch, split_batches

NO_LEADER_EPOCH = -1


class _Request(msgspec.Struct, frozen=True):
    """A produce request with its one batch, decoded and checked."""

    event: Produce
    batch: RecordBatch


class PartitionLeader:
    """Takes batches and markers for one partition at one leader epoch, and serves reads of it.

    Owns: the partition's log. Persists: what the log persists, before it answers. Batches that came since the last
    `write` are appended together; a transaction's first batch waits until its coordinator has confirmed it.
    On failure of the disk: LogError ends the actor, and whoever has no answer asks again.
    """

    def __init__(self, partition: TopicPartition, log: PartitionLog, leader_epoch: int) -> None:
        self.partition = partition
        self.log = log
        self.leader_epoch = leader_epoch
        self._verifications: Verifications[_Request] = Verifications()
        self._staged: list[_Request] = []

    # Produce

    def produce(self, event: Produce) -> list[Effect]:
        """Stage a batch for the next `write`, let it wait for its verification, or refuse it at once."""
        try:
            batch = _only_batch(event.records)
        except ProtocolError as error:
            return [_refused(event, error.error_code, str(error))]
        request = _Request(event, batch)
        if not batch.header.is_transactional:
            self._staged.append(request)
            return []
        if event.transactional_id is None:
            message = "a transactional batch came without a transactional id"
            return [_refused(event, ErrorCode.INVALID_REQUEST, message)]
        return self._produce_in_transaction(request, event.transactional_id)

    def _produce_in_transaction(self, request: _Request, transactional_id: str) -> list[Effect]:
        header = request.batch.header
        producer = ProducerIdentity(header.producer_id, header.producer_epoch)
        waiting_epoch = self._verifications.epoch_of(producer.producer_id)
        if waiting_epoch is None and not self._must_verify(producer, request.batch):
            self._staged.append(request)
            return []
        if waiting_epoch is not None and producer.epoch < waiting_epoch:
            return [_superseded(request)]
        effects: list[Effect] = []
        if waiting_epoch is not None and producer.epoch > waiting_epoch:
            # The coordinator's word for the newer producer is not one for the batches of the older.
            effects += [_superseded(older) for older in self._verifications.void(producer.producer_id)]
        verification_id = self._verifications.wait(producer, request)
        if verification_id is not None:
            adds_partition = request.event.transaction_version >= IMPLICIT_VERSION
            effects.append(
                VerifyTransaction(verification_id, self.partition, transactional_id, producer, adds_partition)
            )
        return effects

    def _must_verify(self, producer: ProducerIdentity, batch: RecordBatch) -> bool:
        entry = self.log.producers.get(producer.producer_id)
        if entry is None or producer.epoch > entry.epoch:
            return True
        if producer.epoch < entry.epoch or entry.open_since_offset != NO_OFFSET:
            # The log refuses the one by itself; the other goes on with a transaction that was confirmed.
            return False
        return entry.find_duplicate(batch.header) is None

    def verified(self, event: TransactionVerified) -> list[Effect]:
        """Take the coordinator's answer: stage what waited for it, or refuse it."""
        waiting = self._verifications.answered(event.verification_id, event.producer_id)
        if event.error_code is ErrorCode.NONE:
            self._staged += waiting
            return []
        return [
            _refused(request.event, event.error_code, "the transaction's coordinator did not confirm it")
            for request in waiting
        ]

    def write(self, now_ms: int) -> list[Effect]:
        """Append everything that was staged with one write, and answer."""
        if not self._staged:
            return []
        staged, self._staged = self._staged, []
        batches = [request.batch for request in staged]
        results = self.log.append(batches, leader_epoch=self.leader_epoch, now_ms=now_ms)
        self._replicated()
        return [
            self._answer(request.event, result)
            for request, result in zip(staged, results, strict=True)
            if request.event.acks != 0
        ]

    def _answer(self, event: Produce, result: Appended | Rejection) -> Produced:
        if isinstance(result, Rejection):
            return _refused(event, result.error_code, result.message)
        return Produced(
            event.request_id, ErrorCode.NONE, result.base_offset, result.append_time_ms, self.log.log_start_offset
        )

    def resign(self) -> list[Effect]:
        """Answer everybody whose batch is not in the log: another leader takes it."""
        waiting = [*self._staged, *self._verifications.void_all()]
        self._staged = []
        message = "this leader has resigned"
        return [_refused(request.event, ErrorCode.NOT_LEADER_OR_FOLLOWER, message) for request in waiting]

    # Markers

    def write_markers(self, markers: list[NewMarker], now_ms: int) -> tuple[list[ErrorCode], list[Effect]]:
        """Append markers behind what is staged; return an outcome for each, and answers to batches.

        A batch that still waits for its verification comes too late: the transaction that it belongs to is over.
        """
        effects = self.write(now_ms)
        for marker in markers:
            for request in self._verifications.void(marker.producer_id):
                message = "the transaction ended before its coordinator had confirmed the batch"
                effects.append(_refused(request.event, ErrorCode.INVALID_TXN_STATE, message))
        results = self.log.append_markers(markers, leader_epoch=self.leader_epoch, now_ms=now_ms)
        self._replicated()
        errors = [ErrorCode.NONE if isinstance(result, Appended) else result.error_code for result in results]
        return errors, effects

    def _replicated(self) -> None:
        """With one replica, what is in the log is replicated."""
        self.log.advance_high_watermark(self.log.log_end_offset)

    # Reading

    def fetch(self, request: FetchPartition, max_bytes: int, isolation: Isolation) -> FetchedPartition:
        """Read what is there now; with no bytes left, only say where the partition stands."""
        error = self._check_leader_epoch(request.leader_epoch)
        if error is not ErrorCode.NONE:
            return FetchedPartition(self.partition, error)
        if max_bytes <= 0:
            return self._without_records(ErrorCode.NONE)
        try:
            found = self.log.read(request.offset, max_bytes=max_bytes, isolation=isolation)
        except OffsetOutOfRange:
            return self._without_records(ErrorCode.OFFSET_OUT_OF_RANGE)
        return FetchedPartition(
            self.partition,
            ErrorCode.NONE,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            tuple(found.aborted_transactions),
            found.records,
        )

    def _without_records(self, error_code: ErrorCode) -> FetchedPartition:
        log = self.log
        return FetchedPartition(
            self.partition, error_code, log.high_watermark, log.last_stable_offset, log.log_start_offset
        )

    def _check_leader_epoch(self, epoch: int) -> ErrorCode:
        if epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def _only_batch(records: bytes) -> RecordBatch:
    batches = split_batches(records)
    if len(batches) != 1:
        raise InvalidRecord(f"a produce request has one batch for each partition, not {len(batches)}")
    check_client_batch(batches[0])
    return batches[0]


def _refused(event: Produce, error_code: ErrorCode, message: str) -> Produced:
    return Produced(event.request_id, error_code, message=message)


def _superseded(request: _Request) -> Produced:
    header = request.batch.header
    message = f"epoch {header.producer_epoch} of producer {header.producer_id} was superseded while it waited"
    return _refused(request.event, ErrorCode.INVALID_PRODUCER_EPOCH, message)
