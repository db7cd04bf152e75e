"""What a member of a consumer group says to its coordinator, and what it does about the answers (KIP-848).

          subscribe        answer           assignment differs        change done
UNSUBSCRIBED ──► JOINING ─────────► STABLE ──────────────► RECONCILING ──────────► ACKNOWLEDGING ──► STABLE
                    ▲                  │ refused as a member of the past: FENCED
                    │                  │ the application does not poll:   STALE
                    └── loss is told ◄─┘ refused for good:                FATAL
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

import msgspec

from eagleray.broker.groups.consumer.events import NOT_GIVEN_MS, ConsumerHeartbeatAnswered, PartitionsOfTopic
from eagleray.broker.groups.consumer.member import JOINING, LEAVING, LEAVING_FOR_A_WHILE
from eagleray.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions, by_topic, from_topics
from eagleray.client.retry_policy import RetryPolicy
from eagleray.protocol.errors import ErrorCode

FENCING: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""Answers to a member that the group has given up; it may join again, without what it had."""


class MemberState(enum.Enum):
    """How a consumer stands to its group, under the names that Kafka's client has for it."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    """The application has to give up partitions, or to be given some, with its next poll."""

    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    """The group has given the member up; it joins again once the application knows what it has lost."""

    STALE = "stale"
    """The application has not polled for too long; the member has left, and joins again with the next poll."""

    LEAVING = "leaving"
    FATAL = "fatal"


_S = MemberState
_MEMBERS: Final = frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
_ACTIVE: Final = _MEMBERS | {_S.JOINING}
_LOST: Final = frozenset({_S.FENCED, _S.STALE, _S.FATAL})

NEXT_STATES: Final[dict[MemberState, frozenset[MemberState]]] = {
    _S.UNSUBSCRIBED: frozenset({_S.JOINING}),
    _S.JOINING: frozenset({_S.RECONCILING, _S.STABLE, _S.FENCED, _S.STALE, _S.LEAVING, _S.FATAL}),
    _S.RECONCILING: frozenset({_S.ACKNOWLEDGING, _S.STABLE, _S.FENCED, _S.STALE, _S.LEAVING, _S.FATAL}),
    _S.ACKNOWLEDGING: frozenset({_S.RECONCILING, _S.STABLE, _S.FENCED, _S.STALE, _S.LEAVING, _S.FATAL}),
    _S.STABLE: frozenset({_S.RECONCILING, _S.FENCED, _S.STALE, _S.LEAVING, _S.FATAL}),
    _S.FENCED: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
    _S.STALE: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
    _S.LEAVING: frozenset({_S.UNSUBSCRIBED}),
    _S.FATAL: frozenset({_S.UNSUBSCRIBED}),
}


class ChangeKind(enum.Enum):
    """What happens to partitions of a member."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


class Change(msgspec.Struct, frozen=True):
    """Partitions that the application is given, gives up, or has lost; it comes into force by `change_done`."""

    kind: ChangeKind
    partitions: Partitions


class Subscription(msgspec.Struct, frozen=True):
    """Topics by their names, and by a regular expression, which the coordinator resolves."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


class MemberSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A member's ids, its assignor, and how long it waits."""

    member_id: str
    group_instance_id: str | None = None
    assignor: str | None = None
    max_poll_interval_ms: int = 300_000
    retry_policy: RetryPolicy = RetryPolicy()


class MemberHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A heartbeat to send; its number goes back with the answer."""

    number: int
    member_epoch: int
    instance_id: str | None
    rebalance_timeout_ms: int = NOT_GIVEN_MS
    subscription: Subscription | None = None
    """None where the coordinator knows it already."""

    assignor: str | None = None
    owned: tuple[PartitionsOfTopic, ...] = ()


class GroupMembership:
    """One member of one group, without a network: it is asked for heartbeats, and told answers, polls and the time.

    Owns: the member's epoch, what it has and what it shall have. Partitions change hands only by `next_change` and
    `change_done`, which the application's poll calls, so that callbacks run where the application is. A member that
    the group has given up keeps its old epoch until the application has been told of its loss: whatever it still tries
    to commit in between is refused.
    """

    def __init__(self, settings: MemberSettings, now_ms: int) -> None:
        self._settings = settings
        self.state = MemberState.UNSUBSCRIBED
        self.epoch = JOINING
        self.subscription = Subscription()
        self.owned: Partitions = NO_PARTITIONS
        self.target: Partitions = NO_PARTITIONS
        self.error: tuple[ErrorCode, str | None] | None = None
        """Why the member cannot be one, in the state FATAL."""

        self.answers = 0
        """How many heartbeats were answered without an error."""

        self._polls = 0
        self._poll_deadline_ms = now_ms + settings.max_poll_interval_ms
        self._number = 0
        self._sent_ms: int | None = None
        self._due_ms = now_ms
        self._failures = 0
        self._tells_all = True
        self._told: tuple[Partitions, Subscription] = (NO_PARTITIONS, self.subscription)
        """What the last heartbeat has told."""

        self._has_to_leave = False

    # What the application does

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        """Want other topics; the first time, join the group for them."""
        self.subscription, self._tells_all, self._due_ms = subscription, True, now_ms
        if self.state is MemberState.UNSUBSCRIBED:
            self._join(now_ms)

    def poll_begins(self) -> None:
        """Take note that the application waits for records: as long as it does, its time does not run."""
        self._polls += 1

    def poll_ends(self, now_ms: int) -> None:
        """Give the application max.poll.interval.ms until its next poll."""
        self._polls -= 1
        self._poll_deadline_ms = now_ms + self._settings.max_poll_interval_ms

    def leave(self, now_ms: int) -> None:
        """Leave the group; a static member only says that it is away."""
        if self.state in _ACTIVE:
            self._go(MemberState.LEAVING)
            self._say_goodbye(now_ms)
        elif self.state is MemberState.UNSUBSCRIBED:
            return
        elif self.state is not MemberState.LEAVING:
            self._go(MemberState.UNSUBSCRIBED)
        self.owned = self.target = NO_PARTITIONS

    def _say_goodbye(self, now_ms: int) -> None:
        self._has_to_leave, self._sent_ms, self._due_ms = True, None, now_ms

    # Heartbeats

    def hurry(self, now_ms: int) -> None:
        """Let the next heartbeat be due now, unless the coordinator is given a rest after it did not answer."""
        if not self._failures:
            self._due_ms = now_ms

    def next_due_ms(self) -> int | None:
        """Say when to ask for a heartbeat again; None where only an event can change anything."""
        times = []
        if self._sent_ms is not None:
            times.append(self._sent_ms + self._settings.retry_policy.request_ms)
        elif self._has_to_leave or self.state in _ACTIVE:
            times.append(self._due_ms)
        if self.state in _ACTIVE and not self._polls:
            times.append(self._poll_deadline_ms)
        return min(times, default=None)

    def heartbeat(self, now_ms: int) -> MemberHeartbeat | None:
        """Return the heartbeat that is due, if one is; it counts as sent."""
        self._look_at_time(now_ms)
        if self._sent_ms is not None or now_ms < self._due_ms:
            return None
        if not self._has_to_leave and self.state not in _ACTIVE:
            return None
        self._number += 1
        self._sent_ms = now_ms
        return self._goodbye() if self._has_to_leave else self._regular()

    def _look_at_time(self, now_ms: int) -> None:
        if self._sent_ms is not None and now_ms - self._sent_ms >= self._settings.retry_policy.request_ms:
            self.unanswered(self._number, now_ms)
        if self.state in _ACTIVE and not self._polls and now_ms >= self._poll_deadline_ms:
            self._go(MemberState.STALE)
            self._say_goodbye(now_ms)

    def _goodbye(self) -> MemberHeartbeat:
        instance_id = self._settings.group_instance_id
        epoch = LEAVING if instance_id is None else LEAVING_FOR_A_WHILE
        return MemberHeartbeat(number=self._number, member_epoch=epoch, instance_id=instance_id)

    def _regular(self) -> MemberHeartbeat:
        settings, tells_all = self._settings, self._tells_all
        self._told = (self.owned, self.subscription)
        return MemberHeartbeat(
            number=self._number,
            member_epoch=JOINING if self.state is MemberState.JOINING else self.epoch,
            instance_id=settings.group_instance_id,
            rebalance_timeout_ms=settings.max_poll_interval_ms if tells_all else NOT_GIVEN_MS,
            subscription=self.subscription if tells_all else None,
            assignor=settings.assignor if tells_all else None,
            owned=tuple(PartitionsOfTopic(topic_id, numbers) for topic_id, numbers in by_topic(self.owned)),
        )

    def unanswered(self, number: int, now_ms: int) -> None:
        """Take note that a heartbeat may or may not have been heard: the next one tells everything."""
        if number != self._number or self._sent_ms is None:
            return
        self._sent_ms = None
        self._due_ms = now_ms + self._settings.retry_policy.pause_ms(self._failures)
        self._failures += 1
        self._tells_all = True
        self._end_goodbye()

    def answered(self, number: int, answer: ConsumerHeartbeatAnswered, now_ms: int) -> None:
        """Take the coordinator's answer; one to a heartbeat of before is of no interest."""
        if number != self._number or self._sent_ms is None:
            return
        if self._has_to_leave:
            self._sent_ms = None
            self._end_goodbye()
        elif answer.error_code.is_retriable:
            self.unanswered(number, now_ms)
        elif answer.error_code is not ErrorCode.NONE:
            self._sent_ms = None
            self._refused(answer)
        else:
            self._sent_ms = None
            self._accepted(answer, now_ms)

    def _end_goodbye(self) -> None:
        """Say goodbye once: a coordinator that has not heard it misses the heartbeats soon."""
        if self._has_to_leave:
            self._has_to_leave = False
            if self.state is MemberState.LEAVING:
                self._go(MemberState.UNSUBSCRIBED)

    def _refused(self, answer: ConsumerHeartbeatAnswered) -> None:
        if answer.error_code in FENCING:
            self._go(MemberState.FENCED)
        else:
            self.error = (answer.error_code, answer.message)
            self._go(MemberState.FATAL)

    def _accepted(self, answer: ConsumerHeartbeatAnswered, now_ms: int) -> None:
        self.answers += 1
        self._failures = 0
        self.epoch = answer.member_epoch
        # What has changed while the heartbeat was on its way is told at once.
        owned, subscription = self._told
        self._tells_all = subscription != self.subscription
        has_news = self._tells_all or owned != self.owned
        self._due_ms = now_ms if has_news else now_ms + max(answer.heartbeat_interval_ms, 1)
        if answer.assignment is not None:
            self.target = from_topics(answer.assignment)
        self._go(MemberState.STABLE if self.owned == self.target else MemberState.RECONCILING)

    # Partitions

    def next_change(self, is_known: Callable[[bytes], bool]) -> Change | None:
        """Return what the application has to be told next; partitions of topics that are not known yet can wait."""
        if self.state in _LOST:
            return Change(ChangeKind.LOST, self.owned) if self.owned else None
        if self.state is not MemberState.RECONCILING:
            return None
        revoked = self.owned - self.target
        if revoked:
            return Change(ChangeKind.REVOKED, revoked)
        added = frozenset(name for name in self.target - self.owned if is_known(name.topic_id))
        return Change(ChangeKind.ASSIGNED, added) if added else None

    def last_change(self) -> Change:
        """Return what the application is told when it leaves: what it has, it gives up, or has lost already."""
        return Change(ChangeKind.LOST if self.state in _LOST else ChangeKind.REVOKED, self.owned)

    def change_done(self, change: Change, now_ms: int) -> None:
        """Take note that the application has been told; the coordinator is, at once."""
        if self.state in {MemberState.LEAVING, MemberState.UNSUBSCRIBED}:
            return
        if change.kind is ChangeKind.ASSIGNED:
            self.owned |= change.partitions
        else:
            self.owned -= change.partitions
        if self.state is MemberState.RECONCILING:
            self._due_ms = now_ms
            if self.owned == self.target:
                self._go(MemberState.ACKNOWLEDGING)

    def rejoin(self, now_ms: int) -> None:
        """Join again, if the member is out of the group and the application has nothing left of its time in it."""
        if self.state in {MemberState.FENCED, MemberState.STALE} and not self.owned and not self._has_to_leave:
            self._join(now_ms)

    def _join(self, now_ms: int) -> None:
        self.target = NO_PARTITIONS
        self._poll_deadline_ms = now_ms + self._settings.max_poll_interval_ms
        self._tells_all, self._sent_ms, self._due_ms = True, None, now_ms
        self._go(MemberState.JOINING)

    @property
    def is_missing_topics(self) -> bool:
        """Whether something waits until its topic is known."""
        return self.state is MemberState.RECONCILING and self.owned < self.target

    @property
    def is_member(self) -> bool:
        """Whether the group has the member, as far as this side can know."""
        return self.state in _MEMBERS

    def _go(self, state: MemberState) -> None:
        assert state is self.state or state in NEXT_STATES[self.state], f"{self.state} does not lead to {state}"
        self.state = state
