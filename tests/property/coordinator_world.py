"""A coordinator in a world that loses, delays, repeats and restarts, and a model that says what must never happen.

The model knows nothing of the coordinator's tables. It looks at what is appended to the log, step by step, at what the
coordinator resolves to say, and at which markers have been written, and holds them against each other. What is said is
true of the log as it was then; and it may be heard only when the log up to there is committed.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from eagleray.broker.identities import LAST_EPOCH, NO_EPOCH, NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.broker.runtime.coordinator_events import (
    AppendFailed,
    AppendRecords,
    Committed,
    PartitionAssigned,
    PartitionLoaded,
    PartitionResigned,
)
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.transactions.branches.tags import is_settled_by
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    BranchedReply,
    CompleteTransaction,
    EndBranched,
    EndTransaction,
    Event,
    HeldTooLong,
    InitProducerId,
    MarkersWritten,
    OpenBranch,
    PoolReply,
    PrepareTransaction,
    ProducerIdsReceived,
    Reply,
    Request,
    RequestProducerIds,
    SendMarkers,
    TakePoolOver,
)
from eagleray.broker.transactions.log_records import encode_key, encode_value, replay
from eagleray.broker.transactions.pools.names import slot_of
from eagleray.broker.transactions.preparation import NO_TIMEOUT_MS
from eagleray.broker.transactions.resolver_events import AskResolver, ResolverAnswered
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Said, TransactionShard
from eagleray.broker.transactions.transitions import completed
from eagleray.protocol.errors import ErrorCode
from tests.support.branch_model import BranchModel, branches_of, committed_tag_of, tag_of
from tests.support.pool_model import check_slot, check_taken_over, is_lost, lost_slots
from tests.support.prepared_model import PreparedModel, check_end_of_kept, holder_of, prepared_ms_of, token_of

_State = TransactionState

NEXT_IN_LOG = {
    None: {_State.EMPTY},
    _State.EMPTY: {_State.EMPTY, _State.ONGOING, _State.PREPARE_COMMIT, _State.PREPARE_ABORT, None},
    _State.ONGOING: {_State.ONGOING, _State.PREPARE_COMMIT, _State.PREPARE_ABORT},
    _State.PREPARE_COMMIT: {_State.COMPLETE_COMMIT},
    _State.PREPARE_ABORT: {_State.COMPLETE_ABORT},
    _State.COMPLETE_COMMIT: {_State.EMPTY, _State.ONGOING, _State.PREPARE_ABORT, None},
    _State.COMPLETE_ABORT: {_State.EMPTY, _State.ONGOING, _State.PREPARE_ABORT, None},
}
"""What may follow what in the log; None is a tombstone, or nothing at all."""

DECIDED = (_State.PREPARE_COMMIT, _State.PREPARE_ABORT)
LAST_EPOCH_EVER_GIVEN = 32766
LOG_PARTITION = 0


TRY_AGAIN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""What a client hears that has to ask again: whether its request was carried out is left open."""


