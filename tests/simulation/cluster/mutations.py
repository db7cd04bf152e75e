"""Nodes with one rule broken, each of which the simulator has to catch."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from eagleray.actors.lives import Life, Lives
from eagleray.actors.logs import Logs
from eagleray.actors.metadata_quorum import MetadataQuorum
from eagleray.actors.replicas import Replicas
from eagleray.broker.controller.changes import ReplicasChanged
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.losses import NO_LOSS, Fate, Loss
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.quorum.leading import QuorumLeader
from eagleray.broker.replication.electing import after_coming
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch
from tests.simulation.cluster.coordinator_mutations import COORDINATOR_MUTATIONS
from tests.simulation.cluster.replication_mutations import REPLICATION_MUTATIONS
from tests.simulation.quorum.quorum_mutations import MUTATIONS as QUORUM_MUTATIONS
from tests.simulation.replacing import replacing

Mutation = Callable[[], AbstractContextManager[Any]]


def _forgetting_losses() -> AbstractContextManager[Any]:
    """Lives that do not know what those before them have lost and not come to say."""
    original = Lives.begin

    def begin(self: Lives, *, after: int = -1, loss: Loss = NO_LOSS) -> Life:
        self.told()
        return original(self, after=after, loss=loss)

    return mock.patch.object(Lives, "begin", begin)


def _failing_without_loss() -> AbstractContextManager[Any]:
    """Nodes that go on after a log has failed, or was found damaged, as if nothing had been."""
    original = Replicas.begin_life

    def begin_life(self: Replicas) -> Loss:
        original(self)
        return NO_LOSS

    return mock.patch.object(Replicas, "begin_life", begin_life)


def _booting_without_loss() -> AbstractContextManager[Any]:
    """Nodes that have lost nothing as long as they find their disk, whatever was flushed."""
    original = Lives.begin

    def begin(self: Lives, *, after: int = -1, loss: Loss = NO_LOSS) -> Life:
        self.close()
        return original(self, after=after, loss=loss)

    return mock.patch.object(Lives, "begin", begin)


def _never_in_doubt() -> AbstractContextManager[Any]:
    """A controller that takes every disk at its word."""
    original = after_coming

    def coming(image: MetadataImage, node_id: int, loss: Loss) -> tuple[ReplicasChanged, ...]:
        of = Loss.of

        def fate_of(self: Loss, partition: TopicPartition) -> Fate:
            fate = of(self, partition)
            return Fate.KEPT if fate is Fate.IN_DOUBT else fate

        with mock.patch.object(Loss, "of", fate_of):
            return original(image, node_id, loss)

    return replacing(after_coming, coming)


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


def _not_looking_for_rot() -> AbstractContextManager[Any]:
    """Nodes that never look at what they have written."""
    return mock.patch.object(Logs, "scrub", return_value=None)


MUTATIONS: dict[str, Mutation] = {
    **REPLICATION_MUTATIONS,
    "loss that is forgotten": _forgetting_losses,
    "failed log that has lost nothing": _failing_without_loss,
    "boot that has lost nothing": _booting_without_loss,
    "disk that is taken at its word": _never_in_doubt,
    "coordinator that loads at once": _loading_at_once,
    "markers that are answered at once": _answering_markers_at_once,
    "controller that goes on after its lease": _controlling_without_a_lease,
    "rot that nobody looks for": _not_looking_for_rot,
    "quorum that needs nobody": QUORUM_MUTATIONS["leader that needs nobody"],
    **COORDINATOR_MUTATIONS,
}
