"""Short ways to tell the leaders of partitions what to do."""

from collections.abc import Iterable

from eagleray.broker.identities import NO_EPOCH, ProducerIdentity, TopicPartition
from eagleray.broker.log import Isolation, LogConfig, PartitionLog
from eagleray.broker.messages import Marker
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.partitions.acknowledging import acknowledge
from eagleray.broker.partitions.events import (
    AskLastDecision,
    Effect,
    Fetch,
    FetchPartition,
    LastDecisionAnswered,
    Produce,
    TransactionVerified,
    VerifyTransaction,
    WriteMarkers,
)
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import Replicated
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.lease import Lease
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, data_batch
from tests.support.simulated_disk import SimulatedDisk

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 0)
ELSEWHERE = TopicPartition("elsewhere", 0)
LEADER_EPOCH = 3
PRODUCER = ProducerIdentity(7, 0)


def open_log(disk: SimulatedDisk, partition: TopicPartition = ORDERS, config: LogConfig | None = None) -> PartitionLog:
    """Open the log of a partition in a directory of its own."""
    return PartitionLog.open(disk, f"/{partition}", config or LogConfig(), now_ms=NOW_MS)


def alone(
    log: PartitionLog, leader_epoch: int = LEADER_EPOCH, partition: TopicPartition = ORDERS, *, node_id: int = 1
) -> ReplicationLeader:
    """Replicate a log to nobody, as the only replica of its partition does; it needs no lease and has none."""
    state = PartitionImage(node_id, leader_epoch, (node_id,), (node_id,))
    config = ReplicationConfig()
    return ReplicationLeader(partition, node_id, 1, log, state, lease=Lease(config), config=config)


def lead(disk: SimulatedDisk, config: LogConfig | None = None) -> PartitionLeaders:
    """Lead `ORDERS` and `PAYMENTS` on a disk."""
    leaders = PartitionLeaders()
    for partition in (ORDERS, PAYMENTS):
        leaders.lead(partition, alone(open_log(disk, partition, config), LEADER_EPOCH, partition))
    return leaders


def replied(effects: Iterable[Effect]) -> list[Effect]:
    """Replace what is given back by its replies, as the partition leader's role does."""
    return [
        reply for effect in effects for reply in (acknowledge(effect) if isinstance(effect, Replicated) else (effect,))
    ]


def plain(request_id: int, partition: TopicPartition = ORDERS, *, acks: int = -1, **batch: object) -> Produce:
    """Produce a batch without a transaction."""
    return Produce(request_id, partition, bytes(data_batch(**batch).view), acks)


def in_transaction(
    request_id: int,
    sequence: int = 0,
    partition: TopicPartition = ORDERS,
    *,
    producer: ProducerIdentity = PRODUCER,
    version: int = 1,
    acks: int = -1,
    **batch: object,
) -> Produce:
    """Produce a batch of a transaction."""
    data = data_batch(
        producer_id=producer.producer_id, epoch=producer.epoch, sequence=sequence, transactional=True, **batch
    )
    return Produce(request_id, partition, bytes(data.view), acks, "tx", version)


def verified(
    question: VerifyTransaction,
    error_code: ErrorCode = ErrorCode.NONE,
    *,
    finished: tuple[int, int] = (NO_EPOCH, 0),
) -> TransactionVerified:
    """Answer a leader's question as the coordinator does; `finished` is its epoch and its last decision."""
    producer_id, verification_id = question.producer.producer_id, question.verification_id
    return TransactionVerified(question.partition, producer_id, verification_id, error_code, *finished)


def told(question: AskLastDecision, *finished: int, error_code: ErrorCode = ErrorCode.NONE) -> LastDecisionAnswered:
    """Answer a leader's question about a marker with the coordinator's epoch and its last decision."""
    return LastDecisionAnswered(question.partition, question.producer_id, question.question_id, error_code, *finished)


def markers(
    request_id: int,
    *partitions: TopicPartition,
    commit: bool = True,
    producer: ProducerIdentity = PRODUCER,
    version: int = 1,
    coordinator_epoch: int = 0,
    decision: int = 0,
) -> WriteMarkers:
    """End one producer's transaction."""
    name = "tx" if decision else ""
    marker = Marker(producer, commit, coordinator_epoch, version, partitions, decision, name)
    return WriteMarkers(request_id, (marker,))


def fetch(
    request_id: int,
    offset: int = 0,
    *,
    partitions: tuple[TopicPartition, ...] = (ORDERS,),
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    **limits: int,
) -> Fetch:
    """Fetch from one offset of some partitions."""
    wanted = tuple(FetchPartition(partition, offset, 1024) for partition in partitions)
    return Fetch(request_id, wanted, isolation, **limits)


def open_transaction(
    leaders: PartitionLeaders, sequence: int = 0, *, finished: tuple[int, int] = (NO_EPOCH, 0)
) -> None:
    """Have the first batch of `PRODUCER` in `ORDERS`."""
    (question,) = leaders.handle([in_transaction(1, sequence)], NOW_MS, NOW_MS)
    (answer,) = leaders.handle([verified(question, finished=finished)], NOW_MS, NOW_MS)
    assert answer.error_code is ErrorCode.NONE
