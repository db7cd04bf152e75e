"""The machines that a world is made of; a mutation puts a broken one in place of one of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import AbortedTransaction, NewMarker
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.controlling import ReplicationController
from eagleray.broker.replication.lease import Lease
from eagleray.broker.replication.replica import PartitionReplica

CONTROLLER = "controller"
PARTITION = TopicPartition("orders", 0)
CONFIG = ReplicationConfig(
    replica_lag_time_max_ms=400,
    replica_push_max_bytes=600,
    replica_push_timeout_ms=120,
    broker_session_timeout_ms=1000,
    broker_heartbeat_interval_ms=150,
    leader_lease_ms=700,
)


class Parts(msgspec.Struct, frozen=True):
    """What nodes and the controller are made of."""

    replica_type: type[PartitionReplica] = PartitionReplica
    lease_type: type[Lease] = Lease
    controller_type: type[ReplicationController] = ReplicationController
    during: Callable[[], AbstractContextManager[object]] = nullcontext
    """Something that is so while the world runs."""


class ProduceRequest(msgspec.Struct, frozen=True):
    """A client's batch; requests are known by the client and a count of its attempts."""

    request_id: int
    records: bytes


class MarkerRequest(msgspec.Struct, frozen=True):
    """A coordinator's marker, which ends a transaction; answered like a batch."""

    request_id: int
    marker: NewMarker


class ProduceAnswer(msgspec.Struct, frozen=True):
    request_id: int
    error_code: int
    base_offset: int = -1


class ReadRequest(msgspec.Struct, frozen=True):
    request_id: int
    offset: int


class ReadAnswer(msgspec.Struct, frozen=True):
    request_id: int
    is_leader: bool
    records: bytes = b""
    log_start_offset: int = 0
    aborted: tuple[AbortedTransaction, ...] = ()
