"""A transaction coordinator with the world around it: a log in memory, markers, replies, and a clock that one sets."""

from __future__ import annotations

from collections import deque

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.events import (
    AddPartitions,
    AppendFailed,
    AppendTransitions,
    BeginBranched,
    BranchedReply,
    Committed,
    Effect,
    EndBranched,
    EndTransaction,
    Event,
    InitProducerId,
    MarkersWritten,
    OpenBranch,
    PartitionAssigned,
    PartitionLoaded,
    ProducerIdsReceived,
    Reply,
    RequestProducerIds,
    SendMarkers,
    Tick,
)
from eagleray.broker.transactions.log_records import encode_key, encode_value, replay
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode

TRANSACTIONAL_ID = "checkout-1"
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
TIMEOUT_MS = 60_000


def snapshot(state: TransactionState, **fields: object) -> Snapshot:
    """A plausible snapshot in a state, with whatever else is given."""
    in_transaction = state in (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    )
    plausible = {
        "producer_id": 7,
        "producer_epoch": 5,
        "timeout_ms": TIMEOUT_MS,
        "partitions": frozenset({ORDERS_0}) if in_transaction else frozenset(),
        "start_ms": -1 if state is TransactionState.EMPTY else 0,
        "updated_ms": 0,
        "client_version": 1,
    }
    return Snapshot(state=state, **(plausible | fields))


class Transition(msgspec.Struct, frozen=True):
    """What one turn has appended of one transactional id."""

    append: AppendTransitions
    transactional_id: str
    snapshot: Snapshot | None


