"""Replicas, leaders and elections with one rule broken."""

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from eagleray.broker.controller.elections import Rules, choose_leader
from eagleray.broker.controller.events import RegisterNode
from eagleray.broker.controller.replication_control import ReplicationControl
from eagleray.broker.log import PartitionLog
from eagleray.broker.metadata.changes import Change
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.losses import NO_LOSS
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import Push, PushAnswered
from eagleray.broker.replication.follower import ReplicationFollower
from eagleray.broker.replication.in_sync import InSyncSet, is_follower_in_sync
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.lease import Lease
from eagleray.broker.replication.partition import Partition
from eagleray.broker.replication.pushing import Pushes
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import scan_batches
from tests.simulation.cluster.fault_plan import FaultPlan
from tests.simulation.replacing import replacing
from tests.simulation.schedule import Schedule


class FollowerWithoutFence(ReplicationFollower):
    """Takes pushes of leaders that were replaced, and answers them as if they were not."""

    def push(self, push: Push, now_ms: int, **options: bool) -> PushAnswered:
        known = self.leader_epoch
        if push.leader_epoch < known:
            self.leader_epoch = push.leader_epoch
        answer = super().push(push, now_ms, **options)
        self.leader_epoch = max(known, self.leader_epoch)
        return answer


class FollowerThatForgetsToTruncate(ReplicationFollower):
    """Keeps a tail that its leader does not have."""

    def push(self, push: Push, now_ms: int, **options: bool) -> PushAnswered:
        with mock.patch.object(PartitionLog, "truncate"):
            return super().push(push, now_ms, **options)


class FollowerThatTrustsItsTail(ReplicationFollower):
    """Takes what it has for what the leader has, without looking at the entry before."""

    def push(self, push: Push, now_ms: int, **options: bool) -> PushAnswered:
        if self.log.log_start_offset < push.base_offset <= self.log.log_end_offset:
            push = msgspec.structs.replace(push, previous_epoch=self.log.epochs.epoch_at(push.base_offset - 1))
        return super().push(push, now_ms, **options)


class FollowerThatAnswersBeforeItAppends(ReplicationFollower):
    """Acknowledges a push of which it has appended the first batch only."""

    def push(self, push: Push, now_ms: int, **options: bool) -> PushAnswered:
        first = scan_batches(push.records).batches[:1]
        answer = super().push(
            msgspec.structs.replace(push, records=b"".join(batch.view for batch in first)), now_ms, **options
        )
        if answer.error_code is ErrorCode.NONE:
            answer = msgspec.structs.replace(answer, end_offset=push.leader_end_offset)
        return answer


class FollowerWithoutProducers(ReplicationFollower):
    """Begins anew without the producers whose records it will never see."""

    def push(self, push: Push, now_ms: int, **options: bool) -> PushAnswered:
        return super().push(msgspec.structs.replace(push, producers=b""), now_ms, **options)


class LeaderThatRepliesAtOnce(ReplicationLeader):
    """Acknowledges as soon as it has appended."""

    def is_replicated(self, end_offset: int, now_ms: int) -> bool:
        return self.may_acknowledge(now_ms)

    def wait(self, payload: object, end_offset: int, deadline_ms: int) -> None:
        super().wait(payload, min(end_offset, self.log.high_watermark), deadline_ms)


class LeaseThatNeverEnds(Lease):
    """Lets leaders go on for as long as they like."""

    def holds(self, now_ms: int) -> bool:
        return True


class ControllerThatIgnoresLosses(ReplicationControl):
    """Leaves those in sync who have lost what they acknowledged."""

    def node_came(self, event: RegisterNode, image: MetadataImage, now_ms: int) -> tuple[Change, ...]:
        return super().node_came(msgspec.structs.replace(event, loss=NO_LOSS), image, now_ms)


def _electing_anybody() -> AbstractContextManager[Any]:
    """Elections that do not wait for the in-sync set, whatever the topic wants."""

    def choose(state: PartitionImage, alive: Container[int], rules: Rules) -> tuple[int, tuple[int, ...]]:
        return choose_leader(state, alive, Rules(rules.min_insync_replicas, True))

    return replacing(choose_leader, choose)


def _counting_on_itself() -> AbstractContextManager[Any]:
    """Leaders that take what they have themselves for replicated."""
    return mock.patch.object(InSyncSet, "maximal", ())


def _counting_on_the_confirmed_set() -> AbstractContextManager[Any]:
    """A high watermark that does not wait for those whom the leader has proposed."""
    return mock.patch.object(InSyncSet, "maximal", property(lambda self: frozenset(self.state.isr)))


def _taking_in_too_early() -> AbstractContextManager[Any]:
    """Leaders that take followers into the in-sync set that have some of the log."""
    return replacing(is_follower_in_sync, lambda *_: True)


def _counting_answers_of_other_incarnations() -> AbstractContextManager[Any]:
    """Leaders that go on with a follower that has lost what it acknowledged, as if nothing had been."""
    original = Pushes.push_to

    def push_to(self: Pushes, node_ids: Iterable[int], incarnations: Mapping[int, int], now_ms: int) -> None:
        before = {
            node_id: (incarnation, self.agreed_offset(node_id)) for node_id, incarnation in self.incarnations.items()
        }
        original(self, node_ids, incarnations, now_ms)
        for node_id, incarnation in self.incarnations.items():
            earlier, agreed_offset = before.get(node_id, (incarnation, -1))
            if earlier != incarnation and agreed_offset >= 0:
                answer = PushAnswered(self._partition, node_id, incarnation, 0, 0, ErrorCode.NONE, agreed_offset)
                self.answered(answer, now_ms)

    return mock.patch.object(Pushes, "push_to", push_to)


def _following(follower: type[ReplicationFollower]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch.object(Partition, "follower_type", follower)


def _leading(leader: type[ReplicationLeader]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch.object(Partition, "leader_type", leader)


@contextlib.contextmanager
def _beginning_anew_without_producers() -> Iterator[None]:
    """A broken follower, in worlds in which replicas begin anew all the time, for what it takes is rare elsewhere."""

    def draw(schedule: Schedule, *, is_version_2: bool) -> FaultPlan:
        kinds = "delete records", "move", "replace machine"
        return msgspec.structs.replace(original(schedule, is_version_2=is_version_2), kinds=kinds, interval_ms=100)

    original = FaultPlan.draw
    with _following(FollowerWithoutProducers)(), mock.patch.object(FaultPlan, "draw", draw):
        yield


REPLICATION_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "follower without the epoch fence": _following(FollowerWithoutFence),
    "follower that forgets to truncate": _following(FollowerThatForgetsToTruncate),
    "follower that trusts its tail": _following(FollowerThatTrustsItsTail),
    "follower that answers before it appends": _following(FollowerThatAnswersBeforeItAppends),
    "follower that begins anew without producers": _beginning_anew_without_producers,
    "leader that does not wait for followers": _counting_on_itself,
    "leader that replies at once": _leading(LeaderThatRepliesAtOnce),
    "leader that takes in too early": _taking_in_too_early,
    "lease that never ends": lambda: replacing(Lease, LeaseThatNeverEnds),
    "controller that ignores losses": lambda: replacing(ReplicationControl, ControllerThatIgnoresLosses),
    "election outside of the in-sync set": _electing_anybody,
    "high watermark without the proposed set": _counting_on_the_confirmed_set,
    "answers of another incarnation": _counting_answers_of_other_incarnations,
}
