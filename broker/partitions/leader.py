"""The leader of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import Appended, Flush, LogError, NewMarker, Rejection
from eagleray.broker.log.producer_state import NO_OFFSET
from eagleray.broker.messages import IMPLICIT_VERSION, last_epoch_ended_by
from eagleray.broker.partitions.acknowledging import acknowledge_all
from eagleray.broker.partitions.events import (
    ALL_IN_SYNC,
    Effect,
    PartitionFailed,
    Produce,
    Produced,
    RecordsDeleted,
    TransactionVerified,
    VerifyTransaction,
)
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.partitions.reader import PartitionReader
from eagleray.broker.partitions.verification import Verifications
from eagleray.broker.replication.events import Replicated
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.protocol.errors import ErrorCode, InvalidRecord, ProtocolError
from eagleray.protocol.records import RecordBatch, check_client_batch, split_batches


class _Request(msgspec.Struct, frozen=True, gc=False):
    """A produce request with its one batch, decoded and checked."""

    event: Produce
    batch: RecordBatch


MARKERS_TIMEOUT_MS: Final = 5000
"""How long markers wait to be replicated; a coordinator sends a leader no others meanwhile, and tries again then."""


class _Unreplicated(msgspec.Struct, frozen=True, gc=False):
    """Up to where the log has to be replicated before a batch is answered, and how long its producer waits for it."""

    end_offset: int
    timeout_ms: int


class PartitionLeader(PartitionReader):
    """Takes batches and markers for one partition at one leader epoch, and serves reads of it.

    Owns: the partition's log. Persists: what the log persists, before it answers. Batches that came since the last
    `write` are appended together, unless the replication has a reason against it; a transaction's first batch waits
    until its coordinator has confirmed it. When `commit` has made them as durable as the log's settings say, they are
    pushed to the followers, and producers get their answers, those who want it when their batch is replicated. Readers
    see what is replicated.
    On failure of the disk: what was asked is answered with KAFKA_STORAGE_ERROR, which says neither that it is in the
    log nor that it is not. Where the log cannot go on, `failures` is told once, the leader resigns so that another
    replica can lead, and everything is answered like that until the log is opened anew and led at a later epoch.
    """

    def __init__(
        self, replication: ReplicationLeader, *, verification_ids: Iterator[int], failures: list[Effect]
    ) -> None:
        super().__init__(replication)
        self._failures = failures
        self._has_failed = False
        self._verifications: Verifications[_Request] = Verifications(verification_ids)
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
            # The coordinator's word for the newer producer is not one for the batches of the older.
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
            # The one goes on with a transaction whose confirmed beginning is about to be written; the other is refused
            # without it.
            return False
        entry = self.log.producers.get(producer.producer_id)
        if entry is None or producer.epoch > entry.epoch:
            return True
        if producer.epoch < entry.epoch or entry.open_since_offset != NO_OFFSET:
            # The log refuses the one by itself; the other goes on with a transaction that was confirmed.
            return False
        return entry.find_duplicate(batch.header) is None

    def verified(self, event: TransactionVerified) -> Sequence[Effect]:
        """Take the coordinator's answer: stage what waited for it, or refuse it."""
        waiting = self._verifications.answered(event.verification_id, event.producer_id)
        if event.error_code is ErrorCode.NONE:
            self._staged += waiting
            if waiting:
                self._staged_epochs[event.producer_id] = waiting[0].batch.header.producer_epoch
            return ()
        return _all_refused(waiting, event.error_code, "the transaction's coordinator did not confirm it")

    def write(self, now_ms: int, steady_ms: int) -> None:
        """Append everything that was staged with one write; the answers wait for `commit`."""
        if not self._staged:
            return
        staged, self._staged = self._staged, []
        self._staged_epochs.clear()
        error_code = self._check_append(steady_ms)
        if error_code is not ErrorCode.NONE:
            staged = self._refuse(staged, error_code)
            if not staged:
                return
        batches = [request.batch for request in staged]
        try:
            results = self.log.append(batches, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except LogError as error:
            self.note_failure(error)
            self._uncommitted += _all_refused(staged, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return
        log_start_offset = self.log.log_start_offset
        self._uncommitted += [
            _answer(request.event, result, log_start_offset)
            for request, result in zip(staged, results, strict=True)
            if request.event.acks != 0
        ]
        if not self.replication.is_alone:
            self._note_unreplicated(staged, results)

    def _note_unreplicated(self, staged: Sequence[_Request], results: Sequence[Appended | Rejection]) -> None:
        """Note which answers have to wait for the followers; a repeat may be of what they do not have yet either."""
        for request, result in zip(staged, results, strict=True):
            event = request.event
            if event.acks == ALL_IN_SYNC and isinstance(result, Appended):
                self._unreplicated[event.request_id] = _Unreplicated(result.last_offset + 1, event.timeout_ms)

    def _check_append(self, steady_ms: int) -> ErrorCode:
        """Tell whether a batch that waits for every replica in sync may be appended; a failed log refuses by itself."""
        return ErrorCode.NONE if self._has_failed else self.replication.check_append(steady_ms, waits_for_all=True)

    def _refuse(self, staged: list[_Request], error_code: ErrorCode) -> list[_Request]:
        """Refuse what may not be appended; return what may: too few replicas are enough for who waits for none."""
        taken: list[_Request] = []
        if error_code is ErrorCode.NOT_ENOUGH_REPLICAS:
            taken = [request for request in staged if request.event.acks != ALL_IN_SYNC]
            staged = [request for request in staged if request.event.acks == ALL_IN_SYNC]
        self._uncommitted += _all_refused(staged, error_code, "the leader may not append it now")
        return taken

    @property
    def has_to_flush(self) -> bool:
        """Whether there is something that has to be on stable storage before it is answered."""
        return self.log.config.flush is Flush.COMMIT and self.log.recovery_point < self.log.log_end_offset

    def commit(self, steady_ms: int) -> Sequence[Effect]:
        """Make durable what was written, as far as the log's settings ask for it; replicate it, and answer."""
        answers, self._uncommitted = self._uncommitted, []
        unreplicated, self._unreplicated = self._unreplicated, {}
        log = self.log
        if self.has_to_flush or not log.is_online:
            try:
                log.flush()
            except LogError as error:
                self.note_failure(error)
                return [_unknown_outcome(answer, str(error)) for answer in answers]
        effects = self.replication.appended(steady_ms)
        if not effects and not unreplicated:
            return answers
        now = self._let_wait(answers, unreplicated, steady_ms) if unreplicated else answers
        return [*acknowledge_all(effects), *now]

    def _let_wait(
        self, answers: list[Produced], unreplicated: dict[int, _Unreplicated], steady_ms: int
    ) -> list[Produced]:
        """Let answers wait whose batches have to be replicated and are not; return the others.

        What was written together is replicated together, so all who wait equally long wait as one.
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
        """Tell of a log that cannot be used any more; one that serves on after an error needs no help."""
        if not self.log.is_online and not self._has_failed:
            self._has_failed = True
            self._failures.append(PartitionFailed(self.partition, str(error)))
            self._failures += acknowledge_all(self.replication.resign())

    def resign(self) -> Sequence[Effect]:
        """Answer all that waits: another leader takes what is not in the log, and maybe has what is.

        What waits for its replication was given back already, where the `ReplicationLeader` has resigned before.
        """
        waiting = [*self._staged, *self._verifications.void_all()]
        self._staged = []
        refused = _all_refused(waiting, ErrorCode.NOT_LEADER_OR_FOLLOWER, "this leader has resigned")
        given_back = [effect for effect in self.replication.resign() if isinstance(effect, Replicated)]
        return [*refused, *acknowledge_all(given_back)]

    # Markers

    def write_markers(self, request: MarkerRequest, markers: Sequence[NewMarker], now_ms: int, steady_ms: int) -> None:
        """Append a request's markers behind what is staged, and tell it an outcome for each.

        A batch that still waits for its verification comes too late: the transaction that it belongs to is over.
        """
        self.write(now_ms, steady_ms)
        error_code = self._check_append(steady_ms)
        if error_code is not ErrorCode.NONE:
            request.refused(self.partition, error_code)
            return
        try:
            results = self.log.append_markers(markers, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except LogError as error:
            self.note_failure(error)
            request.refused(self.partition, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        if self._verifications:
            for marker, result in zip(markers, results, strict=True):
                if isinstance(result, Appended):
                    self._refuse_late_batches(marker)
        outcomes = [ErrorCode.NONE if isinstance(result, Appended) else result.error_code for result in results]
        request.written(self.partition, outcomes, self.log.log_end_offset)

    def settle_markers(self, request: MarkerRequest, steady_ms: int) -> None:
        """After `commit`: tell a request that its markers are replicated, or let it wait until they are."""
        end_offset = request.unsettled[self.partition]
        if self._has_failed:
            request.settled(self.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        elif self.replication.is_replicated(end_offset, steady_ms):
            request.settled(self.partition, ErrorCode.NONE)
        else:
            self.replication.wait(request, end_offset, steady_ms + MARKERS_TIMEOUT_MS)

    def _refuse_late_batches(self, marker: NewMarker) -> None:
        last_epoch = last_epoch_ended_by(marker.producer_epoch, marker.transaction_version)
        late = self._verifications.void_up_to(marker.producer_id, last_epoch)
        message = "the transaction ended before its coordinator had confirmed the batch"
        self._uncommitted += _all_refused(late, ErrorCode.INVALID_TXN_STATE, message)

    # The start of the log

    def replicate_start(self, deleted: RecordsDeleted, deadline_ms: int, steady_ms: int) -> Sequence[Effect]:
        """Tell the followers where the log begins now; answer when those in sync have it on their disks too."""
        effects = acknowledge_all(self.replication.appended(steady_ms))
        if self.replication.is_start_replicated(deleted.log_start_offset, steady_ms):
            return [*effects, deleted]
        self.replication.wait_for_start(deleted, deleted.log_start_offset, deadline_ms)
        return effects


def _only_batch(records: bytes) -> RecordBatch:
    batches = split_batches(records)
    if len(batches) != 1:
        raise InvalidRecord(f"a produce request has one batch for each partition, not {len(batches)}")
    check_client_batch(batches[0])
    return batches[0]


def _answer(event: Produce, result: Appended | Rejection, log_start_offset: int) -> Produced:
    if isinstance(result, Rejection):
        return Produced(event.request_id, result.error_code, message=result.message)
    return Produced(event.request_id, ErrorCode.NONE, result.base_offset, result.append_time_ms, log_start_offset)


def _unknown_outcome(answer: Produced, message: str) -> Produced:
    return Produced(answer.request_id, ErrorCode.KAFKA_STORAGE_ERROR, message=message)


def _refused(event: Produce, error_code: ErrorCode, message: str) -> Sequence[Produced]:
    """Answer that a batch is not in the log, unless its producer wants no answers."""
    return () if event.acks == 0 else (Produced(event.request_id, error_code, message=message),)


def _all_refused(requests: Iterable[_Request], error_code: ErrorCode, message: str) -> Sequence[Produced]:
    return [answer for request in requests for answer in _refused(request.event, error_code, message)]


def _superseded(request: _Request) -> Sequence[Produced]:
    header = request.batch.header
    message = f"epoch {header.producer_epoch} of producer {header.producer_id} was superseded while it waited"
    return _refused(request.event, ErrorCode.INVALID_PRODUCER_EPOCH, message)
