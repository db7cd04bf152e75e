"""Leaders of partitions among producers, coordinators and readers, with a model of what may not happen.

Every batch has a value of its own, so that the logs tell which of them were taken. What a coordinator decides is
kept here, and whatever a reader at read_committed is shown has to agree with it.
"""

from itertools import count
from typing import Any

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import Isolation, PartitionLog
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import (
    AskLastDecision,
    DeleteRecords,
    Effect,
    Event,
    Fetch,
    Fetched,
    FetchedPartition,
    FetchPartition,
    LastDecisionAnswered,
    MarkersAnswered,
    Produce,
    Produced,
    RecordsDeleted,
    TransactionVerified,
    VerifyTransaction,
    WriteMarkers,
)
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.replication.events import Resigned
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import BatchHeader
from tests.support.batches import NOW_MS, data_batch, whole_batches
from tests.support.consumer import committed_records
from tests.support.leading import ORDERS, PAYMENTS, alone, open_log
from tests.support.simulated_disk import SimulatedDisk

PARTITIONS = (ORDERS, PAYMENTS)
DONE = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)
"""What is said of a marker that its partition needs no more."""


class SentBatch(msgspec.Struct, frozen=True):
    """A batch as its producer keeps it, to send it again."""

    partition: TopicPartition
    value: bytes
    records: bytes
    has_producer: bool
    transactional_id: str | None = None
    version: int = 1
    transaction: int = -1


class LoggedBatch(msgspec.Struct, frozen=True):
    """A batch as it stands in a log: a value, or the decision of a marker."""

    header: BatchHeader
    value: bytes = b""
    commits: bool = False


class Ending(msgspec.Struct):
    """A transaction that is decided, and the partitions that still need its marker."""

    producer: ProducerIdentity
    commit: bool
    version: int
    missing: set[TopicPartition]
    decision: int
    """The coordinator's number of it, by which leaders tell in version 1 whether its marker is late."""

    name: str
    is_finished: bool = False


class Transactional:
    """A transactional producer together with what its coordinator knows."""

    def __init__(self, producer_id: int, version: int) -> None:
        self.producer = ProducerIdentity(producer_id, 0)
        self.version = version
        self.transaction = 0
        self.partitions: set[TopicPartition] = set()
        self.ending: Ending | None = None