class CoordinatorDriver:
    """Feeds a coordinator and performs its effects when told to, one at a time or until nothing is left to do.

    `appends` are in the log that this coordinator leads, and not yet committed.
    """

    def __init__(
        self,
        config: CoordinatorConfig | None = None,
        *,
        loaded: dict[str, Snapshot] | None = None,
        log_partitions: int = 1,
        producer_ids: int = 1000,
    ) -> None:
        # Every end is logged at once, unless a test is about those that are not, so that each step shows in the log.
        self.config = config or CoordinatorConfig(
            transaction_state_log_num_partitions=log_partitions, transaction_completion_log_delay_ms=0
        )
        self.refusal = ErrorCode.NONE
        """What the log says before anything is appended."""
        self.coordinator = TransactionCoordinator(self.config, lambda partition, epoch: self.refusal)
        self.now_ms = 0
        self.coordinator_epoch = 1
        self.records: list[tuple[bytes, bytes | None]] = [
            (encode_key(name), encode_value(snapshot)) for name, snapshot in (loaded or {}).items()
        ]
        self.appends: deque[AppendTransitions] = deque()
        self.markers: deque[SendMarkers] = deque()
        self.written: list[SendMarkers] = []
        self.replies: dict[int, Reply | BranchedReply] = {}
        self.asked_for_ids = 0
        self._request_id = 0
        for log_partition in range(log_partitions):
            self.send(PartitionAssigned(log_partition, self.coordinator_epoch))
            self.send(PartitionLoaded(log_partition, self.coordinator_epoch, loaded or {}))
        if producer_ids:
            self.send(ProducerIdsReceived(100, producer_ids))

    # Telling it something

    def send(self, *events: Event) -> list[Effect]:
        """Tell it what happened in one turn."""
        effects = self.coordinator.handle_all(events, self.now_ms)
        for effect in effects:
            if isinstance(effect, AppendTransitions):
                self.appends.append(effect)
            elif isinstance(effect, SendMarkers):
                self.markers.append(effect)
            elif isinstance(effect, Reply | BranchedReply):
                assert effect.request_id not in self.replies, "a request is answered once"
                self.replies[effect.request_id] = effect
            else:
                assert isinstance(effect, RequestProducerIds)
                self.asked_for_ids += 1
        return effects

    def next_request_id(self) -> int:
        self._request_id += 1
        return self._request_id

    def init(
        self, transactional_id: str | None = TRANSACTIONAL_ID, expected: ProducerIdentity | None = None, **fields: int
    ) -> int:
        request_id = self.next_request_id()
        self.send(InitProducerId(request_id, transactional_id, expected=expected, **fields))
        return request_id

    def add(
        self,
        producer: ProducerIdentity,
        *partitions: TopicPartition,
        version: int = 1,
        verify_only: bool = False,
        transactional_id: str = TRANSACTIONAL_ID,
    ) -> int:
        request_id = self.next_request_id()
        partitions = partitions or (ORDERS_0,)
        self.send(AddPartitions(request_id, transactional_id, producer, partitions, version, verify_only))
        return request_id

    def end(
        self,
        producer: ProducerIdentity,
        *,
        commit: bool = True,
        version: int = 1,
        transactional_id: str = TRANSACTIONAL_ID,
    ) -> int:
        request_id = self.next_request_id()
        self.send(EndTransaction(request_id, transactional_id, producer, commit, version))
        return request_id

    def begin_branched(self, tag: str = "batch-1", *, transactional_id: str = TRANSACTIONAL_ID, **fields: int) -> int:
        request_id = self.next_request_id()
        self.send(BeginBranched(request_id, transactional_id, tag, **fields))
        return request_id

    def open_branch(self, owner: ProducerIdentity, transactional_id: str = TRANSACTIONAL_ID) -> int:
        request_id = self.next_request_id()
        self.send(OpenBranch(request_id, transactional_id, owner))
        return request_id

    def end_branched(
        self,
        owner: ProducerIdentity,
        *branches: ProducerIdentity,
        commit: bool = True,
        transactional_id: str = TRANSACTIONAL_ID,
    ) -> int:
        request_id = self.next_request_id()
        self.send(EndBranched(request_id, transactional_id, owner, commit, branches))
        return request_id

    def tick(self, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        due_ms = self.coordinator.next_due_ms
        effects = self.send(Tick())
        assert not effects or due_ms <= self.now_ms, "what time makes necessary was said to be due"
        return effects

    # Doing what it asks for

    def append(self) -> Transition:
        """Let the oldest append be committed; return the last of its transitions."""
        append = self.appends.popleft()
        for transactional_id, snapshot in append.transitions:
            value = None if snapshot is None else encode_value(snapshot)
            self.records.append((encode_key(transactional_id), value))
        self.send(Committed(append.log_partition, append.coordinator_epoch, append.position))
        return Transition(append, *append.transitions[-1])

    def lose(self) -> None:
        """Let the log fail to take what it was just given; what it has taken before is committed, and loaded again."""
        lost = self.appends.pop()
        self.send(AppendFailed(lost.log_partition, lost.coordinator_epoch))
        for append in self.appends:
            for transactional_id, snapshot in append.transitions:
                value = None if snapshot is None else encode_value(snapshot)
                self.records.append((encode_key(transactional_id), value))
        self.appends.clear()
        self.send(PartitionLoaded(lost.log_partition, lost.coordinator_epoch, self.logged()))

    def write_markers(self) -> SendMarkers:
        """Let the oldest markers be written everywhere."""
        markers = self.markers.popleft()
        self.written.append(markers)
        self.report(markers)
        return markers

    def report(self, markers: SendMarkers) -> None:
        self.send(
            MarkersWritten(markers.transactional_id, markers.log_partition, markers.coordinator_epoch, markers.decision)
        )

    def settle(self) -> None:
        """Do all that is asked for until nothing is left."""
        while self.appends or self.markers:
            if self.appends:
                self.append()
            else:
                self.write_markers()

    # Asking about it

    def reply_to(self, request_id: int) -> Reply | BranchedReply:
        return self.replies[request_id]

    def error_of(self, request_id: int) -> ErrorCode:
        return self.replies[request_id].error_code

    def current(self, transactional_id: str = TRANSACTIONAL_ID) -> Snapshot:
        found = self.coordinator.find(transactional_id)
        assert not isinstance(found, ErrorCode), found
        return found.current

    def logged(self) -> dict[str, Snapshot]:
        return replay(self.records)

    # Going through whole steps

    def initialized(self, expected: ProducerIdentity | None = None) -> ProducerIdentity:
        request_id = self.init(expected=expected)
        self.settle()
        reply = self.reply_to(request_id)
        assert reply.error_code is ErrorCode.NONE
        return reply.producer

    def begun(self, producer: ProducerIdentity, version: int = 1) -> None:
        request_id = self.add(producer, version=version)
        self.settle()
        assert self.error_of(request_id) is ErrorCode.NONE

    def ended(self, producer: ProducerIdentity, *, commit: bool = True, version: int = 1) -> ProducerIdentity:
        request_id = self.end(producer, commit=commit, version=version)
        self.settle()
        reply = self.reply_to(request_id)
        assert reply.error_code is ErrorCode.NONE
        return reply.producer

    def owned(self, tag: str = "batch-1") -> ProducerIdentity:
        """A driver that has begun a transaction with branches."""
        request_id = self.begin_branched(tag)
        self.settle()
        reply = self.reply_to(request_id)
        assert (reply.error_code, reply.tag_is_committed) == (ErrorCode.NONE, False)
        return reply.producer

    def opened(self, owner: ProducerIdentity, *partitions: TopicPartition) -> ProducerIdentity:
        """A branch in which these partitions have been written."""
        request_id = self.open_branch(owner)
        self.settle()
        reply = self.reply_to(request_id)
        assert reply.error_code is ErrorCode.NONE
        if partitions:
            added = self.add(reply.producer, *partitions, version=2)
            self.settle()
            assert self.error_of(added) is ErrorCode.NONE
        return reply.producer

    def restarted(self) -> CoordinatorDriver:
        """Another coordinator, which knows nothing but the log; markers that were not written are lost."""
        successor = CoordinatorDriver(self.config, producer_ids=0, log_partitions=0)
        successor.now_ms = self.now_ms
        successor.coordinator_epoch = self.coordinator_epoch + 1
        successor.records = list(self.records)
        successor.send(PartitionAssigned(0, successor.coordinator_epoch))
        successor.send(PartitionLoaded(0, successor.coordinator_epoch, self.logged()))
        successor.send(ProducerIdsReceived(50_000 * successor.coordinator_epoch, 1000))
        return successor
