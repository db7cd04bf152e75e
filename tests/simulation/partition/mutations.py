"""Machines with one rule broken, each of which the simulator has to catch."""

import contextlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from unittest import mock

import msgspec

from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.replication import electing
from eagleray.broker.replication.controlling import Decided, NodeCame, ReplicationController
from eagleray.broker.replication.electing import Rules
from eagleray.broker.replication.events import LeaderEffect, ProposeIsr, Push, PushAnswered, Replicated
from eagleray.broker.replication.follower import ReplicationFollower
from eagleray.broker.replication.in_sync import InSyncSet
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.lease import Lease
from eagleray.broker.replication.pushing import Pushes
from eagleray.broker.replication.replica import PartitionReplica
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch
from tests.simulation.partition.parts import Parts


class FollowerWithoutFence(ReplicationFollower):
    """Takes pushes of leaders that were replaced, and answers them as if they were not."""

    def push(self, push: Push, now_ms: int) -> PushAnswered:
        known = self.leader_epoch
        if push.leader_epoch < known:
            self.leader_epoch = push.leader_epoch
        answer = super().push(push, now_ms)
        self.leader_epoch = max(known, self.leader_epoch)
        return answer


class FollowerThatForgetsToTruncate(ReplicationFollower):
    """Keeps a tail that its leader does not have."""

    def _truncate(self, to_offset: int, now_ms: int) -> None:
        pass


class FollowerThatTrustsItsTail(ReplicationFollower):
    """Takes what it has for what the leader has, without looking at the entry before."""

    def _agrees_at(self, offset: int, previous_epoch: int) -> bool:
        return offset <= self.log.log_end_offset


class FollowerThatAnswersBeforeItAppends(ReplicationFollower):
    """Acknowledges a push of which it has appended the first batch only."""

    def _append(self, batches: Sequence[RecordBatch], base_offset: int, now_ms: int) -> int:
        end_offset = super()._append(batches[:1], base_offset, now_ms)
        return batches[-1].header.next_offset if batches else end_offset

    def _answer(self, push: Push, error_code: ErrorCode, end_offset: int = -1) -> PushAnswered:
        claimed = push.leader_end_offset if error_code is ErrorCode.NONE else end_offset
        return super()._answer(push, error_code, claimed)


class FollowerWithoutProducers(ReplicationFollower):
    """Begins anew without the producers whose records it will never see."""

    def push(self, push: Push, now_ms: int) -> PushAnswered:
        return super().push(msgspec.structs.replace(push, producers=b""), now_ms)


class LeaderThatDoesNotWait(ReplicationLeader):
    """Takes what it has itself for replicated."""

    def _replicated_offset(self) -> int:
        return self.log.log_end_offset


class LeaderThatRepliesAtOnce(ReplicationLeader):
    """Acknowledges as soon as it has appended."""

    def appended(self, now_ms: int) -> list[LeaderEffect]:
        early: list[Replicated] = self._waiting.reached(self.log.log_end_offset)
        return [*early, *super().appended(now_ms)]


class LeaderThatTakesInTooEarly(ReplicationLeader):
    """Takes followers into the in-sync set that have some of the log."""

    def _propose_joining(self, now_ms: int) -> list[ProposeIsr]:
        joining = [node_id for node_id in self._pushes.incarnations if node_id not in self.state.isr]
        return self._propose((*self.state.isr, *joining), now_ms)


class LeaseThatNeverEnds(Lease):
    """Lets leaders go on for as long as they like."""

    def holds(self, now_ms: int) -> bool:
        return True


class ControllerThatIgnoresLosses(ReplicationController):
    """Leaves those in sync who have lost what they acknowledged."""

    def node_came(self, event: NodeCame, image: MetadataImage, now_ms: int) -> Decided:
        return super().node_came(NodeCame(event.node), image, now_ms)


@contextlib.contextmanager
def electing_anybody() -> Iterator[None]:
    """Elections that do not wait for the in-sync set, whatever the topic wants."""
    original = electing.choose_leader

    def choose(state: PartitionImage, alive: Container[int], rules: Rules) -> tuple[int, tuple[int, ...]]:
        return original(state, alive, Rules(rules.min_insync_replicas, True))

    with mock.patch.object(electing, "choose_leader", choose):
        yield


@contextlib.contextmanager
def counting_on_the_confirmed_set() -> Iterator[None]:
    """A high watermark that does not wait for those whom the leader has proposed."""
    with mock.patch.object(InSyncSet, "maximal", property(lambda self: frozenset(self.state.isr))):
        yield


@contextlib.contextmanager
def counting_answers_of_other_lives() -> Iterator[None]:
    """Leaders that go on with a follower that has lost what it acknowledged, as if nothing had been."""
    original = Pushes.push_to

    def push_to(self: Pushes, node_ids: Iterable[int], incarnations: Mapping[int, int], now_ms: int) -> None:
        for node_id, progress in self._followers.items():
            progress.incarnation = incarnations.get(node_id, progress.incarnation)
        original(self, node_ids, incarnations, now_ms)

    with mock.patch.object(Pushes, "push_to", push_to):
        yield


def _with_follower(follower: type[ReplicationFollower]) -> Parts:
    return Parts(replica_type=type("Mutated", (PartitionReplica,), {"follower_type": follower}))


def _with_leader(leader: type[ReplicationLeader]) -> Parts:
    return Parts(replica_type=type("Mutated", (PartitionReplica,), {"leader_type": leader}))


MUTATIONS: dict[str, Parts] = {
    "follower without the epoch fence": _with_follower(FollowerWithoutFence),
    "follower that forgets to truncate": _with_follower(FollowerThatForgetsToTruncate),
    "follower that trusts its tail": _with_follower(FollowerThatTrustsItsTail),
    "follower that answers before it appends": _with_follower(FollowerThatAnswersBeforeItAppends),
    "follower that begins anew without producers": _with_follower(FollowerWithoutProducers),
    "leader that does not wait for followers": _with_leader(LeaderThatDoesNotWait),
    "leader that replies at once": _with_leader(LeaderThatRepliesAtOnce),
    "leader that takes in too early": _with_leader(LeaderThatTakesInTooEarly),
    "lease that never ends": Parts(lease_type=LeaseThatNeverEnds),
    "controller that ignores losses": Parts(controller_type=ControllerThatIgnoresLosses),
    "election outside of the in-sync set": Parts(during=electing_anybody),
    "high watermark without the proposed set": Parts(during=counting_on_the_confirmed_set),
    "answers of another life": Parts(during=counting_answers_of_other_lives),
}