class LeadersWorld:
    """Leads two partitions; `send` collects the events of a turn, and `turn` has them handled and checks."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.disk = SimulatedDisk()
        self.leaders = PartitionLeaders()
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.epochs = dict.fromkeys(PARTITIONS, 0)
        self.history: dict[TopicPartition, list[LoggedBatch]] = {partition: [] for partition in PARTITIONS}
        self.transactional = {"one": Transactional(1, 1), "two": Transactional(2, 2)}
        self.decisions: dict[tuple[int, int], bool] = {}
        self.coordinator_epoch = 0
        self.endings: list[Ending] = []
        self.sent: list[SentBatch] = []
        self.numbers = 0
        """How many decisions there were."""
        self.marker_questions: list[AskLastDecision] = []
        self.questions: list[VerifyTransaction] = []
        self.words: list[TransactionVerified] = []
        self._sequences: dict[tuple[TopicPartition, int, int], Any] = {}
        self._ids = count(1)
        self._asked_before = 0
        self._events: list[Event] = []
        self._produces: dict[int, tuple[SentBatch, int]] = {}
        self._outstanding: dict[int, Event] = {}
        self._deadlines: dict[int, int] = {}
        self._marker_calls: dict[int, tuple[Ending, tuple[TopicPartition, ...], int]] = {}
        self._codes: dict[bytes, list[ErrorCode | None]] = {}
        for partition in PARTITIONS:
            self.logs[partition] = open_log(self.disk, partition)
            self.lead(partition)

    # Leading

    def lead(self, partition: TopicPartition) -> None:
        self.epochs[partition] += 1
        self.leaders.lead(partition, alone(self.logs[partition], self.epochs[partition], partition))

    def resign(self, partition: TopicPartition, *, reopen: bool) -> None:
        self.turn()
        log, effects = self.leaders.resign(partition)
        assert log is self.logs[partition]
        self._take(effects)
        for event in self._outstanding.values():
            waits_here = isinstance(event, Fetch) and any(one.partition == partition for one in event.partitions)
            assert not waits_here, "a fetch waits for a partition that is not led"
            assert not (isinstance(event, Produce) and event.partition == partition)
        if reopen:
            log.close()
            self.logs[partition] = open_log(self.disk, partition)

    # Producing

    def produce(self, partition: TopicPartition, producer: ProducerIdentity | None, *, acks: int, gap: int = 0) -> None:
        """Send a batch of a producer that has no transactions, or of none at all."""
        self._send(self._batch(partition, producer, gap), acks)

    def produce_in_transaction(self, name: str, partition: TopicPartition, *, acks: int, gap: int = 0) -> None:
        member = self.transactional[name]
        if member.ending is not None:
            return
        if member.version == 1:
            member.partitions.add(partition)
        self._send(self._batch(partition, member.producer, gap, name), acks)

    def _batch(
        self, partition: TopicPartition, producer: ProducerIdentity | None, gap: int, name: str | None = None
    ) -> SentBatch:
        value = b"batch %d" % len(self.sent)
        options: dict[str, Any] = {}
        if producer is not None:
            sequences = self._sequences.setdefault((partition, producer.producer_id, producer.epoch), count())
            for _ in range(gap):
                next(sequences)
            options = {"producer_id": producer.producer_id, "epoch": producer.epoch, "sequence": next(sequences)}
        data = bytes(data_batch(value=value, transactional=name is not None, **options).view)
        if name is None:
            return SentBatch(partition, value, data, producer is not None)
        member = self.transactional[name]
        return SentBatch(partition, value, data, True, name, member.version, member.transaction)

    def repeat(self, batch: SentBatch, *, acks: int) -> None:
        """Send a batch again, whatever became of it, if its producer has an id to know it by."""
        if not batch.has_producer:
            return
        if batch.transactional_id is not None and batch.version == 1:
            member = self.transactional[batch.transactional_id]
            if batch.transaction != member.transaction:
                # Before version 2 nothing tells a late batch from one of the next transaction.
                return
        self._send(batch, acks)

    def _send(self, batch: SentBatch, acks: int) -> None:
        if batch not in self.sent[-20:]:
            self.sent.append(batch)
        request_id = next(self._ids)
        event = Produce(request_id, batch.partition, batch.records, acks, batch.transactional_id, batch.version)
        self._produces[request_id] = (batch, len(self._codes.setdefault(batch.value, [])))
        # Without acks nobody knows; as long as nothing is answered, nobody knows either.
        self._codes[batch.value].append(None)
        self._send_event(event, is_answered=acks != 0)

    # Coordinating

    def decide_question(self, question: VerifyTransaction, *, refuse: bool) -> None:
        """Let the coordinator answer a question by what it knows now; the answer arrives whenever it is delivered."""
        name = question.transactional_id
        member = self.transactional[name]
        if question.producer != member.producer:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif refuse or member.ending is not None:
            code = ErrorCode.CONCURRENT_TRANSACTIONS
        elif question.adds_partition or question.partition in member.partitions:
            member.partitions.add(question.partition)
            code = ErrorCode.NONE
        else:
            code = ErrorCode.INVALID_TXN_STATE
        finished = (self.coordinator_epoch, self.numbers) if code is ErrorCode.NONE else ()
        producer_id, verification_id = question.producer.producer_id, question.verification_id
        self.words.append(TransactionVerified(question.partition, producer_id, verification_id, code, *finished))

    def deliver(self, word: TransactionVerified | LastDecisionAnswered) -> None:
        self._send_event(word, is_answered=False)

    def tell_last_decisions(self, *, is_silent: bool = False) -> None:
        """Let the coordinator say to all leaders that ask which decisions are over, or nobody say anything."""
        self.turn()
        questions, self.marker_questions = self.marker_questions, []
        for question in questions:
            ending = self.transactional[question.transactional_id].ending
            last = self.numbers if ending is None else ending.decision - 1
            asked = question.partition, question.producer_id, question.question_id
            if is_silent:
                self.deliver(LastDecisionAnswered(*asked, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            else:
                self.deliver(LastDecisionAnswered(*asked, ErrorCode.NONE, self.coordinator_epoch, last))
        self.turn()

    def end(self, name: str, *, commit: bool, fences: bool) -> None:
        """Decide a transaction; in version 1 only a producer that takes over makes a new epoch."""
        member = self.transactional[name]
        if member.ending is not None or not member.partitions:
            return
        if member.version == 2 or fences:
            member.producer = ProducerIdentity(member.producer.producer_id, member.producer.epoch + 1)
        commit = commit and not fences
        self.decisions[member.producer.producer_id, member.transaction] = commit
        self.numbers += 1
        member.ending = Ending(member.producer, commit, member.version, set(member.partitions), self.numbers, name)
        self.endings.append(member.ending)
        member.transaction += 1
        member.partitions = set()

    def send_markers(self, ending: Ending, *, is_stale: bool) -> None:
        """Send the markers of a transaction, perhaps again, perhaps from a coordinator that is none any more."""
        epoch = self.coordinator_epoch - 1 if is_stale and self.coordinator_epoch else self.coordinator_epoch
        is_over = not ending.missing
        partitions = tuple(sorted(ending.missing or PARTITIONS)) if not is_over else self._marked(ending)
        request_id = next(self._ids)
        self._marker_calls[request_id] = (ending, partitions, epoch)
        decided = (ending.decision, ending.name) if ending.version == 1 else ()
        marker = Marker(ending.producer, ending.commit, epoch, ending.version, partitions, *decided)
        self._send_event(WriteMarkers(request_id, (marker,)))

    def _marked(self, ending: Ending) -> tuple[TopicPartition, ...]:
        return tuple(
            partition
            for partition in PARTITIONS
            if any(
                one.header.is_control
                and one.header.producer_id == ending.producer.producer_id
                and one.header.producer_epoch == ending.producer.epoch
                for one in self.history[partition]
            )
        )

    def new_coordinator(self) -> None:
        """A successor finishes what is not finished, and begins with all of its markers."""
        self.turn()
        self.coordinator_epoch += 1
        for member in self.transactional.values():
            if member.ending is not None:
                member.ending.missing |= set(self._marked(member.ending))

    def settle(self) -> None:
        """Let every coordinator answer what it was asked, finish what it has decided, and see that it arrives."""
        self.turn()
        for question in self.questions[self._asked_before :]:
            self.decide_question(question, refuse=False)
            self.deliver(self.words[-1])
        self._asked_before = len(self.questions)
        self.finish_endings()

    def finish_endings(self) -> None:
        """Let the markers of whatever is decided arrive, and come again where leaders had to ask about them."""
        for _ in range(2):
            for member in self.transactional.values():
                if member.ending is not None:
                    self.send_markers(member.ending, is_stale=False)
            self.tell_last_decisions()

    # Reading

    def offset_at(self, partition: TopicPartition, share: float) -> int:
        """Return an offset that lies at a share of a log."""
        log = self.logs[partition]
        return log.log_start_offset + int((log.log_end_offset - log.log_start_offset) * share)

    def fetch(self, wanted: dict[TopicPartition, int], isolation: Isolation, max_wait_ms: int) -> None:
        request_id = next(self._ids)
        partitions = tuple(FetchPartition(partition, offset, 2**20) for partition, offset in wanted.items())
        event = Fetch(request_id, partitions, isolation, max_wait_ms)
        self._deadlines[request_id] = self.now_ms + max(max_wait_ms, 0)
        self._send_event(event)

    def delete_records(self, partition: TopicPartition, before_offset: int) -> None:
        # In a turn of its own, for what it deletes has to be seen before.
        self.turn()
        self._send_event(DeleteRecords(next(self._ids), partition, before_offset))
        self.turn()

    def pass_time(self, milliseconds: int) -> None:
        self.turn()
        self.now_ms += milliseconds
        self._events.append(Tick())
        self.turn()
        late = [one for one in self._deadlines if one in self._outstanding and self._deadlines[one] <= self.now_ms]
        assert not late, "a fetch waits beyond its time"

    # Turns

    def _send_event(self, event: Event, *, is_answered: bool = True) -> None:
        self._events.append(event)
        if is_answered:
            self._outstanding[event.request_id] = event

    def turn(self) -> None:
        events, self._events = self._events, []
        effects = self.leaders.handle(events, self.now_ms, self.now_ms)
        self._remember_logs()
        self._take(effects)
        for event in self._outstanding.values():
            waits = isinstance(event, Fetch) or (isinstance(event, Produce) and event.transactional_id is not None)
            assert waits, f"not answered in its turn: {event}"

    def _remember_logs(self) -> None:
        for partition, log in self.logs.items():
            history = self.history[partition]
            known_end = history[-1].header.next_offset if history else 0
            if log.log_end_offset > known_end:
                data = log.read_for_replica(known_end, max_bytes=2**30)
                history += [self._logged(batch) for batch in whole_batches(data)]

    @staticmethod
    def _logged(batch: Any) -> LoggedBatch:
        if batch.header.is_control:
            return LoggedBatch(batch.header, commits=batch.end_transaction_marker().commit)
        (record,) = batch.records()
        return LoggedBatch(batch.header, record.value)

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, VerifyTransaction):
                self.questions.append(effect)
                continue
            if isinstance(effect, AskLastDecision):
                self.marker_questions.append(effect)
                continue
            if isinstance(effect, Resigned):
                continue
            event = self._outstanding.pop(effect.request_id, None)
            assert event is not None, f"answered twice, or without acks: {effect}"
            match effect:
                case Produced():
                    batch, place = self._produces[effect.request_id]
                    self._codes[batch.value][place] = effect.error_code
                    if effect.error_code is ErrorCode.NONE:
                        self._check_base_offset(batch, effect.base_offset)
                case MarkersAnswered():
                    self._markers_answered(effect)
                case Fetched():
                    self._check_fetched(event, effect)
                case RecordsDeleted():
                    is_led = event.partition in self.leaders
                    assert effect.error_code is (ErrorCode.NONE if is_led else ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _markers_answered(self, effect: MarkersAnswered) -> None:
        ending, partitions, epoch = self._marker_calls[effect.request_id]
        codes = effect.error_codes or (ErrorCode.NONE,) * len(partitions)
        if epoch < self.coordinator_epoch:
            return
        for partition, code in zip(partitions, codes, strict=True):
            assert code in (*DONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CONCURRENT_TRANSACTIONS)
            if code in DONE:
                ending.missing.discard(partition)
        if not ending.missing and not ending.is_finished:
            ending.is_finished = True
            for member in self.transactional.values():
                if member.ending is ending:
                    member.ending = None

    # What may not happen

    def _check_base_offset(self, batch: SentBatch, base_offset: int) -> None:
        places = [one.header.base_offset for one in self.history[batch.partition] if one.value == batch.value]
        assert places == [base_offset], f"{batch.value!r} was answered with {base_offset}, but stands at {places}"

    def check_logs(self) -> None:
        """What was answered is there once and in order; what was refused is not there."""
        for partition, history in self.history.items():
            values = [one.value for one in history if not one.header.is_control]
            assert len(values) == len(set(values)), "a batch is in the log twice"
            for value in values:
                codes = self._codes[value]
                assert ErrorCode.NONE in codes or None in codes, f"{value!r} was refused, and is in {partition}"
            self._check_order(history)
            self._check_nothing_hangs(partition, history)
            self._check_ends(partition, history)

    def _check_ends(self, partition: TopicPartition, history: list[LoggedBatch]) -> None:
        """What a marker ends was decided before, and in that way; a late one ends nothing."""
        transactions = {batch.value: batch.transaction for batch in self.sent if batch.transactional_id is not None}
        ends: dict[int, LoggedBatch] = {}
        for one in reversed(history):
            producer_id = one.header.producer_id
            if one.header.is_control:
                ends[producer_id] = one
            elif one.value in transactions and producer_id in ends:
                decision = self.decisions.get((producer_id, transactions[one.value]))
                told = f"{one.value!r} in {partition} was decided {decision}"
                assert decision is ends[producer_id].commits, f"{told}, and a marker ends it otherwise"

    def _check_nothing_hangs(self, partition: TopicPartition, history: list[LoggedBatch]) -> None:
        """Every transaction that is open in a log is one that a coordinator will end there."""
        sent = {batch.value: batch for batch in self.sent}
        opened: dict[int, SentBatch] = {}
        for one in history:
            if one.header.is_control:
                opened.pop(one.header.producer_id, None)
            elif one.header.is_transactional:
                opened[one.header.producer_id] = sent[one.value]
        for batch in opened.values():
            member = self.transactional[batch.transactional_id]
            is_current = batch.transaction == member.transaction and partition in member.partitions
            is_ending = batch.transaction == member.transaction - 1 and member.ending is not None
            assert is_current or (is_ending and partition in member.ending.missing), f"nobody ends {batch.value!r}"

    @staticmethod
    def _check_order(history: list[LoggedBatch]) -> None:
        last: dict[int, BatchHeader] = {}
        for one in history:
            header = one.header
            if header.is_control or header.producer_id < 0:
                continue
            before = last.get(header.producer_id)
            if before is not None:
                assert header.producer_epoch >= before.producer_epoch
                follows = before.base_sequence + 1 if header.producer_epoch == before.producer_epoch else 0
                assert header.base_sequence == follows
            last[header.producer_id] = header

    def _check_fetched(self, event: Fetch, fetched: Fetched) -> None:
        assert len(event.partitions) == len(fetched.partitions)
        for asked, found in zip(event.partitions, fetched.partitions, strict=True):
            self._check_fetched_partition(asked, event.isolation, found)

    def _check_fetched_partition(self, asked: FetchPartition, isolation: Isolation, found: FetchedPartition) -> None:
        log = self.logs[asked.partition]
        if asked.partition not in self.leaders:
            assert found.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not log.log_start_offset <= asked.offset <= log.log_end_offset:
            assert found.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            assert found.error_code is ErrorCode.NONE
            batches = whole_batches(found.records)
            if isolation is Isolation.READ_COMMITTED:
                shown = committed_records(batches, found.aborted_transactions, from_offset=asked.offset)
                expected = self._committed(asked.partition, asked.offset)
            else:
                shown = [record for batch in batches if not batch.header.is_control for record in batch.records()]
                history = self.history[asked.partition]
                expected = [one.value for one in history if one.value and one.header.base_offset >= asked.offset]
            assert [record.value for record in shown] == expected

    def _committed(self, partition: TopicPartition, offset: int) -> list[bytes]:
        """What a committed reader may see by what the coordinators have decided, up to what is still open."""
        history, values = self.history[partition], []
        sent = {batch.value: batch for batch in self.sent}
        for place, one in enumerate(history):
            header = one.header
            if header.is_control:
                continue
            if not header.is_transactional:
                values.append((header.base_offset, one.value))
                continue
            ends = (later for later in history[place:] if later.header.is_control)
            end = next((later for later in ends if later.header.producer_id == header.producer_id), None)
            if end is None:
                break
            commits = self.decisions[header.producer_id, sent[one.value].transaction]
            assert commits == end.commits, f"{one.value!r} was ended by a marker that is not its own"
            if commits:
                values.append((header.base_offset, one.value))
        return [value for base_offset, value in values if base_offset >= offset]

    def check_everybody_is_answered(self) -> None:
        """When the leaders go, nobody is left without an answer."""
        self.turn()
        for partition in PARTITIONS:
            if partition in self.leaders:
                self.resign(partition, reopen=False)
        assert not self._outstanding
        self.check_logs()