class LogModel:
    """The log, and what it must never show."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.state: dict[str, Snapshot] = {}
        self.highest_epoch: dict[int, int] = {}
        self.decisions: dict[str, tuple[int, Snapshot]] = {}
        """The last decision of each id: which record it was, and what it said."""
        self.branches = BranchModel()
        self.prepared = PreparedModel()
        self.finished_decisions: set[int] = set()
        """Records whose markers have all been written."""

    def copy(self) -> LogModel:
        """The same log, to come back to if what follows is lost; what is finished stays so."""
        model = LogModel()
        model.records, model.state = self.records.copy(), self.state.copy()
        model.highest_epoch, model.decisions = self.highest_epoch.copy(), self.decisions.copy()
        model.branches.opened, model.branches.commits = self.branches.opened.copy(), self.branches.commits
        model.finished_decisions = self.finished_decisions
        model.prepared = self.prepared.copy()
        return model

    def is_finished(self, transactional_id: str) -> bool:
        """Whether the log may go on behind the last decision of an id as if it had heard of its end."""
        index, decision = self.decisions[transactional_id]
        return index in self.finished_decisions or not endings_of(decision)

    def write(self, transactional_id: str, snapshot: Snapshot | None, *, by_time: bool = False) -> None:
        before = self.state.get(transactional_id)
        is_end = snapshot is not None and snapshot.state in (_State.COMPLETE_COMMIT, _State.COMPLETE_ABORT)
        if before is not None and before.state in DECIDED:
            assert self.is_finished(transactional_id), "it goes on before the markers are written"
        if before is not None and before.state in DECIDED and not is_end:
            end = completed(before, before.updated_ms)
            self.branches.see(before, end)
            self._check(before, end)
            before = end
        before_state = None if before is None else before.state
        after_state = None if snapshot is None else snapshot.state
        assert after_state in NEXT_IN_LOG[before_state], f"{before_state} is followed by {after_state}"
        self.branches.see(before, snapshot)
        check_slot(transactional_id, before, snapshot, self.state)
        self.prepared.see(transactional_id, before, snapshot, by_time=by_time)
        if snapshot is None:
            del self.state[transactional_id]
        else:
            self._check(before, snapshot)
            self.state[transactional_id] = snapshot
            if snapshot.state in DECIDED:
                self.decisions[transactional_id] = len(self.records), snapshot
        value = None if snapshot is None else encode_value(snapshot)
        self.records.append((encode_key(transactional_id), value))

    def _check(self, before: Snapshot | None, after: Snapshot) -> None:
        highest = self.highest_epoch.get(after.producer_id, NO_EPOCH)
        assert after.producer_epoch >= highest, f"the epoch of producer {after.producer_id} falls"
        self.highest_epoch[after.producer_id] = after.producer_epoch
        if before is not None and before.state is _State.ONGOING:
            assert after.partitions >= before.partitions, "a partition is lost from an open transaction"
        if before is not None and before.state in DECIDED:
            assert holder_of(after) == holder_of(before), "whoever was told to go on can go on"
        if before is not None and after.producer_id == before.producer_id:
            raised = LAST_EPOCH if holder_of(before).producer_id != before.producer_id else holder_of(before).epoch + 1
            assert after.producer_epoch <= raised, "an epoch is left out"


def endings_of(decision: Snapshot) -> dict[ProducerIdentity, tuple[bool, frozenset[TopicPartition]]]:
    """What a decision wants written: for each producer that wrote something, whether it commits, and where."""
    committed = decision.state is _State.PREPARE_COMMIT
    endings = {ProducerIdentity(decision.producer_id, decision.producer_epoch): (committed, decision.partitions)}
    for producer_id, branch in branches_of(decision).items():
        assert committed or not branch.is_committed, "a branch outlives its transaction"
        endings[ProducerIdentity(producer_id, LAST_EPOCH)] = branch.is_committed, branch.partitions
    return {producer: ending for producer, ending in endings.items() if ending[1]}


def endings_in(markers: SendMarkers) -> dict[ProducerIdentity, tuple[bool, frozenset[TopicPartition]]]:
    """What is to be written, as `endings_of` gives it."""
    assert all(branch.partitions for branch in markers.branches)
    own = {markers.producer: (markers.commit, markers.partitions)} if markers.partitions else {}
    return own | {branch.producer: (branch.commit, branch.partitions) for branch in markers.branches}


def key_of(said: Said) -> object:
    """By what something that is said is found again."""
    if isinstance(said, SendMarkers):
        return said.transactional_id, said.decision, said.coordinator_epoch
    if isinstance(said, AskResolver):
        return said.transactional_id, said.prepared, said.attempt
    return said.request_id


def who_asks(request: Request) -> ProducerIdentity | None:
    if isinstance(request, InitProducerId):
        return request.expected
    if isinstance(request, BeginBranched | CompleteTransaction | TakePoolOver):
        return None
    is_by_producer = isinstance(request, AddPartitions | EndTransaction | PrepareTransaction)
    return request.producer if is_by_producer else request.owner


class Uncommitted(msgspec.Struct, frozen=True):
    """An append that only this coordinator's log has: what the log was before it, and how long it is with it."""

    append: AppendRecords
    before: LogModel
    length: int


