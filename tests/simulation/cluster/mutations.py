"""Nodes with one rule broken, each of which the simulator has to catch."""

import contextlib
import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from eagleray.actors import heartbeats
from eagleray.actors.lives import Life, Lives
from eagleray.actors.logs import Logs
from eagleray.actors.metadata_quorum import MetadataQuorum
from eagleray.actors.replicas import Replicas
from eagleray.broker.controller import controller
from eagleray.broker.controller.losses import NO_LOSS, Fate, Loss
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.log import PartitionLog
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.quorum.leading import QuorumLeader
from eagleray.broker.quorum.member import QuorumMember
from eagleray.broker.replication import electing
from eagleray.broker.replication.electing import Rules
from eagleray.broker.replication.follower import ReplicationFollower
from eagleray.broker.replication.in_sync import InSyncSet
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.pushing import Pushes
from eagleray.broker.replication.replica import PartitionReplica
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch
from tests.simulation.cluster.coordinator_mutations import COORDINATOR_MUTATIONS
from tests.simulation.partition.mutations import (
    ControllerThatIgnoresLosses,
    FollowerThatAnswersBeforeItAppends,
    FollowerThatForgetsToTruncate,
    FollowerThatTrustsItsTail,
    FollowerWithoutFence,
    LeaderThatDoesNotWait,
    LeaderThatRepliesAtOnce,
    LeaderThatTakesInTooEarly,
    LeaseThatNeverEnds,
)

Mutation = Callable[[], AbstractContextManager[Any]]

# The machines that nodes are made of; followers and leaders are those of the world of one partition


class QuorumLeaderThatNeedsNobody(QuorumLeader):
    """Commits what it has itself."""

    def advance(self) -> None:
        self._commit(self._own_end())


def _electing_anybody() -> AbstractContextManager[Any]:
    """Elections that do not wait for the in-sync set, whatever the topic wants."""
    original = electing.choose_leader

    def choose(state: PartitionImage, alive: Container[int], rules: Rules) -> tuple[int, tuple[int, ...]]:
        return original(state, alive, Rules(rules.min_insync_replicas, True))

    return mock.patch.object(electing, "choose_leader", choose)


def _counting_on_the_confirmed_set() -> AbstractContextManager[Any]:
    """A high watermark that does not wait for those whom the leader has proposed."""
    return mock.patch.object(InSyncSet, "maximal", property(lambda self: frozenset(self.state.isr)))


def _counting_answers_of_other_lives() -> AbstractContextManager[Any]:
    """Leaders that go on with a follower that has lost what it acknowledged, as if nothing had been."""
    original = Pushes.push_to

    def push_to(self: Pushes, node_ids: Iterable[int], incarnations: Mapping[int, int], now_ms: int) -> None:
        for node_id, progress in self._followers.items():
            progress.incarnation = incarnations.get(node_id, progress.incarnation)
        original(self, node_ids, incarnations, now_ms)

    return mock.patch.object(Pushes, "push_to", push_to)


# The shells: what they make of the machines


def _forgetting_losses() -> AbstractContextManager[Any]:
    """Lives that do not know what those before them have lost and not come to say."""
    original = Lives.begin

    def begin(self: Lives, *, after: int = -1, loss: Loss = NO_LOSS) -> Life:
        if self._last is not None:
            self._last = msgspec.structs.replace(self._last, loss=NO_LOSS)
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
    original = Lives._lost_since

    def lost_since(self: Lives, last: Any) -> Loss:
        return original(self, last) if last is None else last.loss

    return mock.patch.object(Lives, "_lost_since", lost_since)


def _never_in_doubt() -> AbstractContextManager[Any]:
    """A controller that takes every disk at its word."""
    original = electing._with_newcomer

    def with_newcomer(state: PartitionImage, node_id: int, alive: set[int], rules: Rules, fate: Fate) -> PartitionImage:
        fate = Fate.KEPT if fate is Fate.IN_DOUBT else fate
        return original(state, node_id, alive, rules, fate)

    return mock.patch.object(electing, "_with_newcomer", with_newcomer)


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


def _controlling_without_a_lease() -> AbstractContextManager[Any]:
    """A controller that goes on although the others may have elected another one."""
    return mock.patch.object(MetadataQuorum, "holds", lambda self: self.is_active)


def _not_looking_for_rot() -> AbstractContextManager[Any]:
    """Nodes that never look at what they have written."""
    return mock.patch.object(Logs, "scrub", return_value=None)


def _following(mutated: type[ReplicationFollower]) -> Mutation:
    return lambda: mock.patch.object(PartitionReplica, "follower_type", mutated)


def _leading(leader: type[ReplicationLeader]) -> Mutation:
    return lambda: mock.patch.object(PartitionReplica, "leader_type", leader)


MUTATIONS: dict[str, Mutation] = {
    "follower without the epoch fence": _following(FollowerWithoutFence),
    "follower that forgets to truncate": _following(FollowerThatForgetsToTruncate),
    "follower that trusts its tail": _following(FollowerThatTrustsItsTail),
    "follower that answers before it appends": _following(FollowerThatAnswersBeforeItAppends),
    "leader that does not wait for followers": _leading(LeaderThatDoesNotWait),
    "leader that replies at once": _leading(LeaderThatRepliesAtOnce),
    "leader that takes in too early": _leading(LeaderThatTakesInTooEarly),
    "lease that never ends": lambda: mock.patch.object(heartbeats, "Lease", LeaseThatNeverEnds),
    "controller that ignores losses": lambda: mock.patch.object(
        controller, "ReplicationController", ControllerThatIgnoresLosses
    ),
    "election outside of the in-sync set": _electing_anybody,
    "high watermark without the proposed set": _counting_on_the_confirmed_set,
    "answers of another life": _counting_answers_of_other_lives,
    "loss that is forgotten": _forgetting_losses,
    "failed log that has lost nothing": _failing_without_loss,
    "boot that has lost nothing": _booting_without_loss,
    "disk that is taken at its word": _never_in_doubt,
    "coordinator that loads at once": _loading_at_once,
    "markers that are answered at once": _answering_markers_at_once,
    "controller that goes on after its lease": _controlling_without_a_lease,
    "rot that nobody looks for": _not_looking_for_rot,
    "quorum that needs nobody": lambda: mock.patch.object(QuorumMember, "leader_type", QuorumLeaderThatNeedsNobody),
    **COORDINATOR_MUTATIONS,
}
