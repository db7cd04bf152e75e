"""Nodes with one rule broken, each of which the simulator has to catch."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from eagleray.actors.process.incarnations import Incarnation, Incarnations
from eagleray.actors.roles.controller import ControllerRole
from eagleray.actors.roles.metadata_quorum import MetadataQuorum
from eagleray.actors.storage.log_manager import LogManager
from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker.controller.events import ChangesCommitted
from eagleray.broker.log import PartitionLog
from eagleray.broker.log.torn_or_rotten import Verdict, judge
from eagleray.broker.metadata.losses import NO_LOSS, Loss
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.quorum.leading import QuorumLeader
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch
from tests.simulation.cluster.coordinator_mutations import COORDINATOR_MUTATIONS
from tests.simulation.cluster.disk_mutations import DISK_MUTATIONS
from tests.simulation.cluster.replication_mutations import REPLICATION_MUTATIONS
from tests.simulation.quorum.quorum_mutations import MUTATIONS as QUORUM_MUTATIONS
from tests.simulation.replacing import replacing

Mutation = Callable[[], AbstractContextManager[Any]]


def _forgetting_losses() -> AbstractContextManager[Any]:
    """Incarnations that do not know what those before them have lost and not come to say."""
    original = Incarnations.begin

    def begin(self: Incarnations, *, after: int = -1, loss: Loss = NO_LOSS) -> Incarnation:
        self.reported()
        return original(self, after=after, loss=loss)

    return mock.patch.object(Incarnations, "begin", begin)


def _failing_without_loss() -> AbstractContextManager[Any]:
    """Nodes that go on after a log has failed, or was found damaged, as if nothing had been."""
    original = ReplicaManager.start_incarnation

    def start_incarnation(self: ReplicaManager) -> Loss:
        original(self)
        return NO_LOSS

    return mock.patch.object(ReplicaManager, "start_incarnation", start_incarnation)


def _booting_without_loss() -> AbstractContextManager[Any]:
    """Nodes that have lost nothing as long as they find their disk, whatever was flushed."""
    original = Incarnations.begin

    def begin(self: Incarnations, *, after: int = -1, loss: Loss = NO_LOSS) -> Incarnation:
        self.close()
        return original(self, after=after, loss=loss)

    return mock.patch.object(Incarnations, "begin", begin)


@contextlib.contextmanager
def _loading_at_once() -> Iterator[None]:
    """A coordinator that loads what is known to be replicated, although more may be."""

    original = PartitionLog.batches

    def batches(log: PartitionLog) -> Iterator[RecordBatch]:
        return itertools.takewhile(lambda batch: batch.header.base_offset < log.high_watermark, original(log))

    knows = mock.patch.object(ReplicationLeader, "knows_high_watermark", property(lambda self: True))
    with knows, mock.patch.object(PartitionLog, "batches", batches):
        yield


def _answering_markers_at_once() -> AbstractContextManager[Any]:
    """Leaders that say that markers are written as soon as they are appended."""

    def settle(self: PartitionLeader, request: MarkerRequest, steady_ms: int) -> None:
        request.settled(self.partition, ErrorCode.NONE)

    return mock.patch.object(PartitionLeader, "settle_markers", settle)


@contextlib.contextmanager
def _controlling_without_a_lease() -> Iterator[None]:
    """A controller that goes on although the others may have elected another one.

    It does not step down by itself either, which would mostly come before it has done harm.
    """
    with (
        mock.patch.object(MetadataQuorum, "holds", lambda self: self.is_active),
        mock.patch.object(QuorumLeader, "is_alone", return_value=False),
    ):
        yield


def _controlling_at_once() -> AbstractContextManager[Any]:
    """A controller that takes what it decides for committed as soon as it is appended."""

    def newly_committed(self: ControllerRole) -> list[ChangesCommitted]:
        positions = [position for _, position in self._uncommitted]
        self._uncommitted.clear()
        return [ChangesCommitted(position) for position in positions]

    return mock.patch.object(ControllerRole, "_newly_committed", newly_committed)


def _not_looking_for_rot() -> AbstractContextManager[Any]:
    """Nodes that never look at what they have written."""
    return mock.patch.object(LogManager, "scrub", return_value=None)


def _taking_rot_for_a_torn_write() -> AbstractContextManager[Any]:
    """Logs that are cut at the first bad batch, whatever lies behind it and whatever was known to be there."""
    return replacing(judge, lambda end: Verdict.CUT)


MUTATIONS: dict[str, Mutation] = {
    **REPLICATION_MUTATIONS,
    "loss that is forgotten": _forgetting_losses,
    "failed log that has lost nothing": _failing_without_loss,
    "boot that has lost nothing": _booting_without_loss,
    "coordinator that loads at once": _loading_at_once,
    "markers that are answered at once": _answering_markers_at_once,
    "controller that goes on after its lease": _controlling_without_a_lease,
    "controller that does not wait for the quorum": _controlling_at_once,
    "rot that nobody looks for": _not_looking_for_rot,
    "rot that is taken for a torn write": _taking_rot_for_a_torn_write,
    "quorum that needs nobody": QUORUM_MUTATIONS["leader that needs nobody"],
    **COORDINATOR_MUTATIONS,
    **DISK_MUTATIONS,
}
