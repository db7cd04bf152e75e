"""A coordinator in a world that loses, delays, repeats and restarts, and a model that says what must never happen.

The model knows nothing of the coordinator's tables. It looks at what is in the log, at what has been answered, and at
which markers have been written, and holds them against each other.
"""

from __future__ import annotations

from msgspec.structs import replace

from eagleray.broker.identities import NO_EPOCH, NO_PRODUCER_ID, ProducerIdentity, TopicPartition
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    BranchedReply,
    EndBranched,
    EndTransaction,
    Event,
    InitProducerId,
    LogTransition,
    MarkersWritten,
    OpenBranch,
    PartitionAssigned,
    PartitionLoaded,
    PartitionResigned,
    ProducerIdsReceived,
    Reply,
    Request,
    RequestProducerIds,
    SendMarkers,
    Tick,
    TransitionLost,
    TransitionsLogged,
)
from eagleray.broker.transactions.log_records import encode_key, encode_value, replay
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.transitions import completed
from eagleray.protocol.errors import ErrorCode
from tests.support.branch_model import BranchModel, branches_of, committed_tag_of, tag_of

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


class LogModel:
    """The log, and what it must never show."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.state: dict[str, Snapshot] = {}
        self.highest_epoch: dict[int, int] = {}
        self.decisions: dict[str, tuple[int, Snapshot]] = {}
        """The last decision of each id: which record it was, and what it said."""
        self.branches = BranchModel()
        self.finished_decisions: set[int] = set()
        """Records whose markers have all been written."""

    def is_finished(self, transactional_id: str) -> bool:
        """Whether the log may go on behind the last decision of an id as if it had heard of its end."""
        index, decision = self.decisions[transactional_id]
        return index in self.finished_decisions or not endings_of(decision)

    def write(self, transactional_id: str, snapshot: Snapshot | None) -> None:
        before = self.state.get(transactional_id)
        is_end = snapshot is not None and snapshot.state in (_State.COMPLETE_COMMIT, _State.COMPLETE_ABORT)
        if before is not None and before.state in DECIDED and not is_end:
            assert self.is_finished(transactional_id), "the next transaction begins before the markers are written"
            end = completed(before, before.updated_ms)
            self.branches.see(before, end)
            self._check(before, end)
            before = end
        before_state = None if before is None else before.state
        after_state = None if snapshot is None else snapshot.state
        assert after_state in NEXT_IN_LOG[before_state], f"{before_state} is followed by {after_state}"
        self.branches.see(before, snapshot)
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
            assert after.producer_epoch <= before.producer_epoch + 1, "an epoch is left out"


def endings_of(decision: Snapshot) -> dict[ProducerIdentity, tuple[bool, frozenset[TopicPartition]]]:
    """What a decision wants written: for each producer that wrote something, whether it commits, and where."""
    committed = decision.state is _State.PREPARE_COMMIT
    endings = {ProducerIdentity(decision.producer_id, decision.producer_epoch): (committed, decision.partitions)}
    for producer_id, branch in branches_of(decision).items():
        assert committed or not branch.is_committed, "a branch outlives its transaction"
        endings[ProducerIdentity(producer_id, 1)] = branch.is_committed, branch.partitions
    return {producer: ending for producer, ending in endings.items() if ending[1]}


def holder_of(snapshot: Snapshot) -> ProducerIdentity:
    if snapshot.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdentity(snapshot.next_producer_id, snapshot.next_producer_epoch)
    return ProducerIdentity(snapshot.producer_id, snapshot.producer_epoch)


def endings_in(markers: SendMarkers) -> dict[ProducerIdentity, tuple[bool, frozenset[TopicPartition]]]:
    """What is to be written, as `endings_of` gives it."""
    assert all(branch.partitions for branch in markers.branches)
    own = {markers.producer: (markers.commit, markers.partitions)} if markers.partitions else {}
    return own | {branch.producer: (branch.commit, branch.partitions) for branch in markers.branches}


def who_asks(request: Request) -> ProducerIdentity | None:
    if isinstance(request, InitProducerId):
        return request.expected
    if isinstance(request, BeginBranched):
        return None
    return request.producer if isinstance(request, AddPartitions | EndTransaction) else request.owner


class CoordinatorWorld:
    """Drives a coordinator and checks every single effect."""

    def __init__(self, initial: dict[str, Snapshot], completion_log_delay_ms: int = 0) -> None:
        self.config = CoordinatorConfig(
            transaction_completion_log_delay_ms=completion_log_delay_ms,
            transaction_state_log_num_partitions=1,
            transactional_id_expiration_ms=1_000_000,
            transaction_remove_expired_transaction_cleanup_interval_ms=1000,
            request_hold_limit=3,
        )
        self.now_ms = 0
        self.log = LogModel()
        self.unwritten: list[LogTransition] = []
        """Asked for, and not in the log."""
        self.undelivered: list[LogTransition] = []
        """In the log, and the coordinator has not been told."""
        self.stale: list[Event] = []
        """Answers to a coordinator that is no more."""
        self.markers: list[SendMarkers] = []
        self.marked_decisions: dict[SendMarkers, int] = {}
        """Which record of the log each request for markers is about."""
        self.requests: list[Request] = []
        self.waiting: dict[int, Request] = {}
        self.at_hand: Request | None = None
        self.identities: dict[str, list[ProducerIdentity]] = {}
        self.branches: dict[str, list[ProducerIdentity]] = {}
        """Branches that somebody has been told of, the newest last."""
        self.given_to: dict[ProducerIdentity, object] = {}
        self.fenced_in_memory: set[str] = set()
        """Ids whose producer was to be fenced, which the log did not take."""
        self.wanted_blocks = 0
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
        self.coordinator_epoch = 0
        self.is_led = False
        self.start_coordinator()

    # The coordinator's life

    def start_coordinator(self) -> None:
        self.coordinator = TransactionCoordinator(self.config)
        self.wanted_blocks = 0
        self.lead()

    def lead(self) -> None:
        """Assign the partition at a new epoch, and load it from nothing but the log."""
        self.coordinator_epoch += 1
        self.is_led = True
        self.send(PartitionAssigned(LOG_PARTITION, self.coordinator_epoch))
        loaded = replay(self.log.records)
        assert loaded == self.log.state
        before = len(self.markers)
        self.send(PartitionLoaded(LOG_PARTITION, self.coordinator_epoch, loaded))
        sent = {markers.transactional_id: markers for markers in self.markers[before:]}
        decided = {
            name: snapshot for name, snapshot in loaded.items() if snapshot.state in DECIDED and endings_of(snapshot)
        }
        assert sent.keys() == decided.keys(), "the markers of decided transactions are sent again, and no others"
        assert all(markers.coordinator_epoch == self.coordinator_epoch for markers in sent.values())
        assert all(endings_in(sent[name]) == endings_of(decided[name]) for name in sent)

    def lose_leadership(self, written_bits: int) -> None:
        """What was on its way to the log gets there or not; nobody here is told in time."""
        self._abandon_appends(written_bits)
        self.is_led = False
        self.send(PartitionResigned(LOG_PARTITION, self.coordinator_epoch))
        assert {request.transactional_id for request in self.waiting.values()} <= {None}, "not everybody was told"

    def crash(self, written_bits: int) -> None:
        """The process dies, and its successor starts; clients get no answers."""
        self._abandon_appends(written_bits)
        self.waiting.clear()
        self.start_coordinator()

    def _abandon_appends(self, written_bits: int) -> None:
        for place, append in enumerate(self.unwritten):
            if written_bits >> place & 1:
                self.log.write(append.transactional_id, append.snapshot)
                self.undelivered.append(append)
            else:
                error = TransitionLost(append.transactional_id, append.coordinator_epoch, ErrorCode.NOT_COORDINATOR)
                self.stale.append(error)
        self.unwritten.clear()
        self.stale += [
            TransitionsLogged((append.transactional_id,), append.coordinator_epoch) for append in self.undelivered
        ]
        self.undelivered.clear()
        self.fenced_in_memory.clear()

    # Events

    def send(self, event: Event) -> None:
        due_ms = self.coordinator.next_due_ms
        effects = self.coordinator.handle(event, self.now_ms)
        is_unforeseen = isinstance(event, Tick) and effects and due_ms > self.now_ms
        assert not is_unforeseen, "what time makes necessary was said to be due"
        for effect in effects:
            if isinstance(effect, LogTransition):
                self._on_append(effect)
            elif isinstance(effect, SendMarkers):
                self._on_markers(effect)
            elif isinstance(effect, Reply | BranchedReply):
                self._on_reply(effect)
            else:
                assert isinstance(effect, RequestProducerIds)
                self.wanted_blocks += 1
                assert self.wanted_blocks == 1, "one block is asked for at a time"

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

    def write(self, place: int) -> None:
        if self.unwritten:
            append = self.unwritten.pop(place % len(self.unwritten))
            self.log.write(append.transactional_id, append.snapshot)
            self.undelivered.append(append)

    def deliver(self, place: int) -> None:
        if self.undelivered:
            append = self.undelivered.pop(place % len(self.undelivered))
            self.fenced_in_memory.discard(append.transactional_id)
            self.send(TransitionsLogged((append.transactional_id,), append.coordinator_epoch))

    def lose(self, place: int) -> None:
        if self.unwritten:
            append = self.unwritten.pop(place % len(self.unwritten))
            current = self.log.state.get(append.transactional_id)
            if append.snapshot is not None and current is not None:
                is_raised = append.snapshot.producer_epoch > current.producer_epoch
                is_fence = append.snapshot.state is _State.PREPARE_ABORT and is_raised
                if is_fence and append.snapshot.last_producer_epoch == NO_EPOCH:
                    self.fenced_in_memory.add(append.transactional_id)
            error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self.send(TransitionLost(append.transactional_id, append.coordinator_epoch, error_code))

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

    def tick(self, after_ms: int) -> None:
        self.now_ms += after_ms
        self.send(Tick())

    # Effects

    def _on_append(self, append: LogTransition) -> None:
        assert append.coordinator_epoch == self.coordinator_epoch
        assert self.is_led
        under_way = {other.transactional_id for other in self.unwritten + self.undelivered}
        assert append.transactional_id not in under_way, "two transitions at once"
        if append.snapshot is not None and append.snapshot.state.name.startswith("COMPLETE"):
            assert self.log.is_finished(append.transactional_id), "completed without its markers"
        if isinstance(self.at_hand, InitProducerId) and self.at_hand.expected is not None:
            self._see_named_init_changes(append, self.at_hand.expected)
        self.unwritten.append(append)

    def _see_named_init_changes(self, append: LogTransition, named: ProducerIdentity) -> None:
        logged = self.log.state.get(append.transactional_id)
        if logged is not None and logged.state is _State.ONGOING:
            assert named == holder_of(logged), "a zombie aborts the transaction of its successor"

    def _on_markers(self, markers: SendMarkers) -> None:
        index, decision = self.log.decisions[markers.transactional_id]
        assert markers.commit is (decision.state is _State.PREPARE_COMMIT)
        assert markers.producer == ProducerIdentity(decision.producer_id, decision.producer_epoch)
        assert endings_in(markers) == endings_of(decision)
        assert markers.coordinator_epoch == self.coordinator_epoch
        self.markers.append(markers)
        self.marked_decisions[markers] = index

    def _on_reply(self, reply: Reply | BranchedReply) -> None:
        request = self.waiting.pop(reply.request_id)
        assert isinstance(reply, BranchedReply) is isinstance(request, BeginBranched)
        if reply.error_code is not ErrorCode.NONE:
            self._on_refusal(request, reply)
        elif isinstance(request, InitProducerId):
            self._on_identity(request, reply.producer)
        elif isinstance(request, EndTransaction):
            self._on_end(request, reply.producer)
        elif isinstance(request, BeginBranched):
            self._on_begun(request, reply)
        elif isinstance(request, OpenBranch):
            self._on_opened(request, reply.producer)
        elif isinstance(request, EndBranched):
            self._on_branched_end(request, reply.producer)
        else:
            self._on_added(request, reply)

    def _on_refusal(self, request: Request, reply: Reply) -> None:
        who = who_asks(request)
        name = request.transactional_id
        if reply.error_code is ErrorCode.PRODUCER_FENCED and who is not None and name not in self.fenced_in_memory:
            logged = self.log.state.get(name)
            assert logged is None or who != holder_of(logged), "the one who has the id is fenced"

    def _on_identity(self, request: InitProducerId, producer: ProducerIdentity) -> None:
        assert 0 <= producer.epoch <= LAST_EPOCH_EVER_GIVEN
        if request.transactional_id is None:
            self._give(producer, request.request_id)
            return
        logged = self.log.state[request.transactional_id]
        assert logged.state is _State.EMPTY
        assert holder_of(logged) == producer
        assert tag_of(logged) is None
        self._give(producer, request.expected or request.request_id)
        self.identities.setdefault(request.transactional_id, []).append(producer)

    def _on_end(self, request: EndTransaction, producer: ProducerIdentity) -> None:
        assert request.transactional_id not in self.fenced_in_memory, "a fenced producer goes on"
        _, decision = self.log.decisions[request.transactional_id]
        wanted = _State.PREPARE_COMMIT if request.commit else _State.PREPARE_ABORT
        assert decision.state is wanted, "the log says otherwise"
        raised = ProducerIdentity(request.producer.producer_id, request.producer.epoch + 1)
        decided_by = ProducerIdentity(decision.producer_id, decision.producer_epoch)
        if request.client_version >= 2:
            assert decided_by == raised
        else:
            # In version 1 nothing tells a repeat from a second request. After a transaction in version 2, only a client
            # that ends what it never began can meet this.
            assert decided_by == request.producer or decision.client_version >= 2
        logged = self.log.state[request.transactional_id]
        assert logged.state.name.endswith("COMMIT" if request.commit else "ABORT")
        assert holder_of(logged) == producer
        if request.client_version >= 2:
            assert producer.epoch <= LAST_EPOCH_EVER_GIVEN
            self._give(producer, request.producer)
            self.identities[request.transactional_id].append(producer)

    def _on_added(self, request: AddPartitions, reply: Reply) -> None:
        logged = self.log.state[request.transactional_id]
        branch = branches_of(logged).get(request.producer.producer_id)
        if request.verify_only and ErrorCode.NONE not in reply.partition_errors:
            return
        assert request.transactional_id not in self.fenced_in_memory, "a fenced producer goes on"
        is_branch = branch is not None and request.producer.epoch == 0 and logged.state is _State.ONGOING
        is_known = is_branch or holder_of(logged) == request.producer
        assert is_known or self._is_being_decided(request.transactional_id)
        if not request.verify_only:
            assert logged.state is _State.ONGOING
            assert (branch if is_branch else logged).partitions.issuperset(request.partitions)

    # Branches

    def _on_begun(self, request: BeginBranched, reply: BranchedReply) -> None:
        logged = self.log.state[request.transactional_id]
        assert logged.state is _State.EMPTY
        assert holder_of(logged) == reply.producer
        assert (committed_tag_of(logged) == request.tag) is reply.tag_is_committed, "the tag is not told truly"
        assert tag_of(logged) == (None if reply.tag_is_committed else request.tag)
        self._give(reply.producer, request.request_id)
        self.identities.setdefault(request.transactional_id, []).append(reply.producer)

    def _on_opened(self, request: OpenBranch, branch: ProducerIdentity) -> None:
        assert request.transactional_id not in self.fenced_in_memory, "a fenced owner goes on"
        logged = self.log.state[request.transactional_id]
        assert logged.state is _State.ONGOING
        assert holder_of(logged) == request.owner
        assert not branches_of(logged)[branch.producer_id].partitions, "a branch is told before it is in the log"
        self._give(branch, request.request_id)
        self.branches.setdefault(request.transactional_id, []).append(branch)

    def _on_branched_end(self, request: EndBranched, producer: ProducerIdentity) -> None:
        name, owner = request.transactional_id, request.owner
        assert name not in self.fenced_in_memory, "a fenced owner goes on"
        _, decision = self.log.decisions[name]
        assert decision.state is (_State.PREPARE_COMMIT if request.commit else _State.PREPARE_ABORT)
        assert (decision.producer_id, decision.producer_epoch) == (owner.producer_id, owner.epoch + 1)
        if request.commit:
            committed = {key for key, branch in branches_of(decision).items() if branch.is_committed}
            assert committed == {branch.producer_id for branch in request.branches}, "other branches are committed"
        assert holder_of(self.log.state[name]) == producer
        self._give(producer, owner)
        self.identities[name].append(producer)

    def _is_being_decided(self, transactional_id: str) -> bool:
        """A verification may be answered from before a decision that is in the log, but not yet delivered."""
        return any(append.transactional_id == transactional_id for append in self.undelivered)

    def _give(self, producer: ProducerIdentity, asked_by: object) -> None:
        known = self.given_to.setdefault(producer, asked_by)
        assert known == asked_by, f"{producer} was given to {known} and to {asked_by}"

    # Peace

    def settle(self) -> None:
        """Let everything that is under way come to its end."""
        if not self.is_led:
            self.lead()
        for _ in range(1000):
            decided = [name for name, snapshot in self.log.state.items() if snapshot.state in DECIDED]
            if self.unwritten:
                self.write(0)
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
            self.tick(self.config.transaction_completion_log_delay_ms)

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

    def see_everything_end(self) -> None:
        """Nobody waits for ever, and nothing stays open for ever."""
        self.settle()
        self.tick(self.config.request_hold_ms)
        self.settle()
        assert not self.waiting, "somebody waits for ever"
        self.tick(self.config.max_transaction_timeout_ms + 1)
        self.settle()
        assert {snapshot.state for snapshot in self.log.state.values()}.isdisjoint({_State.ONGOING, *DECIDED})
