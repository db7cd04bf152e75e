"""Leaders of partitions with followers, a network between them, and a controller, with a model of what may not happen.

Every batch has a producer of its own, so that the logs tell which of them, and of their markers, they have.
"""

from itertools import count
from typing import Any

import msgspec

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import Isolation, PartitionLog
from eagleray.broker.messages import Marker
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.partitions.acknowledging import acknowledge
from eagleray.broker.partitions.events import (
    DeleteRecords,
    Event,
    Fetch,
    Fetched,
    FetchPartition,
    MarkersAnswered,
    PartitionAdvanced,
    Produce,
    Produced,
    RecordsDeleted,
    TransactionVerified,
    VerifyTransaction,
    WriteMarkers,
)
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.replication.events import (
    BrokerHeartbeatAnswered,
    IsrAnswered,
    LeaderEffect,
    ProposeIsr,
    PushAnswered,
    Replicated,
    Resigned,
    SendPush,
)
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, data_batch, whole_batches
from tests.support.leading import ORDERS, PAYMENTS, alone, open_log
from tests.support.logs import everything
from tests.support.replicas import INCARNATIONS, follower_of, held_lease, leader_of
from tests.support.simulated_disk import SimulatedDisk

LEADER = 1
FOLLOWERS = (2, 3)


class ReplicatedWorld:
    """Leads `ORDERS` with two followers, for one epoch after the other, and `PAYMENTS` alone.

    `send` collects the events of a turn, and `turn` has them handled. The network and the controller do what they are
    told to do with what is on its way.
    """

    def __init__(self, least_in_sync: int) -> None:
        self.steady_ms = 5000
        self.least_in_sync = least_in_sync
        self.logs = {node_id: open_log(SimulatedDisk()) for node_id in (LEADER, *FOLLOWERS)}
        self.payments = open_log(SimulatedDisk(), PAYMENTS)
        self.followers = {node_id: follower_of(self.logs[node_id], node_id) for node_id in FOLLOWERS}
        self.state = PartitionImage(LEADER, 0, tuple(self.logs), tuple(self.logs))
        self.lease = held_lease(self.steady_ms)
        self.leaders = PartitionLeaders()
        self.leaders.lead(PAYMENTS, alone(self.payments, partition=PAYMENTS))
        self.pushes: list[SendPush] = []
        self.answers: list[PushAnswered] = []
        self.proposals: list[ProposeIsr] = []
        self.decisions: list[IsrAnswered] = []
        self.codes: dict[ErrorCode, int] = {}
        self.sent: list[Produce] = []
        self.begun: list[Produce] = []
        self._ids = count(1)
        self._sequence = count()
        self._events: list[Event] = []
        self._outstanding: dict[int, Event] = {}
        self.replication = self._begin()

    # Leading

    def _begin(self) -> ReplicationLeader:
        self.state = msgspec.structs.replace(
            self.state, leader_epoch=self.state.leader_epoch + 1, partition_epoch=self.state.partition_epoch + 1
        )
        replication = self.replication = leader_of(
            self.logs[LEADER], self.state, lease=self.lease, min_insync_replicas=self.least_in_sync
        )
        self.leaders.lead(ORDERS, replication)
        self._tell(replication.learn(self.state, INCARNATIONS, self.steady_ms))
        return replication

    def resign(self, *, replication_first: bool, turn_between: bool) -> None:
        """Hand the partition over, to a leader of the next epoch on the same node."""
        effects: list[LeaderEffect] = []
        if replication_first:
            effects = self.replication.resign()
            assert isinstance(effects[-1], Resigned)
            self._tell(effects)
            if turn_between:
                self.turn()
        log, answers = self.leaders.resign(ORDERS)
        assert log is self.logs[LEADER]
        self._take(answers)
        if not replication_first:
            self._tell(self.replication.resign())
        staged = {event.request_id for event in self._events if hasattr(event, "request_id")}
        for request_id, event in self._outstanding.items():
            assert request_id in staged or not self._waits_here(event), f"no answer will come to {event}"
        self._begin()

    @staticmethod
    def _waits_here(event: Event) -> bool:
        match event:
            case Fetch() | WriteMarkers():
                return True
            case _:
                return event.partition == ORDERS

    # What clients ask

    def send(self, event: Event, *, is_answered: bool = True) -> None:
        self._events.append(event)
        if is_answered:
            self._outstanding[event.request_id] = event

    def produce(self, *, acks: int, transactional: bool, timeout_ms: int) -> None:
        sequence = next(self._sequence)
        batch = data_batch(
            producer_id=1000 + sequence, epoch=0, transactional=transactional, value=b"batch %d" % sequence
        )
        name = "tx" if transactional else None
        event = Produce(next(self._ids), ORDERS, bytes(batch.view), acks, name, 1, timeout_ms)
        self.begun += [event] if transactional else []
        self._produce(event)

    def repeat(self, event: Produce) -> None:
        self._produce(msgspec.structs.replace(event, request_id=next(self._ids)))

    def _produce(self, event: Produce) -> None:
        self.sent.append(event)
        self.send(event, is_answered=event.acks != 0)

    def write_markers(self, *, ends: Produce | None) -> None:
        """End the transaction of a batch, or one that was never begun."""
        request_id = next(self._ids)
        producer = ProducerIdentity(9000 + request_id, 0)
        if ends is not None:
            # Once, so that there is one marker to look for.
            self.begun.remove(ends)
            (batch,) = whole_batches(ends.records)
            producer = ProducerIdentity(batch.header.producer_id, 0)
        self.send(WriteMarkers(request_id, (Marker(producer, True, 0, 1, (ORDERS, PAYMENTS)),)))

    def fetch(self, offset: int, isolation: Isolation) -> None:
        wanted = (FetchPartition(ORDERS, offset, 2**20), FetchPartition(PAYMENTS, self.payments.log_end_offset, 2**20))
        self.send(Fetch(next(self._ids), wanted, isolation, max_wait_ms=50))

    def delete_records(self, before_offset: int) -> None:
        self.send(DeleteRecords(next(self._ids), ORDERS, before_offset, timeout_ms=60))

    # What the network does

    def deliver_push(self, sent: SendPush, *, again: bool) -> None:
        if not again:
            self.pushes.remove(sent)
        self.answers.append(self.followers[sent.node_id].push(sent.push, NOW_MS))

    def deliver_answer(self, answer: PushAnswered, *, again: bool) -> None:
        if not again:
            self.answers.remove(answer)
        self._tell(self.replication.push_answered(answer, self.steady_ms))

    def catch_up(self) -> None:
        """Let everything arrive, until there is nothing more to tell."""
        while self.pushes or self.answers:
            for sent in [*self.pushes]:
                self.deliver_push(sent, again=False)
            for answer in [*self.answers]:
                self.deliver_answer(answer, again=False)
            self.turn()

    # What the controller does

    def decide(self, proposal: ProposeIsr) -> None:
        """Take a proposal, if it is about the partition as it is; the leader hears of it whenever that arrives."""
        self.proposals.remove(proposal)
        code = ErrorCode.INVALID_UPDATE_VERSION
        if proposal.leader_epoch < self.state.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif proposal.partition_epoch == self.state.partition_epoch:
            code = ErrorCode.NONE
            isr = tuple(replica.node_id for replica in proposal.isr)
            epoch = self.state.partition_epoch + 1
            self.state = msgspec.structs.replace(self.state, isr=isr, partition_epoch=epoch)
        state = self.state
        self.decisions.append(
            IsrAnswered(
                ORDERS,
                code,
                proposal.partition_epoch,
                state.leader_epoch,
                state.partition_epoch,
                state.isr,
                state.replicas,
            )
        )

    def deliver_decision(self, decision: IsrAnswered) -> None:
        self.decisions.remove(decision)
        if decision.leader_epoch == self.replication.leader_epoch:
            self._tell(self.replication.isr_answered(decision, self.steady_ms))

    def deliver_metadata(self) -> None:
        self._tell(self.replication.learn(self.state, INCARNATIONS, self.steady_ms))

    # Time and turns

    def pass_time(self, milliseconds: int, *, renews_lease: bool) -> None:
        self.steady_ms += milliseconds
        if renews_lease:
            self.lease.answered(
                BrokerHeartbeatAnswered(LEADER, INCARNATIONS[LEADER], self.steady_ms, ErrorCode.NONE, 0)
            )
        self._tell(self.replication.tick(self.steady_ms))
        self.send(Tick(), is_answered=False)

    def _tell(self, effects: list[LeaderEffect]) -> None:
        for effect in effects:
            match effect:
                case SendPush():
                    self.pushes.append(effect)
                case ProposeIsr():
                    self.proposals.append(effect)
                case Replicated():
                    self._take(acknowledge(effect))
        self._events.append(PartitionAdvanced(ORDERS))

    def turn(self) -> None:
        events, self._events = self._events, []
        self._take(self.leaders.handle(events, NOW_MS, self.steady_ms))

    def _take(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case SendPush():
                    self.pushes.append(effect)
                case ProposeIsr():
                    self.proposals.append(effect)
                case Replicated():
                    self._take(acknowledge(effect))
                case Resigned():
                    pass
                case VerifyTransaction():
                    producer_id = effect.producer.producer_id
                    word = TransactionVerified(ORDERS, producer_id, effect.verification_id, ErrorCode.NONE)
                    self.send(word, is_answered=False)
                case _:
                    event = self._outstanding.pop(effect.request_id, None)
                    assert event is not None, f"answered twice, or without acks: {effect}"
                    self._check(event, effect)

    # What may not happen

    @property
    def in_sync(self) -> list[PartitionLog]:
        """The logs of those whom the controller would elect now."""
        return [self.logs[node_id] for node_id in self.state.isr]

    def _check(self, event: Any, answer: Any) -> None:
        match answer:
            case Produced():
                self._count(answer.error_code)
                if answer.error_code is ErrorCode.NONE and event.acks == -1:
                    (batch,) = whole_batches(event.records)
                    self._check_everybody_has(batch.header.producer_id, is_control=False, offset=answer.base_offset)
            case MarkersAnswered():
                orders, payments = answer.error_codes or (ErrorCode.NONE,) * 2
                self._count(orders)
                assert payments is ErrorCode.NONE
                if orders is ErrorCode.NONE:
                    producer_id = event.markers[0].producer.producer_id
                    offset = _find(self.logs[LEADER], producer_id, is_control=True)
                    if offset is not None:
                        self._check_everybody_has(producer_id, is_control=True, offset=offset)
            case RecordsDeleted():
                self._count(answer.error_code)
                if answer.error_code is ErrorCode.NONE:
                    assert all(log.log_start_offset >= answer.log_start_offset for log in self.in_sync)
            case Fetched():
                self._check_fetched(event, answer)

    def _count(self, error_code: ErrorCode) -> None:
        self.codes[error_code] = self.codes.get(error_code, 0) + 1

    def _check_everybody_has(self, producer_id: int, *, is_control: bool, offset: int) -> None:
        """Each replica in sync has at an offset what was answered for a producer, unless it was deleted."""
        for log in self.in_sync:
            is_deleted = offset < log.log_start_offset
            found = _find(log, producer_id, is_control=is_control)
            assert is_deleted or found == offset, f"{producer_id} is not on all in sync"

    def _check_fetched(self, event: Fetch, fetched: Fetched) -> None:
        orders = fetched.partitions[0]
        batches = whole_batches(orders.records)
        if batches:
            end_offset = batches[-1].header.next_offset
            assert end_offset <= orders.high_watermark
            assert all(log.log_end_offset >= end_offset for log in self.in_sync), "read, and not replicated"
            if event.isolation is Isolation.READ_COMMITTED:
                assert end_offset <= orders.last_stable_offset

    def check_offsets(self) -> None:
        log = self.logs[LEADER]
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert all(each.log_end_offset >= log.high_watermark for each in self.in_sync), "not on all in sync"

    def check_everybody_is_answered(self) -> None:
        """When the leader goes, no request is left without an answer."""
        self.turn()
        self.turn()
        self._take(self.leaders.resign(ORDERS)[1])
        self._take(self.leaders.resign(PAYMENTS)[1])
        assert not self._outstanding


def _find(log: PartitionLog, producer_id: int, *, is_control: bool) -> int | None:
    """Return where a log has a producer's batch, or the marker for it."""
    for batch in whole_batches(everything(log)):
        if batch.header.producer_id == producer_id and batch.header.is_control == is_control:
            return batch.header.base_offset
    return None


def newest(things: list[Any], place: int) -> Any:
    """Choose one of the last few."""
    return things[-1 - place % min(len(things), 4)]
