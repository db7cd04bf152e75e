"""Replicas of one partition in a few words, for tests of their state machines."""

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogConfig, PartitionLog
from eagleray.broker.metadata.changes import NodeJoined, NodesPlanned, TopicCreated
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.nodes import NodeRegistration, PlannedNode
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import BrokerHeartbeatAnswered, LeaderEffect, Push, PushAnswered, SendPush
from eagleray.broker.replication.follower import ReplicationFollower
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.lease import Lease
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, data_batch
from tests.support.simulated_disk import SimulatedDisk

PARTITION = TopicPartition("orders", 0)
CONFIG = ReplicationConfig(
    replica_lag_time_max_ms=100,
    replica_push_timeout_ms=30,
    broker_session_timeout_ms=1000,
    broker_heartbeat_interval_ms=100,
    leader_lease_ms=700,
)
INCARNATIONS = {1: 11, 2: 22, 3: 33}
"""The incarnations of the nodes."""


def open_log(**settings: object) -> PartitionLog:
    return PartitionLog.open(SimulatedDisk(), "/log", LogConfig(**settings), now_ms=NOW_MS)


def write(log: PartitionLog, *epochs: int, value: bytes = b"value") -> PartitionLog:
    """Append one record for each of these leader epochs."""
    for epoch in epochs:
        log.append([data_batch(value=value)], leader_epoch=epoch, now_ms=NOW_MS)
    return log


def registration(node_id: int, incarnation: int | None = None) -> NodeRegistration:
    return NodeRegistration(node_id, INCARNATIONS[node_id] if incarnation is None else incarnation, "", 0, ("leader",))


def metadata(state: PartitionImage, *, alive: tuple[int, ...] = (1, 2, 3), **configs: str) -> MetadataImage:
    """An image with one partition; settings of its topic are named with underscores."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    return EMPTY_IMAGE.apply(
        [
            NodesPlanned(tuple(PlannedNode(node_id, ("leader",)) for node_id in INCARNATIONS)),
            *(NodeJoined(registration(node_id)) for node_id in alive),
            TopicCreated(PARTITION.topic, bytes(16), settings, (state,)),
        ]
    )


def held_lease(now_ms: int = NOW_MS) -> Lease:
    lease = Lease(CONFIG)
    lease.answered(BrokerHeartbeatAnswered(1, INCARNATIONS[1], now_ms, ErrorCode.NONE, 0))
    lease.knows(0)
    return lease


def leader_of(
    log: PartitionLog,
    state: PartitionImage | None = None,
    *,
    epoch: int = 1,
    lease: Lease | None = None,
    min_insync_replicas: int = 2,
) -> ReplicationLeader:
    """Have node 1 lead, with nodes 2 and 3 in sync, and let it know who is alive."""
    state = state or PartitionImage(1, epoch, (1, 2, 3), (1, 2, 3))
    return ReplicationLeader(
        PARTITION,
        1,
        INCARNATIONS[1],
        log,
        state,
        lease=lease or held_lease(),
        config=CONFIG,
        min_insync_replicas=min_insync_replicas,
    )


def follower_of(log: PartitionLog, node_id: int = 2) -> ReplicationFollower:
    return ReplicationFollower(PARTITION, node_id, INCARNATIONS[node_id], log)


def pushes_in(effects: list[LeaderEffect]) -> dict[int, Push]:
    return {effect.node_id: effect.push for effect in effects if isinstance(effect, SendPush)}


def has_all(push: Push, node_id: int) -> PushAnswered:
    """The answer of a follower that has everything that the leader had."""
    return PushAnswered(
        PARTITION,
        node_id,
        INCARNATIONS[node_id],
        push.push_id,
        push.leader_epoch,
        ErrorCode.NONE,
        push.leader_end_offset,
    )


def catch_up(leader: ReplicationLeader, follower: ReplicationFollower, node_id: int, push: Push) -> list[LeaderEffect]:
    """Carry pushes and answers between the two until there is nothing more to push; return everything else."""
    others: list[LeaderEffect] = []
    next_push: Push | None = push
    while next_push is not None:
        effects = leader.push_answered(follower.push(next_push, NOW_MS), NOW_MS)
        others += [effect for effect in effects if not (isinstance(effect, SendPush) and effect.node_id == node_id)]
        next_push = pushes_in(effects).get(node_id)
    return others
