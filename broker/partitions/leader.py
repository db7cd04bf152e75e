"""The leader of one partition: appends of producers and of transaction markers, at one leader epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import Appended, LogError, Rejection
from eagleray.broker.log.producer_entry import NO_OFFSET
from eagleray.broker.messages import IMPLICIT_VERSION, Marker, last_epoch_ended_by
from eagleray.broker.partitions.coordinator_epochs import CoordinatorEpochs
from eagleray.broker.partitions.decisions import FinishedDecisions
from eagleray.broker.partitions.events import (
    ALL_IN_SYNC,
    Effect,
    LastDecisionAnswered,
    Produce,
    Produced,
    RecordsDeleted,
    TransactionVerified,
    VerifyTransaction,
)
from eagleray.broker.partitions.failing import failed
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.partitions.reader import PartitionReader
from eagleray.broker.partitions.verification import Verifications
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.runtime.disk_watch import DiskWatch
from eagleray.protocol.errors import ErrorCode, InvalidRecord, ProtocolError
from eagleray.protocol.records import RecordBatch, check_client_batch, split_batches


class _Request(msgspec.Struct, frozen=True, gc=False):
    """A produce request with its one batch, decoded and checked."""

    event: Produce
    batch: RecordBatch


MARKERS_TIMEOUT_MS: Final = 5000
"""How long markers wait to be replicated; the coordinator sends this leader no others meanwhile, then tries again."""


class _Unreplicated(msgspec.Struct, frozen=True, gc=False):
    """Up to where the log has to be replicated before a batch is answered, and how long its producer waits for that."""

    end_offset: int
    timeout_ms: int


class PartitionLeader(PartitionReader):
    """Takes batches and markers for one partition at one leader epoch, and serves reads of it.

    Owns: what waits to be written, to be verified or to be answered.
    Persists: what the log persists, before it answers. `write` appends all batches that came since the last one, unless
    replication refuses it; a transaction's first batch waits until its coordinator has confirmed it. When the logs of
    the turn are flushed, `commit` has them pushed to the followers, and answers the producers; with `acks=all`, when
    the batch is replicated. Readers see what is replicated.
    On failure of the disk: KAFKA_STORAGE_ERROR, after which the batch may be in the log or not. Where the log cannot go
    on, `failures` is told once, and the `ReplicationLeader` resigns so that another replica can lead. Everything is
    then answered with that error until the log is opened anew and led at a later epoch.
    """

    def __init__(
        self,
        replication: ReplicationLeader,
        *,
        verification_ids: Iterator[int],
        failures: list[Effect],
        coordinator_epochs: CoordinatorEpochs,
        disk: DiskWatch,
    ) -> None:
        super().__init__(replication)
        self._coordinator_epochs = coordinator_epochs
        self._disk = disk
        self._failures = failures
        self._verifications: Verifications[_Request] = Verifications(verification_ids)
        self._decisions = FinishedDecisions(self.partition, verification_ids)
        self._staged: list[_Request] = []
        self._staged_epochs: dict[int, int] = {}
        self._uncommitted: list[Produced] = []
        self._unreplicated: dict[int, _Unreplicated] = {}

    # Produce

    def produce(self, event: Produce) -> Sequence[Effect]:
        """Stage a batch for the next `write`, let it wait for its verification, or refuse it at once."""
        try:
            batch = _only_batch(event.records)
        except ProtocolError as error:
            return _refused(event, error.error_code, str(error))
        request = _Request(event, batch)
        if not batch.header.is_transactional:
            self._staged.append(request)
            return ()
        if event.transactional_id is None:
            return _refused(event, ErrorCode.INVALID_REQUEST, "a transactional batch came without a transactional id")
        return self._produce_in_transaction(request, event.transactional_id)

    def _produce_in_transaction(self, request: _Request, transactional_id: str) -> Sequence[Effect]:
        header = request.batch.header
        producer = ProducerIdentity(header.producer_id, header.producer_epoch)
        waiting_epoch = self._verifications.epoch_of(producer.producer_id)
        if waiting_epoch is None and not self._must_verify(producer, request.batch):
            self._staged.append(request)
            return ()
        effects: list[Effect] = []
        if waiting_epoch is not None and producer.epoch != waiting_epoch:
            if producer.epoch < waiting_epoch:
                return _superseded(request)
            # What the coordinator says of the newer epoch of a producer does not hold for the batches of the older.
            for older in self._verifications.void(producer.producer_id):
                effects += _superseded(older)
        verification_id = self._verifications.wait(producer, request)
        if verification_id is not None:
            adds_partition = request.event.transaction_version >= IMPLICIT_VERSION
            effects.append(
                VerifyTransaction(verification_id, self.partition, transactional_id, producer, adds_partition)
            )
        return effects

    def _must_verify(self, producer: ProducerIdentity, batch: RecordBatch) -> bool:
        if self._staged_epochs.get(producer.producer_id) == producer.epoch or not self.replication.is_leading:
            # The first continues a transaction whose confirmed beginning is about to be written; a leader that has
            # resigned refuses the batch anyway.
            return False
        entry = self.log.producers.get(producer.producer_id)
        if entry is None or producer.epoch > entry.epoch:
            return True
        if producer.epoch < entry.epoch or entry.open_since_offset != NO_OFFSET:
            # The log itself refuses an older epoch; a batch of an open transaction continues one that was confirmed.
            return False
        return entry.find_duplicate(batch.header) is None

    def verified(self, event: TransactionVerified) -> Sequence[Effect]:
        """Take the coordinator's answer: stage what waited for it, or refuse it."""
        waiting = self._verifications.answered(event.verification_id, event.producer_id)
        if event.error_code is ErrorCode.NONE:
            self._staged += waiting
            if waiting:
                self._staged_epochs[event.producer_id] = waiting[0].batch.header.producer_epoch
                self._decisions.verified(event)
            return ()
        if waiting:
            self._forget_unless_open((event.producer_id,))
        return _all_refused(waiting, event.error_code, "the transaction's coordinator did not confirm it")

    def write(self, now_ms: int, steady_ms: int) -> None:
        """Append everything that was staged with one write; the answers wait for `commit`."""
        if not self._staged:
            return
        staged, self._staged = self._staged, []
        verified = [*self._staged_epochs]
        self._staged_epochs.clear()
        self._append(staged, now_ms, steady_ms)
        self._forget_unless_open(verified)

    def _append(self, staged: list[_Request], now_ms: int, steady_ms: int) -> None:
        if self._disk.refusal:
            self._uncommitted += _all_refused(staged, ErrorCode.KAFKA_STORAGE_ERROR, self._disk.refusal)
            return
        error_code = self.replication.check_append(steady_ms, waits_for_all=True)
        if error_code is not ErrorCode.NONE:
            staged = self._refuse(staged, error_code)
            if not staged:
                return
        batches = [request.batch for request in staged]
        try:
            results = self.replication.append(batches, now_ms)
        except LogError as error:
            self.note_failure(error)
            self._uncommitted += _all_refused(staged, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return
        except Exception as error:  # noqa: BLE001 - the log has taken all of them back
            self._append_one_by_one(staged, error, now_ms, steady_ms)
            return
        log_start_offset = self.log.log_start_offset
        self._uncommitted += [
            _answer(request.event, result, log_start_offset)
            for request, result in zip(staged, results, strict=True)
            if request.event.acks != 0
        ]
        if not self.replication.is_alone:
            self._note_unreplicated(staged, results)

    def _append_one_by_one(self, staged: Sequence[_Request], error: Exception, now_ms: int, steady_ms: int) -> None:
        """Append what was to be written together with a batch that cannot be, and refuse that one alone."""
        if len(staged) == 1:
            self._failures += failed(staged[0].event, error)
            return
        for request in staged:
            self._append([request], now_ms, steady_ms)

    def _note_unreplicated(self, staged: Sequence[_Request], results: Sequence[Appended | Rejection]) -> None:
        """Note which answers wait for the followers. Those of repeated batches do too: the first copy may not be
        replicated.
        """
        for request, result in zip(staged, results, strict=True):
            event = request.event
            if event.acks == ALL_IN_SYNC and isinstance(result, Appended):
                self._unreplicated[event.request_id] = _Unreplicated(result.last_offset + 1, event.timeout_ms)

    def _refuse(self, staged: list[_Request], error_code: ErrorCode) -> list[_Request]:
        """Refuse what may not be appended, and return the rest: with acks 0 or 1 too few replicas in sync are no
        obstacle.
        """
        taken: list[_Request] = []
        if error_code is ErrorCode.NOT_ENOUGH_REPLICAS:
            taken = [request for request in staged if request.event.acks != ALL_IN_SYNC]
            staged = [request for request in staged if request.event.acks == ALL_IN_SYNC]
        self._uncommitted += _all_refused(staged, error_code, "the leader may not append it now")
        return taken

    def commit(self, flush_error: LogError | None, steady_ms: int) -> Sequence[Effect]:
        """Replicate what was written and flushed, or could not be flushed, and answer."""
        answers, self._uncommitted = self._uncommitted, []
        unreplicated, self._unreplicated = self._unreplicated, {}
        if flush_error is not None:
            self.note_failure(flush_error)
            return [_unknown_outcome(answer, str(flush_error)) for answer in answers]
        effects = self.replication.replicate(steady_ms)
        if not effects and not unreplicated:
            return answers
        now = self._let_wait(answers, unreplicated, steady_ms) if unreplicated else answers
        return [*effects, *now]

    def _let_wait(
        self, answers: list[Produced], unreplicated: dict[int, _Unreplicated], steady_ms: int
    ) -> list[Produced]:
        """Let answers wait whose batches are not replicated yet; return the others.

        What was written together is replicated together, so answers with the same timeout wait as one.
        """
        now: list[Produced] = []
        waiting: dict[int, list[Produced]] = {}
        ends: dict[int, int] = {}
        for answer in answers:
            wanted = unreplicated.get(answer.request_id)
            if wanted is None or self.replication.is_replicated(wanted.end_offset, steady_ms):
                now.append(answer)
            else:
                waiting.setdefault(wanted.timeout_ms, []).append(answer)
                ends[wanted.timeout_ms] = max(wanted.end_offset, ends.get(wanted.timeout_ms, NO_OFFSET))
        for timeout_ms, together in waiting.items():
            self.replication.wait(together, ends[timeout_ms], steady_ms + timeout_ms)
        return now

    def note_failure(self, error: LogError) -> None:
        """Report a log that cannot be used any more; one that still serves after an error is not reported."""
        self._failures += self.replication.failed(error)

    def resign(self) -> Sequence[Effect]:
        """Answer all that waits: the next leader takes what is not in the log, and may have what is.

        A `ReplicationLeader` that resigned before has already given back what waited for replication.
        """
        waiting = [*self._staged, *self._verifications.void_all()]
        self._staged = []
        refused = _all_refused(waiting, ErrorCode.NOT_LEADER_OR_FOLLOWER, "this leader has resigned")
        return [*refused, *self.replication.resign()]

    # Markers

    def write_markers(
        self, request: MarkerRequest, markers: Sequence[Marker], now_ms: int, steady_ms: int
    ) -> Sequence[Effect]:
        """Append a request's markers behind what is staged, and note an outcome for each.

        A batch that still waits for its verification is too late: its transaction is over. A marker that may be late
        itself has to come again, when the coordinator has answered the question that is returned.
        """
        self.write(now_ms, steady_ms)
        error_code = self.replication.check_append(steady_ms, waits_for_all=True)
        if error_code is not ErrorCode.NONE:
            request.refused(self.partition, error_code)
            return ()
        questions: list[Effect] = []
        refusals = [self._refusal_of(marker, questions) for marker in markers]
        due = [marker for marker, refusal in zip(markers, refusals, strict=True) if refusal is ErrorCode.NONE]
        try:
            results = self.replication.append_markers(due, now_ms)
        except LogError as error:
            self.note_failure(error)
            request.refused(self.partition, ErrorCode.KAFKA_STORAGE_ERROR)
            return questions
        for marker, result in zip(due, results, strict=True):
            if isinstance(result, Appended):
                self._ended_by(marker)
        of_log = (ErrorCode.NONE if isinstance(result, Appended) else result.error_code for result in results)
        outcomes = [next(of_log) if refusal is ErrorCode.NONE else refusal for refusal in refusals]
        request.written(self.partition, outcomes, self.log.log_end_offset)
        return questions

    def _refusal_of(self, marker: Marker, questions: list[Effect]) -> ErrorCode:
        unknown = self._coordinator_epochs.refusal_of(marker)
        if unknown is not ErrorCode.NONE:
            return unknown
        producer_id = marker.producer.producer_id
        refusal = self._decisions.refusal_of(
            marker, self.log.producers.get(producer_id), self._verifications.epoch_of(producer_id)
        )
        if isinstance(refusal, ErrorCode):
            return refusal
        questions.append(refusal)
        return ErrorCode.CONCURRENT_TRANSACTIONS

    def last_decision_answered(self, event: LastDecisionAnswered) -> None:
        """Take the coordinator's answer about a marker, which will come again."""
        self._decisions.answered(event)

    def settle_markers(self, request: MarkerRequest, steady_ms: int) -> None:
        """After `commit`: note that a request's markers are replicated, or let it wait until they are."""
        end_offset = request.unsettled[self.partition]
        if self.replication.has_failed:
            request.settled(self.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        elif self.replication.when_replicated(request, end_offset, steady_ms + MARKERS_TIMEOUT_MS, steady_ms):
            request.settled(self.partition, ErrorCode.NONE)

    def _ended_by(self, marker: Marker) -> None:
        producer = marker.producer
        self._decisions.forget(producer.producer_id)
        last_epoch = last_epoch_ended_by(producer.epoch, marker.transaction_version)
        late = self._verifications.void_up_to(producer.producer_id, last_epoch)
        if late:
            message = "the transaction ended before its coordinator had confirmed the batch"
            self._uncommitted += _all_refused(late, ErrorCode.INVALID_TXN_STATE, message)

    def _forget_unless_open(self, producer_ids: Iterable[int]) -> None:
        """Forget the decisions of producers whose batches were not taken."""
        for producer_id in producer_ids:
            entry = self.log.producers.get(producer_id)
            if entry is None or entry.open_since_offset == NO_OFFSET:
                self._decisions.forget(producer_id)

    # The log start offset

    def replicate_start(self, deleted: RecordsDeleted, deadline_ms: int, steady_ms: int) -> Sequence[Effect]:
        """Tell the followers the new log start offset; answer when the replicas in sync have it on their disks too."""
        effects = self.replication.replicate(steady_ms)
        is_done = self.replication.when_start_replicated(deleted, deleted.log_start_offset, deadline_ms, steady_ms)
        return [*effects, deleted] if is_done else effects


def _only_batch(records: bytes) -> RecordBatch:
    batches = split_batches(records)
    if len(batches) != 1:
        raise InvalidRecord(f"a produce request has one batch for each partition, not {len(batches)}")
    check_client_batch(batches[0])
    return batches[0]


def _answer(event: Produce, result: Appended | Rejection, log_start_offset: int) -> Produced:
    if isinstance(result, Rejection):
        return Produced(event.request_id, result.error_code, message=result.message, record_errors=result.record_errors)
    return Produced(event.request_id, ErrorCode.NONE, result.base_offset, result.append_time_ms, log_start_offset)


def _unknown_outcome(answer: Produced, message: str) -> Produced:
    return Produced(answer.request_id, ErrorCode.KAFKA_STORAGE_ERROR, message=message)


def _refused(event: Produce, error_code: ErrorCode, message: str) -> Sequence[Produced]:
    return () if event.acks == 0 else (Produced(event.request_id, error_code, message=message),)


def _all_refused(requests: Iterable[_Request], error_code: ErrorCode, message: str) -> Sequence[Produced]:
    return [answer for request in requests for answer in _refused(request.event, error_code, message)]


def _superseded(request: _Request) -> Sequence[Produced]:
    header = request.batch.header
    message = f"epoch {header.producer_epoch} of producer {header.producer_id} was superseded while it waited"
    return _refused(request.event, ErrorCode.INVALID_PRODUCER_EPOCH, message)
