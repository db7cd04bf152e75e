"""What replicas of a partition, and the controller, tell each other."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeAlias

import msgspec

from eagleray.broker.identities import TopicPartition
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
    leader: int
    leader_epoch: int
    push_id: int
    incarnation: int
    """The life of the follower that it is meant for: what it asks of one that has little would ruin another."""

    base_offset: int
    """Where the batches begin. The follower's log has to agree with the leader's up to here before it takes them."""

    previous_epoch: int
    """The epoch of the leader's entry before `base_offset`; -1 where the log begins there, and it is not known."""

    records: bytes
    leader_end_offset: int
    high_watermark: int
    log_start_offset: int
    begins_anew: bool = False
    """Whether the follower has to drop what it has and go on at `base_offset`, because the logs share nothing."""

    producers: bytes = b""
    """For a follower that begins anew: a snapshot of the producers before `base_offset`, whose records it lacks."""


class SendPush(Message, frozen=True, tag=True):
    """Send a push to a follower's node."""

    node_id: int
    push: Push


class EpochBegun(Message, frozen=True):
    """Where in a follower's log an epoch begins."""

    epoch: int
    start_offset: int


class PushAnswered(Message, frozen=True, tag="PushAnswered"):
    """The answer to `Push`.

    NONE: the follower's log agrees with the leader's up to `end_offset`, and is as durable as its settings say.
    OFFSET_OUT_OF_RANGE: it differs at or before the push; the offsets are where it begins and ends, and `epochs` what
    it is made of. FENCED_LEADER_EPOCH: the follower knows a newer leader, of `leader_epoch`. STALE_BROKER_EPOCH:
    the push was meant for another life. KAFKA_STORAGE_ERROR: the disk failed.
    """

    partition: TopicPartition
    follower: int
    incarnation: int
    """Which life of the follower answers: another life may have lost what this one has."""

    push_id: int
    leader_epoch: int
    error_code: ErrorCode
    end_offset: int = NO_OFFSET
    start_offset: int = NO_OFFSET
    epochs: tuple[EpochBegun, ...] = ()


# Between a leader and those who wait for it.


class Replicated(msgspec.Struct, Generic[Payload], frozen=True):
    """What something waited for has happened, or will not as far as is known: the end of `ReplicationLeader.wait`.

    An error leaves the outcome open: the records are in the leader's log, and may be replicated yet.
    """

    partition: TopicPartition
    payload: Payload
    """What waited, as `wait` was given it; it is given back once."""

    error_code: ErrorCode


class Resigned(Message, frozen=True, tag="Resigned"):
    """A leader has stopped for good, at this epoch; it acknowledges nothing any more."""

    partition: TopicPartition
    leader_epoch: int


# Between leaders, or their nodes, and the controller.


class InSyncReplica(Message, frozen=True):
    """A replica that is to be in the in-sync set, in the life in which its leader knows it."""

    node_id: int
    incarnation: int


class ProposeIsr(Message, frozen=True, tag="ProposeIsr"):
    """A leader wants another in-sync set; answered by `IsrAnswered`. Asking again changes nothing."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    partition_epoch: int
    """The state that the proposal is about; once the partition is beyond it, the proposal is void."""

    isr: tuple[InSyncReplica, ...]


class IsrAnswered(Message, frozen=True, tag="IsrAnswered"):
    """The answer to `ProposeIsr`: what became of it, and the state of the partition by now.

    NONE: the partition is as proposed. INVALID_UPDATE_VERSION: the state had changed before, and is this.
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

    node_id: int
    incarnation: int
    sent_ms: int
    """By the node's own clock; the answer gives it back."""

    resigned: tuple[Resigned, ...] = ()
    """Partitions that the node has stopped leading without being told of another leader; repeated until it is."""


class BrokerHeartbeatAnswered(Message, frozen=True, tag="HeartbeatAnswered"):
    """The answer to `BrokerHeartbeat`: the node may lead until its lease ends, once it knows the metadata's version.

    STALE_BROKER_EPOCH: the controller does not know this life of the node, or has given it up: it has to register.
    """

    node_id: int
    incarnation: int
    sent_ms: int
    error_code: ErrorCode
    metadata_version: int = -1
    resign: tuple[Resigned, ...] = ()
    """Partitions that the node is asked to hand over, by resigning."""


LeaderEffect: TypeAlias = SendPush | Replicated[Any] | ProposeIsr | Resigned
