"""A transaction coordinator with the world around it: a log in memory, markers, replies, and a clock that one sets."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.runtime.connection_bindings import ClientConnection
from eagleray.broker.runtime.coordinator_events import AppendRecords, PartitionAssigned, PartitionLoaded
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    BranchedReply,
    CompleteTransaction,
    Effect,
    EndBranched,
    EndTransaction,
    HeldTooLong,
    InitProducerId,
    MarkersWritten,
    OpenBranch,
    PrepareTransaction,
    ProducerIdsReceived,
    Reply,
    RequestProducerIds,
    SendMarkers,
)
from eagleray.broker.transactions.log_records import encode_key, encode_value, replay
from eagleray.broker.transactions.resolver import ResolverKind, ResolverName
from eagleray.broker.transactions.resolver_events import AskResolver, ResolverAnswered
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.runtime_driver import RuntimeDriver

TRANSACTIONAL_ID = "checkout-1"
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
TIMEOUT_MS = 60_000
RESOLVER = ResolverName(ResolverKind.ACTOR, "orders", "shop", "resolve", 1000, 500, 3, False)


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

    append: AppendRecords
    transactional_id: str
    snapshot: Snapshot | None


def never_refuses(log_partition: int, coordinator_epoch: int) -> ErrorCode:
    """The word of a log that takes every append."""
    return ErrorCode.NONE


class CoordinatorDriver(RuntimeDriver):
    """A transaction coordinator with its log, whose markers are written when a test says so."""

    tick_event = Tick()

    def __init__(
        self,
        config: CoordinatorConfig | None = None,
        *,
        loaded: dict[str, Snapshot] | None = None,
        log_partitions: int = 1,
        producer_ids: int = 1000,
    ) -> None:
        super().__init__(now_ms=0)
        # Every end is logged at once, unless a test is about those that are not, so that each step shows in the log.
        self.config = config or CoordinatorConfig(
            transaction_state_log_num_partitions=log_partitions, transaction_completion_log_delay_ms=0
        )
        self.coordinator = TransactionCoordinator(self.config, self.check_append)
        self.coordinator_epoch = 1
        self.records: list[tuple[bytes, bytes | None]] = [
            (encode_key(name), encode_value(snapshot)) for name, snapshot in (loaded or {}).items()
        ]
        self.markers: deque[SendMarkers] = deque()
        self.written: list[SendMarkers] = []
        self.held_too_long: list[HeldTooLong] = []
        self.questions: list[AskResolver] = []
        self.asked_for_ids = 0
        for log_partition in range(log_partitions):
            self.send(PartitionAssigned(log_partition, self.coordinator_epoch))
            self.send(PartitionLoaded(log_partition, self.coordinator_epoch, loaded or {}))
        if producer_ids:
            self.send(ProducerIdsReceived(100, producer_ids))

    # The log

    def write(self, append: AppendRecords) -> None:
        for transactional_id, snapshot in append.records:
            value = None if snapshot is None else encode_value(snapshot)
            self.records.append((encode_key(transactional_id), value))

    def take_back(self, append: AppendRecords) -> None:
        del self.records[-len(append.records) :]

    def load(self, log_partition: int = 0) -> dict[str, Snapshot]:
        return replay(self.records)

    # Telling it something

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, SendMarkers):
            self.markers.append(effect)
        elif isinstance(effect, HeldTooLong):
            self.held_too_long.append(effect)
        elif isinstance(effect, AskResolver):
            self.questions.append(effect)
        else:
            assert isinstance(effect, RequestProducerIds)
            self.asked_for_ids += 1

    def init(
        self,
        transactional_id: str | None = TRANSACTIONAL_ID,
        expected: ProducerIdentity | None = None,
        client: ClientConnection | None = None,
        **fields: object,
    ) -> int:
        request_id = self.next_request_id()
        self.send(InitProducerId(request_id, transactional_id, expected=expected, client=client, **fields))
        return request_id

    def add(
        self,
        producer: ProducerIdentity,
        *partitions: TopicPartition,
        version: int = 1,
        verify_only: bool = False,
        transactional_id: str = TRANSACTIONAL_ID,
        client: ClientConnection | None = None,
    ) -> int:
        request_id = self.next_request_id()
        partitions = partitions or (ORDERS_0,)
        self.send(AddPartitions(request_id, transactional_id, producer, partitions, version, verify_only, client))
        return request_id

    def end(
        self,
        producer: ProducerIdentity,
        *,
        commit: bool = True,
        version: int = 1,
        transactional_id: str = TRANSACTIONAL_ID,
        client: ClientConnection | None = None,
    ) -> int:
        request_id = self.next_request_id()
        self.send(EndTransaction(request_id, transactional_id, producer, commit, version, client))
        return request_id

    def begin_branched(self, tag: str = "batch-1", *, transactional_id: str = TRANSACTIONAL_ID, **fields: Any) -> int:
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

    def prepare(
        self,
        producer: ProducerIdentity,
        *branches: ProducerIdentity,
        context: bytes = b"",
        transactional_id: str = TRANSACTIONAL_ID,
        resolver: ResolverName | None = None,
    ) -> int:
        request_id = self.next_request_id()
        self.send(PrepareTransaction(request_id, transactional_id, producer, context, branches, resolver))
        return request_id

    def complete(
        self,
        token: ProducerIdentity,
        *,
        commit: bool = True,
        is_unprepared: bool = False,
        transactional_id: str = TRANSACTIONAL_ID,
    ) -> int:
        request_id = self.next_request_id()
        self.send(CompleteTransaction(request_id, transactional_id, token, commit, is_unprepared))
        return request_id

    def answer(self, question: AskResolver, *, commit: bool | None) -> None:
        """Let a resolver answer."""
        self.send(ResolverAnswered(question.transactional_id, question.prepared, question.attempt, commit))

    # Doing what it asks for

    def append(self) -> Transition:
        """Let the oldest append be committed; return the last of its transitions."""
        append = self.commit_oldest()
        return Transition(append, *append.records[-1])

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

    def current(self, transactional_id: str = TRANSACTIONAL_ID) -> Snapshot:
        found = self.coordinator.find(transactional_id)
        assert not isinstance(found, ErrorCode), found
        return found.current

    def logged(self) -> dict[str, Snapshot]:
        return self.load()

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

    def prepared(
        self, *partitions: TopicPartition, context: bytes = b"", resolver: ResolverName | None = None
    ) -> ProducerIdentity:
        """The token of a prepared transaction, which is its producer's identity too."""
        producer = self.initialized()
        if partitions:
            self.add(producer, *partitions, version=2)
        request_id = self.prepare(producer, context=context, resolver=resolver)
        self.settle()
        reply = self.reply_to(request_id)
        assert reply.error_code is ErrorCode.NONE
        return reply.producer

    def kept(self, expected: ProducerIdentity | None = None, **fields: object) -> tuple[ProducerIdentity, ...]:
        """The identity of a producer that keeps what is open, and the token of that."""
        request_id = self.init(expected=expected, keep_prepared=True, **fields)
        self.settle()
        reply = self.reply_to(request_id)
        assert isinstance(reply, Reply)
        assert reply.error_code is ErrorCode.NONE
        return reply.producer, reply.ongoing

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

    def pass_time(self, until_ms: int) -> None:
        """Tick whenever something is due, as a node does."""
        while self.coordinator.next_due_ms <= until_ms:
            self.tick(max(self.coordinator.next_due_ms - self.now_ms, 0))
            self.settle()
        self.now_ms = until_ms

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
