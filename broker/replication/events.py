"""The messages between the replicas of a partition, and between them and the controller."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeAlias

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.limits import Int32, Int64
from eagleray.broker.messages import Message
from eagleray.broker.runtime.waiters import Payload
from eagleray.protocol.errors import ErrorCode

NO_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1

EPOCHS_TOLD: Final = 100
"""How many of its newest leader epochs a follower names when its log differs from the leader's."""


# Between a leader and its followers.


class Push(Message, frozen=True, tag="Push"):
    """A leader's batches for one follower, as they lie in its log; answered by `PushAnswered`.

    Without batches it tells the high watermark, or asks whether the follower's log agrees up to `base_offset`.
    """

    partition: TopicPartition
    leader: Int64
    leader_epoch: Int32
    push_id: Int64
    incarnation: Int64
    """The incarnation of the follower that the push is for: what suits one that has little would ruin another."""

    base_offset: Int64
    """Where the batches begin. The follower's log has to agree with the leader's up to here before it takes them."""

    previous_epoch: Int32
    """The epoch of the leader's entry before `base_offset`; -1 where the log begins there, and it is not known."""

    records: bytes
    leader_end_offset: Int64
    high_watermark: Int64
    log_start_offset: Int64
    begins_anew: bool = False
    """Whether the follower has to drop its log and go on at `base_offset`, because the logs share nothing."""

    producers: bytes = b""
    """For a follower that begins anew: a snapshot of the producers before `base_offset`, whose records it lacks."""

    topic_id: bytes = b""
    """Which topic of this name is meant: the leader, or the follower, may not have heard yet that one was deleted.
    Empty where there is no other.
    """


class SendPush(Message, frozen=True, tag=True):
    """Send a push to a follower's node."""

    node_id: int
    push: Push


class EpochBegun(Message, frozen=True):
    """Where in a follower's log a leader epoch begins."""

    epoch: Int32
    start_offset: Int64


class PushAnswered(Message, frozen=True, tag="PushAnswered"):
    """The answer to `Push`.

    NONE: the follower's log agrees with the leader's up to `end_offset`, and is as durable as its settings say.
    OFFSET_OUT_OF_RANGE: it differs at or before the push; the offsets are its start and end, and `epochs` its newest
    leader epochs. FENCED_LEADER_EPOCH: the follower knows a newer leader, of `leader_epoch`. STALE_BROKER_EPOCH: the
    push was for another incarnation. KAFKA_STORAGE_ERROR: the disk failed.
    """

    partition: TopicPartition
    follower: Int64
    incarnation: Int64
    """Which incarnation of the follower answers: another incarnation may have lost what this one has."""

    push_id: Int64
    leader_epoch: Int32
    error_code: ErrorCode
    end_offset: Int64 = NO_OFFSET
    start_offset: Int64 = NO_OFFSET
    epochs: tuple[EpochBegun, ...] = ()


# Between a leader and the roles that wait for it.


class Replicated(msgspec.Struct, Generic[Payload], frozen=True):
    """What a payload waited for has happened, or its outcome is unknown: the end of `ReplicationLeader.wait`.

    An error leaves the outcome open: the records are in the leader's log, and may be replicated yet.
    """

    partition: TopicPartition
    payload: Payload
    """What was given to `wait`; it is given back once."""

    error_code: ErrorCode


class PartitionFailed(Message, frozen=True, tag=True):
    """A partition's log has failed; until it is opened anew and led at a new epoch, its requests are refused.

    Sent once by each leader, and followed by `Resigned`: another replica may lead.
    """

    partition: TopicPartition
    message: str


class Resigned(Message, frozen=True, tag="Resigned"):
    """A leader has stopped for good at this epoch, and no longer acknowledges anything."""

    partition: TopicPartition
    leader_epoch: Int32


# Between leaders, or their nodes, and the controller.


class InSyncReplica(Message, frozen=True):
    """A replica that the leader proposes for the ISR, in the incarnation in which the leader knows it."""

    node_id: Int64
    incarnation: Int64


class ProposeIsr(Message, frozen=True, tag="ProposeIsr"):
    """A leader proposes another ISR (AlterPartition in Kafka); answered by `IsrAnswered`, and safe to repeat."""

    partition: TopicPartition
    leader: Int64
    leader_epoch: Int32
    partition_epoch: Int32
    """The partition epoch that the proposal rests on; once the partition is beyond it, the proposal is void."""

    isr: tuple[InSyncReplica, ...]


class IsrAnswered(Message, frozen=True, tag="IsrAnswered"):
    """The answer to `ProposeIsr`: its outcome, and the state of the partition by now.

    NONE: the partition is as proposed. INVALID_UPDATE_VERSION: the partition had changed before, to this state.
    FENCED_LEADER_EPOCH: another node leads. INELIGIBLE_REPLICA and INVALID_REQUEST: never in this state.
    """

    partition: TopicPartition
    error_code: ErrorCode
    proposed_at_epoch: int
    leader_epoch: int = NO_LEADER_EPOCH
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()


class BrokerHeartbeat(Message, frozen=True, tag="Heartbeat"):
    """A node is alive; answered by `BrokerHeartbeatAnswered`."""

    node_id: Int64
    incarnation: Int64
    sent_ms: Int64
    """By the node's own clock; the answer gives it back."""

    resigned: tuple[Resigned, ...] = ()
    """Partitions that the node has stopped leading without having learned of another leader; repeated until it has."""


class BrokerHeartbeatAnswered(Message, frozen=True, tag="HeartbeatAnswered"):
    """The answer to `BrokerHeartbeat`: the node may lead until its lease ends, once it knows that version of the
    metadata.

    STALE_BROKER_EPOCH: the controller does not know this incarnation of the node, or has fenced it: the node has to
    register.
    """

    node_id: int
    incarnation: int
    sent_ms: int
    error_code: ErrorCode
    metadata_version: int = -1
    resign: tuple[Resigned, ...] = ()
    """Partitions of which the node is asked to resign the leadership."""


LeaderEffect: TypeAlias = SendPush | Replicated[Any] | ProposeIsr | PartitionFailed | Resigned
LEADER_EFFECTS: Final = frozenset((SendPush, Replicated, ProposeIsr, PartitionFailed, Resigned))
