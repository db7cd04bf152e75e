"""All the machines of a broker wired to each other in one process: what the actors will do, without them.

Effects are carried out at once and in order, the transaction log is a real log in Kafka's record format, and the
disk is simulated. `restart_coordinator` keeps what is on that disk and nothing else.
"""

from collections import deque
from itertools import count

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import Isolation, LogConfig, PartitionLog
from eagleray.broker.partitions import events as leader_events
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.transactions import events, log_records, marker_events
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.markers import MarkerChannelManager, MarkerConfig
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import Record
from tests.support.batches import NOW_MS, data_batch, whole_batches
from tests.support.consumer import committed_records
from tests.support.leading import alone
from tests.support.simulated_disk import SimulatedDisk

LOG_PARTITION = 0
LEADER = 1
LEADER_EPOCH = 0


class BrokerInMemory:
    """One coordinator, one marker channel manager and one set of leaders."""

    def __init__(self, *partitions: TopicPartition) -> None:
        self.disk = SimulatedDisk()
        self.now_ms = NOW_MS
        self._request_ids = count(1)
        self._answers: dict[int, object] = {}
        self._verifications: dict[int, leader_events.VerifyTransaction] = {}
        self._coordinator_epoch = 0
        self._next_producer_id = 0
        self._markers = MarkerChannelManager(MarkerConfig())
        self._leaders = PartitionLeaders()
        self.loses_marker_calls = False
        for partition in partitions:
            self._leaders.lead(partition, alone(self._open(str(partition)), LEADER_EPOCH, partition))
        self._partitions = partitions
        self.restart_coordinator()

    def restart_coordinator(self) -> None:
        """Begin again with what the transaction log has."""
        self._coordinator_epoch += 1
        self._transaction_log = self._open("__transaction_state-0")
        self._transaction_log.advance_high_watermark(self._transaction_log.log_end_offset)
        fetched = self._transaction_log.read(0, max_bytes=2**30, isolation=Isolation.READ_UNCOMMITTED)
        records = [record for batch in whole_batches(fetched.records) for record in batch.records()]
        loaded = log_records.replay((record.key, record.value) for record in records)
        self._coordinator = TransactionCoordinator(CoordinatorConfig(transaction_state_log_num_partitions=1))
        self._tell(events.PartitionAssigned(LOG_PARTITION, self._coordinator_epoch))
        self._tell(events.PartitionLoaded(LOG_PARTITION, self._coordinator_epoch, loaded))

    # What clients do

    def init(self, transactional_id: str, *, timeout_ms: int = 60_000) -> ProducerIdentity:
        reply = self._ask(events.InitProducerId(next(self._request_ids), transactional_id, timeout_ms))
        assert reply.error_code is ErrorCode.NONE
        return reply.producer

    def add(self, transactional_id: str, producer: ProducerIdentity, *partitions: TopicPartition) -> ErrorCode:
        return self._ask(
            events.AddPartitions(next(self._request_ids), transactional_id, producer, partitions)
        ).error_code

    def end(self, transactional_id: str, producer: ProducerIdentity, *, commit: bool, version: int = 1) -> events.Reply:
        return self._ask(events.EndTransaction(next(self._request_ids), transactional_id, producer, commit, version))

    def begin_branched(self, transactional_id: str, tag: str, *, timeout_ms: int = 60_000) -> events.BranchedReply:
        return self._ask(events.BeginBranched(next(self._request_ids), transactional_id, tag, timeout_ms))

    def open_branch(self, transactional_id: str, owner: ProducerIdentity) -> ProducerIdentity:
        reply = self._ask(events.OpenBranch(next(self._request_ids), transactional_id, owner))
        assert reply.error_code is ErrorCode.NONE
        return reply.producer

    def end_branched(
        self, transactional_id: str, owner: ProducerIdentity, *branches: ProducerIdentity, commit: bool = True
    ) -> events.Reply:
        return self._ask(events.EndBranched(next(self._request_ids), transactional_id, owner, commit, branches))

    def produce(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partition: TopicPartition,
        value: bytes,
        sequence: int = 0,
        *,
        version: int = 1,
    ) -> ErrorCode:
        batch = data_batch(
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            sequence=sequence,
            transactional=True,
            value=value,
        )
        request_id = next(self._request_ids)
        self._lead(leader_events.Produce(request_id, partition, bytes(batch.view), -1, transactional_id, version))
        return self._answers.pop(request_id).error_code

    def committed(self, partition: TopicPartition) -> list[bytes]:
        return [record.value for record in self._committed(partition)]

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self._tell(events.Tick())
        self._channel(events.Tick())

    # How the machines are wired

    def _committed(self, partition: TopicPartition) -> list[Record]:
        request_id = next(self._request_ids)
        wanted = (leader_events.FetchPartition(partition, 0, 2**20),)
        self._lead(leader_events.Fetch(request_id, wanted, Isolation.READ_COMMITTED, max_wait_ms=0))
        (fetched,) = self._answers.pop(request_id).partitions
        return committed_records(whole_batches(fetched.records), fetched.aborted_transactions)

    def _ask(self, request: events.Request) -> events.Reply:
        self._tell(request)
        return self._answers.pop(request.request_id)

    def _tell(self, event: events.Event) -> None:
        pending = deque([event])
        while pending:
            for effect in self._coordinator.handle(pending.popleft(), self.now_ms):
                match effect:
                    case events.AppendTransitions():
                        self._write(effect)
                        pending.append(
                            events.Committed(effect.log_partition, effect.coordinator_epoch, effect.position)
                        )
                    case events.RequestProducerIds():
                        pending.append(events.ProducerIdsReceived(self._next_producer_id, 2))
                        self._next_producer_id += 2
                    case events.SendMarkers():
                        self._channel(effect)
                    case events.BranchedReply():
                        self._answers[effect.request_id] = effect
                    case events.Reply():
                        self._replied(effect)

    def _replied(self, reply: events.Reply) -> None:
        question = self._verifications.pop(reply.request_id, None)
        if question is None:
            self._answers[reply.request_id] = reply
            return
        (error_code,) = reply.partition_errors or (reply.error_code,)
        self._lead(
            leader_events.TransactionVerified(
                question.partition, question.producer.producer_id, question.verification_id, error_code
            )
        )

    def _channel(self, event: marker_events.MarkerEvent) -> None:
        for effect in self._markers.handle(event, self.now_ms):
            match effect:
                case marker_events.ResolveLeaders():
                    self._channel(marker_events.LeadersLearned(dict.fromkeys(effect.partitions, LEADER)))
                case marker_events.MarkerCall():
                    self._call_leader(effect)
                case events.MarkersWritten():
                    self._tell(effect)

    def _call_leader(self, call: marker_events.MarkerCall) -> None:
        if self.loses_marker_calls:
            self._channel(marker_events.MarkerCallUnanswered(call.leader, call.call_id))
            return
        request_id = next(self._request_ids)
        self._lead(leader_events.WriteMarkers(request_id, call.markers))
        answer = self._answers.pop(request_id)
        self._channel(marker_events.MarkerCallAnswered(call.leader, call.call_id, answer.error_codes))

    def _lead(self, event: leader_events.Event) -> None:
        for effect in self._leaders.handle([event], self.now_ms, self.now_ms):
            if isinstance(effect, leader_events.VerifyTransaction):
                self._verify(effect)
            else:
                self._answers[effect.request_id] = effect

    def _verify(self, question: leader_events.VerifyTransaction) -> None:
        request_id = next(self._request_ids)
        self._verifications[request_id] = question
        self._tell(
            events.AddPartitions(
                request_id,
                question.transactional_id,
                question.producer,
                (question.partition,),
                client_version=2 if question.adds_partition else 1,
                verify_only=not question.adds_partition,
            )
        )

    def _write(self, effect: events.AppendTransitions) -> None:
        records = [
            (log_records.encode_key(name), None if snapshot is None else log_records.encode_value(snapshot))
            for name, snapshot in effect.transitions
        ]
        self._transaction_log.append_records(records, leader_epoch=effect.coordinator_epoch, now_ms=self.now_ms)

    def _open(self, name: str) -> PartitionLog:
        return PartitionLog.open(self.disk, f"/{name}", LogConfig(), now_ms=self.now_ms)
