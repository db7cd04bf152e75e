"""Whatever happens to KIP-848 groups, the log says what the coordinator knows, and each request is answered once."""

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from eagleray.broker.groups.consumer.groups import ConsumerState, _state_of
from eagleray.protocol.errors import ErrorCode
from tests.support.consumer_driver import SESSION_MS, ConsumerDriver
from tests.support.groups import ORDERS_0, offset

GROUPS = ("audit", "billing")
groups = st.sampled_from(GROUPS)
members = st.sampled_from(["a", "b", "c"])


class GroupsAtACoordinator(RuleBasedStateMachine):
    """Members of both protocols come and go, while the log is slow, fails or is read again."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ConsumerDriver()
        self.asked: list[int] = []

    def ask(self, request: Callable[..., int], *fields: Any, **named: Any) -> None:
        self.asked.append(request(*fields, **named))

    # Members and admins

    @rule(group=groups, member=members, topic=st.sampled_from(["orders", "payments"]))
    def enter(self, group: str, member: str, topic: str) -> None:
        self.ask(self.driver.enter, member, topic, group=group)

    @rule(group=groups, member=members, epoch=st.integers(0, 4), tells=st.booleans())
    def stay(self, group: str, member: str, epoch: int, tells: bool) -> None:
        found = _state_of(self.driver.coordinator._context.shards.by_partition[0]).groups.groups.get(group)
        known = epoch if found is None or member not in found.members else found.members[member].epoch
        self.ask(self.driver.stay, member, known, group=group, owned=() if tells else None)

    @rule(group=groups, member=members)
    def leave(self, group: str, member: str) -> None:
        self.ask(self.driver.leave_consumers, member, group=group)

    @rule(group=groups)
    def join_a_classic_group(self, group: str) -> None:
        request = self.driver.join(group=group, requires_known_member_id=False)
        answer = self.driver.replies.get(request)
        if answer is not None and answer.error_code is ErrorCode.NONE:
            self.ask(self.driver.sync, answer, group=group)
            self.driver.leave(answer.member_id, group=group)

    @rule(group=groups)
    def delete(self, group: str) -> None:
        self.ask(self.driver.delete_group, group)

    @rule(group=groups, member=members, epoch=st.integers(-1, 3))
    def commit(self, group: str, member: str, epoch: int) -> None:
        self.ask(self.driver.commit, offset(ORDERS_0, 5), group=group, generation=epoch, member_id=member)

    @rule(orders=st.integers(1, 4), payments=st.integers(0, 2))
    def change_topics(self, orders: int, payments: int) -> None:
        self.driver.tell_topics(orders=orders, **({"payments": payments} if payments else {}))

    # Time and the log

    @rule(after_ms=st.sampled_from([50, SESSION_MS // 2, SESSION_MS]))
    def tick(self, after_ms: int) -> None:
        self.driver.tick(after_ms)

    @rule(refuses=st.sampled_from([False, False, True]))
    def log_refuses(self, refuses: bool) -> None:
        self.driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE if refuses else ErrorCode.NONE

    @rule(is_lost=st.sampled_from([False, False, True]))
    def answer_of_the_log(self, is_lost: bool) -> None:
        if self.driver.appends:
            (self.driver.lose if is_lost else self.driver.append)()

    @rule()
    def move(self) -> None:
        """Another coordinator takes over; the clients that waited are told."""
        self.driver.resign()
        self.all_are_answered()
        self.driver.appends.clear()
        self.driver.restart()
        self.asked.clear()

    # What always holds

    @invariant()
    def the_log_says_what_is_known(self) -> None:
        live = _state_of(self.driver.coordinator._context.shards.by_partition[0])
        logged = self.driver.load().members[3]
        assert isinstance(logged, ConsumerState)
        assert _states(logged) == _states(live)

    def all_are_answered(self) -> None:
        assert [request for request in self.asked if request not in self.driver.replies] == []

    def teardown(self) -> None:
        self.driver.refusal = ErrorCode.NONE
        self.driver.settle()
        self.all_are_answered()
        for group in GROUPS:
            assert self.driver.entered("late", group=group).error_code in (
                ErrorCode.NONE,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), "a classic group has members, or any client may join"


def _states(state: ConsumerState) -> dict[str, Any]:
    return {name: group.state for name, group in state.groups.groups.items()}


TestGroupsAtACoordinator = GroupsAtACoordinator.TestCase
TestGroupsAtACoordinator.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