class CoordinatorWorld:
    """Drives a coordinator and checks every single effect."""

    def __init__(self, initial: dict[str, Snapshot], completion_log_delay_ms: int = 0) -> None:
        self.config = CoordinatorConfig(
            transaction_completion_log_delay_ms=completion_log_delay_ms,
            transaction_state_log_num_partitions=1,
            transactional_id_expiration_ms=1_000_000,
            transaction_remove_expired_transaction_cleanup_interval_ms=1000,
            request_hold_limit=3,
            resolver_answer_timeout_ms=2000,
        )
        self.now_ms = 0
        self.log = LogModel()
        """All that is appended, committed or not."""
        self.before_turn: LogModel | None = None
        """The log as it was before the first append of the turn at hand."""
        self.unwritten: list[Uncommitted] = []
        """Appended, and not replicated."""
        self.undelivered: list[AppendRecords] = []
        """Replicated, and the coordinator has not been told."""
        self.written_length = 0
        self.refusal = ErrorCode.NONE
        self.fails_next = False
        self.said: dict[object, tuple[object, int]] = {}
        """What the coordinator has resolved to say, and how long the log was then."""
        self.stale: list[Event] = []
        """Answers to a coordinator that is no more."""
        self.markers: list[SendMarkers] = []
        self.questions: list[AskResolver] = []
        self.marked_decisions: dict[SendMarkers, int] = {}
        """Which record of the log each request for markers is about."""
        self.requests: list[Request] = []
        self.waiting: dict[int, Request] = {}
        self.at_hand: Request | None = None
        self.event: Event | None = None
        self.tokens: dict[str, list[ProducerIdentity]] = {}
        """The tokens that somebody has been told of, the newest last."""
        self.identities: dict[str, list[ProducerIdentity]] = {}
        self.branches: dict[str, list[ProducerIdentity]] = {}
        """Branches that somebody has been told of, the newest last."""
        self.given_to: dict[ProducerIdentity, object] = {}
        self.wanted_blocks = 0
        self.held_too_long = 0
        self.next_producer_id = 1000
        for transactional_id, snapshot in initial.items():
            self.log.state[transactional_id] = snapshot
            self.log.records.append((encode_key(transactional_id), encode_value(snapshot)))
            self.log.highest_epoch[snapshot.producer_id] = snapshot.producer_epoch
            decision = snapshot
            if snapshot.state is _State.COMPLETE_ABORT:
                decision = replace(snapshot, state=_State.PREPARE_ABORT)
            self.log.decisions[transactional_id] = len(self.log.records) - 1, decision
            self.identities[transactional_id] = [holder_of(snapshot)]
        self.written_length = len(self.log.records)
        self.coordinator_epoch = 0
        self.is_led = False
        self.is_lost = False
        """Whether the coordinator has lost sight of the log, which did not take an append."""
        self.start_coordinator()

    # The coordinator's incarnation

    def start_coordinator(self) -> None:
        self.coordinator = TransactionCoordinator(self.config, lambda partition, epoch: self.refusal)
        context = self.coordinator._context
        append, say = context.runtime.append, context.say

        def see_append(shard: TransactionShard, name: str, snapshot: Snapshot | None, *, supersedes: bool) -> None:
            self._on_step(name, snapshot)
            append(shard, name, snapshot, supersedes=supersedes)

        def see_said(shard: TransactionShard, said: Said) -> None:
            self._on_said(said)
            say(shard, said)

        context.runtime.append, context.say = see_append, see_said
        self.wanted_blocks = 0
        self.lead()

    def lead(self) -> None:
        """Assign the partition at a new epoch, and load it from nothing but the log."""
        self.coordinator_epoch += 1
        self.is_led, self.is_lost = True, False
        self.send(PartitionAssigned(LOG_PARTITION, self.coordinator_epoch))
        self._load()

    def load_again(self) -> None:
        """Load the partition whose log did not take an append, once all that it has is replicated."""
        if self.is_lost:
            while self.unwritten:
                self.write()
            self.is_lost = False
            self._load()

    def _load(self) -> None:
        assert not self.unwritten
        loaded = replay(self.log.records)
        assert loaded == self.log.state
        before = len(self.markers)
        self.fails_next = False
        self.send(PartitionLoaded(LOG_PARTITION, self.coordinator_epoch, loaded))
        sent = {markers.transactional_id: markers for markers in self.markers[before:]}
        decided = {
            name: snapshot for name, snapshot in loaded.items() if snapshot.state in DECIDED and endings_of(snapshot)
        }
        assert sent.keys() == decided.keys(), "the markers of decided transactions are sent again, and no others"
        assert all(markers.coordinator_epoch == self.coordinator_epoch for markers in sent.values())
        assert all(endings_in(sent[name]) == endings_of(decided[name]) for name in sent)

    def lose_leadership(self, kept: int) -> None:
        """Of what was on its way, the next leader has some; nobody here is told in time."""
        self._abandon_appends(kept)
        self.is_led = self.is_lost = False
        self.send(PartitionResigned(LOG_PARTITION, self.coordinator_epoch))
        assert {request.transactional_id for request in self.waiting.values()} <= {None}, "not everybody was told"

    def crash(self, kept: int) -> None:
        """The process dies, and its successor starts; clients get no answers."""
        self._abandon_appends(kept)
        self.waiting.clear()
        self.start_coordinator()

    def _abandon_appends(self, kept: int) -> None:
        """A log is a log: of what was not replicated, a beginning is kept and the rest is cut off."""
        appends = [each.append for each in self.unwritten]
        for _ in range(kept % (len(self.unwritten) + 1)):
            self.write()
        if self.unwritten:
            self.log = self.unwritten[0].before
        self.unwritten.clear()
        self.stale += [AppendFailed(LOG_PARTITION, self.coordinator_epoch)]
        self.stale += [
            Committed(LOG_PARTITION, append.coordinator_epoch, append.position)
            for append in [*self.undelivered, *appends]
        ]
        self.undelivered.clear()

    # Events

    def send(self, event: Event) -> None:
        due_ms = self.coordinator.next_due_ms
        self.before_turn, self.event = None, event
        effects = self.coordinator.handle(event, self.now_ms)
        is_unforeseen = isinstance(event, Tick) and effects and due_ms > self.now_ms
        assert not is_unforeseen, "what time makes necessary was said to be due"
        for effect in effects:
            if isinstance(effect, AppendRecords):
                self._on_append(effect)
            elif isinstance(effect, SendMarkers):
                self._hear_markers(effect)
            elif isinstance(effect, Reply | BranchedReply | PoolReply):
                self._hear(effect)
            elif isinstance(effect, HeldTooLong):
                self.held_too_long += 1
            elif isinstance(effect, AskResolver):
                _, length = self.said[key_of(effect)]
                assert length <= self.written_length, "a question that is not committed"
                self.questions.append(effect)
            else:
                assert isinstance(effect, RequestProducerIds)
                self.wanted_blocks += 1
                assert self.wanted_blocks == 1, "one block is asked for at a time"
        if self.before_turn is not None and self.fails_next:
            self.log, self.fails_next, self.is_lost = self.before_turn, False, True
            self.said.clear()
            self.send(AppendFailed(LOG_PARTITION, self.coordinator_epoch))

    def request(self, request: Request) -> None:
        self.requests.append(request)
        self.waiting[request.request_id] = request
        self.at_hand = request
        self.send(request)
        self.at_hand = None

    def give_block(self, count: int) -> None:
        if self.wanted_blocks:
            self.wanted_blocks = 0
            self.next_producer_id += count
            self.send(ProducerIdsReceived(self.next_producer_id - count, count))

    def write(self) -> None:
        """Let the oldest append be replicated."""
        if self.unwritten:
            written = self.unwritten.pop(0)
            self.written_length = written.length
            self.undelivered.append(written.append)

    def deliver(self, place: int) -> None:
        """Tell how far the log is committed, perhaps late and out of order."""
        if self.undelivered:
            append = self.undelivered.pop(place % len(self.undelivered))
            self.send(Committed(append.log_partition, append.coordinator_epoch, append.position))

    def report(self, place: int) -> None:
        """Say that markers are written: the newest, an old one, one again."""
        if self.markers:
            markers = self.markers[place % len(self.markers)]
            self.log.finished_decisions.add(self.marked_decisions[markers])
            self.send(
                MarkersWritten(
                    markers.transactional_id, markers.log_partition, markers.coordinator_epoch, markers.decision
                )
            )

    def answer(self, place: int, *, commit: bool | None) -> None:
        """Let a resolver answer: to a question that was asked, however long ago."""
        if self.questions:
            question = self.questions[-1 - place % min(len(self.questions), 4)]
            if commit is not None:
                self.log.prepared.answered(question, commit=commit)
            self.send(ResolverAnswered(question.transactional_id, question.prepared, question.attempt, commit))

    def tick(self, after_ms: int) -> None:
        self.now_ms += after_ms
        self.send(Tick())

    # What it appends

    def _on_step(self, transactional_id: str, snapshot: Snapshot | None) -> None:
        assert self.is_led
        assert not self.is_lost
        assert self.refusal is ErrorCode.NONE, "something changes that the log refuses"
        if self.before_turn is None:
            self.before_turn = self.log.copy()
        is_asked_for = isinstance(self.at_hand, InitProducerId) and self.at_hand.transactional_id == transactional_id
        if is_asked_for and self.at_hand.expected is not None:
            logged = self.log.state.get(transactional_id)
            if logged is not None and logged.state is _State.ONGOING:
                assert self.at_hand.expected == holder_of(logged), "a zombie aborts the transaction of its successor"
        if isinstance(self.event, ResolverAnswered) and snapshot is not None and snapshot.state in DECIDED:
            logged = self.log.state[transactional_id]
            assert prepared_ms_of(logged) >= 0, "an answer decides what is not prepared"
            assert token_of(logged) == self.event.prepared, "an answer decides another transaction"
            assert self.event.commit is (snapshot.state is _State.PREPARE_COMMIT), "it is decided the other way"
        self.log.write(transactional_id, snapshot, by_time=isinstance(self.event, Tick))

    def _on_append(self, append: AppendRecords) -> None:
        assert append.coordinator_epoch == self.coordinator_epoch
        assert self.before_turn is not None
        for transactional_id, snapshot in dict(append.records).items():
            assert self.log.state.get(transactional_id) == snapshot, "what is appended is not what was decided last"
        if not self.fails_next:
            self.unwritten.append(Uncommitted(append, self.before_turn, len(self.log.records)))

    # What it resolves to say, which has to be true

    def _on_said(self, said: Said) -> None:
        if isinstance(said, HeldTooLong):
            _, decision = self.log.decisions[said.transactional_id]
            assert decision.state is _State.PREPARE_ABORT, "it is said of what was aborted"
            return
        if isinstance(said, SendMarkers):
            self._check_markers(said)
        elif isinstance(said, AskResolver):
            self.log.prepared.check_question(self.log.state[said.transactional_id], said)
        else:
            assert isinstance(said, Reply | BranchedReply | PoolReply)
            self._check(self.waiting[said.request_id], said)
        known, length = self.said.get(key_of(said), (None, 0))
        # Markers that are asked for once more rest on their decision, and on nothing that was appended since.
        self.said[key_of(said)] = said, length if known == said else len(self.log.records)

    def _check_markers(self, markers: SendMarkers) -> None:
        index, decision = self.log.decisions[markers.transactional_id]
        assert markers.commit is (decision.state is _State.PREPARE_COMMIT)
        assert markers.producer == ProducerIdentity(decision.producer_id, decision.producer_epoch)
        assert endings_in(markers) == endings_of(decision)
        assert markers.coordinator_epoch == self.coordinator_epoch
        self.marked_decisions[markers] = index

    def _check(self, request: Request, reply: Reply | BranchedReply | PoolReply) -> None:
        assert isinstance(reply, BranchedReply) is isinstance(request, BeginBranched)
        assert isinstance(reply, PoolReply) is isinstance(request, TakePoolOver)
        if reply.error_code is not ErrorCode.NONE:
            self._check_refusal(request, reply)
            return
        if isinstance(request, AddPartitions | EndTransaction | PrepareTransaction):
            name = request.transactional_id
            assert not is_lost(name, self.log.state[name], self.log.state), "a producer goes on in a slot that is lost"
        if isinstance(request, TakePoolOver):
            self._check_taken_over(request, reply)
        elif isinstance(request, InitProducerId):
            self._check_identity(request, reply)
        elif isinstance(request, PrepareTransaction):
            self.log.prepared.check_prepared(self.log.state[request.transactional_id], request, reply)
        elif isinstance(request, CompleteTransaction):
            self.log.prepared.check_completed(request, reply)
        elif isinstance(request, EndTransaction):
            self._check_end(request, reply.producer)
        elif isinstance(request, BeginBranched):
            self._check_begun(request, reply)
        elif isinstance(request, OpenBranch):
            self._check_opened(request, reply.producer)
        elif isinstance(request, EndBranched):
            self._check_branched_end(request, reply.producer)
        else:
            self._check_added(request, reply)

    def _check_taken_over(self, request: TakePoolOver, reply: PoolReply) -> None:
        check_taken_over(request.transactional_id, reply, self.log.state)
        for name, slot in lost_slots(request.transactional_id, self.log.state).items():
            assert slot.state not in DECIDED or self.log.is_finished(name), "a slot has not all of its markers"

    def _check_refusal(self, request: Request, reply: Reply | BranchedReply | PoolReply) -> None:
        who = who_asks(request)
        if reply.error_code is ErrorCode.PRODUCER_FENCED and who is not None:
            logged = self.log.state.get(request.transactional_id)
            if logged is not None and is_lost(request.transactional_id, logged, self.log.state):
                return
            assert logged is None or who != holder_of(logged), "the one who has the id is fenced"

    def _check_identity(self, request: InitProducerId, reply: Reply) -> None:
        logged = self.log.state[request.transactional_id]
        self.log.prepared.check_kept(logged, request, reply)
        assert holder_of(logged) == reply.producer
        assert tag_of(logged) is None or logged.state is _State.ONGOING

    def _check_end(self, request: EndTransaction, producer: ProducerIdentity) -> None:
        _, decision = self.log.decisions[request.transactional_id]
        wanted = _State.PREPARE_COMMIT if request.commit else _State.PREPARE_ABORT
        assert decision.state is wanted, "the log says otherwise"
        raised = ProducerIdentity(request.producer.producer_id, request.producer.epoch + 1)
        decided_by = ProducerIdentity(decision.producer_id, decision.producer_epoch)
        if request.client_version >= 2:
            if decided_by.producer_id != request.producer.producer_id:
                check_end_of_kept(decision, request.producer)
            else:
                assert decided_by == raised
            assert producer.epoch <= LAST_EPOCH_EVER_GIVEN
        else:
            # In version 1 nothing tells a repeat from a second request. After a transaction in version 2, only a client
            # that ends what it never began can meet this.
            is_by_keeper = decided_by.producer_id != request.producer.producer_id
            assert is_by_keeper or decided_by == request.producer or decision.client_version >= 2
        logged = self.log.state[request.transactional_id]
        assert logged.state.name.endswith("COMMIT" if request.commit else "ABORT")
        assert holder_of(logged) == producer

    def _check_added(self, request: AddPartitions, reply: Reply) -> None:
        logged = self.log.state[request.transactional_id]
        branch = branches_of(logged).get(request.producer.producer_id)
        if request.verify_only and ErrorCode.NONE not in reply.partition_errors:
            return
        is_branch = branch is not None and request.producer.epoch == 0 and logged.state is _State.ONGOING
        assert is_branch or holder_of(logged) == request.producer
        assert logged.state is _State.ONGOING
        partitions = (branch if is_branch else logged).partitions
        if request.verify_only:
            told = zip(request.partitions, reply.partition_errors, strict=True)
            assert all((error is ErrorCode.NONE) is (partition in partitions) for partition, error in told)
        else:
            assert partitions.issuperset(request.partitions)

    def _check_begun(self, request: BeginBranched, reply: BranchedReply) -> None:
        logged = self.log.state[request.transactional_id]
        assert holder_of(logged) == reply.producer
        is_committed = is_settled_by(request.tag, committed_tag_of(logged))
        assert is_committed is reply.tag_is_committed, "the tag is not told truly"
        if request.is_shared and is_committed:
            assert reply.branch == NO_PRODUCER
            return
        assert tag_of(logged) == (None if is_committed else request.tag)
        if request.opens_branch:
            self._check_branch(logged, reply.branch)
        else:
            assert logged.state is _State.EMPTY or (request.is_shared and logged.state is _State.ONGOING)

    def _check_opened(self, request: OpenBranch, branch: ProducerIdentity) -> None:
        logged = self.log.state[request.transactional_id]
        assert holder_of(logged) == request.owner
        self._check_branch(logged, branch)

    def _check_branch(self, logged: Snapshot, branch: ProducerIdentity) -> None:
        assert logged.state is _State.ONGOING
        assert not branches_of(logged)[branch.producer_id].partitions, "a branch is told before it is in the log"

    def _check_branched_end(self, request: EndBranched, producer: ProducerIdentity) -> None:
        name, owner = request.transactional_id, request.owner
        _, decision = self.log.decisions[name]
        assert decision.state is (_State.PREPARE_COMMIT if request.commit else _State.PREPARE_ABORT)
        if decision.producer_id != owner.producer_id:
            check_end_of_kept(decision, owner)
        else:
            assert decision.producer_epoch == owner.epoch + 1
        if request.commit:
            committed = {key for key, branch in branches_of(decision).items() if branch.is_committed}
            assert committed == {branch.producer_id for branch in request.branches}, "other branches are committed"
        assert holder_of(self.log.state[name]) == producer

    # What others hear, which has to be committed

    def _hear_markers(self, markers: SendMarkers) -> None:
        said, length = self.said[key_of(markers)]
        assert said == markers
        assert length <= self.written_length, "markers of a decision that is not committed"
        self.markers.append(markers)

    def _hear(self, reply: Reply | BranchedReply | PoolReply) -> None:
        request = self.waiting.pop(reply.request_id)
        said, length = self.said.pop(reply.request_id, (None, 0))
        if said == reply:
            assert length <= self.written_length, "an answer rests on what is not committed"
        elif reply.error_code is ErrorCode.NONE:
            assert isinstance(request, InitProducerId)
            assert request.transactional_id is None, "an answer that rests on nothing"
        elif reply.error_code is ErrorCode.INVALID_REQUEST:
            assert isinstance(request, BeginBranched)
            assert slot_of(request.transactional_id), "only what no state allows is refused without a look at the log"
        else:
            assert reply.error_code in TRY_AGAIN, "an unknown outcome is told as a known one"
        if reply.error_code is ErrorCode.NONE:
            self._take(request, reply)

    def _take(self, request: Request, reply: Reply | BranchedReply | PoolReply) -> None:
        """A client goes on with the identity that it was given, if it was given any."""
        name, producer = request.transactional_id, reply.producer
        if isinstance(request, InitProducerId):
            assert 0 <= producer.epoch <= LAST_EPOCH_EVER_GIVEN
            self._give(producer, request.expected if name and request.expected else request.request_id)
            if reply.ongoing != NO_PRODUCER:
                self.tokens.setdefault(name, []).append(reply.ongoing)
        elif isinstance(request, TakePoolOver):
            assert 0 <= producer.epoch <= LAST_EPOCH_EVER_GIVEN
            self._give(producer, request.request_id)
            for left in reply.left:
                self.tokens.setdefault(left.transactional_id, []).append(left.producer)
        elif isinstance(request, BeginBranched):
            if request.is_shared and reply.tag_is_committed:
                return
            # Those who share a tag share its owner.
            self._give(producer, self.given_to.get(producer) if request.is_shared else request.request_id)
            if request.opens_branch:
                self._give(reply.branch, request.request_id)
                self.branches.setdefault(name, []).append(reply.branch)
        elif isinstance(request, EndBranched):
            self._give(producer, request.owner)
        elif isinstance(request, EndTransaction) and request.client_version >= 2:
            self._give(producer, request.producer)
        elif isinstance(request, OpenBranch):
            self._give(producer, request.request_id)
            self.branches.setdefault(name, []).append(producer)
            return
        elif isinstance(request, PrepareTransaction):
            self.tokens.setdefault(name, []).append(producer)
            return
        else:
            return
        if name is not None:
            self.identities.setdefault(name, []).append(producer)

    def _give(self, producer: ProducerIdentity, asked_by: object) -> None:
        known = self.given_to.setdefault(producer, asked_by)
        assert known == asked_by, f"{producer} was given to {known} and to {asked_by}"

    # Peace

    def settle(self) -> None:
        """Let everything that is under way come to its end."""
        self.refusal, self.fails_next = ErrorCode.NONE, False
        if not self.is_led:
            self.lead()
        self.load_again()
        for _ in range(1000):
            decided = [name for name, snapshot in self.log.state.items() if snapshot.state in DECIDED]
            if self.unwritten:
                self.write()
            elif self.undelivered:
                self.deliver(0)
            elif self.wanted_blocks:
                self.give_block(100)
            elif decided:
                self._finish(decided[0])
            else:
                self.check_quiet()
                return
        raise AssertionError("it never comes to an end")

    def _finish(self, transactional_id: str) -> None:
        """Report the markers of a decision; if they were reported and that was lost, time brings it back."""
        places = [place for place, markers in enumerate(self.markers) if markers.transactional_id == transactional_id]
        if places:
            self.report(places[-1])
        if not self.unwritten:
            self.tick(self.config.transaction_completion_log_delay_ms or self.config.request_hold_ms)

    def check_quiet(self) -> None:
        """With nothing under way, the coordinator knows what the log says, and nothing else."""
        assert replay(self.log.records) == self.log.state
        known = {found.transactional_id: found.current for found in self.coordinator}
        assert known.keys() == self.log.state.keys()
        for name, logged in self.log.state.items():
            current = known[name]
            if current != logged:
                assert logged.state in DECIDED, "the coordinator is ahead of the log by a decision"
                assert self.log.is_finished(name), "finished without its markers"
                assert current == completed(logged, current.updated_ms)

    def _complete_what_has_no_timeout(self) -> None:
        """An operator ends what only those who hold its token may end."""
        for name, snapshot in [*self.log.state.items()]:
            if snapshot.state is _State.ONGOING:
                is_prepared = prepared_ms_of(snapshot) >= 0
                assert is_prepared or snapshot.timeout_ms == NO_TIMEOUT_MS, "it did not time out"
                request_id = -1 - len(self.requests)
                token = token_of(snapshot)
                self.request(CompleteTransaction(request_id, name, token, commit=is_prepared, is_unprepared=True))
                self.settle()
                assert (name, token) in self.log.prepared.outcomes

    def see_everything_end(self) -> None:
        """Nobody waits for ever, and nothing stays open for ever."""
        self.settle()
        self.tick(self.config.request_hold_ms)
        self.settle()
        assert not self.waiting, "somebody waits for ever"
        self.tick(self.config.max_transaction_timeout_ms + 1)
        self.settle()
        self._complete_what_has_no_timeout()
        assert {snapshot.state for snapshot in self.log.state.values()}.isdisjoint({_State.ONGOING, *DECIDED})
