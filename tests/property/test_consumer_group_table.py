"""Any group, whatever its members do and whatever gets lost: no two own the same, and all comes to rest."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from eagleray.broker.groups.consumer.topics import Topics
from eagleray.protocol.errors import ErrorCode
from tests.support.consumer_groups import FENCING, GROUP, Consumer, GroupWorld, topic_id

TOPICS = ["orders", "orders-eu", "payments"]
SESSION_MS = 45_000
EXPECTED = (ErrorCode.NONE, ErrorCode.UNRELEASED_INSTANCE_ID, *FENCING)

names = st.lists(st.sampled_from(TOPICS), min_size=1, unique=True)
subscriptions = st.one_of(
    names.map(lambda chosen: {"subscribed_topic_names": tuple(chosen)}),
    st.sampled_from(["orders.*", "pay.*", ".*"]).map(
        lambda regex: {"subscribed_topic_names": None, "subscribed_topic_regex": regex}
    ),
)
assignors = st.sampled_from([None, "uniform", "range"])
instances = st.sampled_from([None, None, "one", "two"])


class ConsumerGroupMachine(RuleBasedStateMachine):
    consumers = Bundle("consumers")

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld({"orders": 2})
        self.counts = {"orders": (0, 2)}
        self.incarnations = 0
        self.living: list[Consumer] = []
        self.joined = 0
        self.epochs = (0, 0)
        self.member_epochs: dict[str, int] = {}

    @initialize(target=consumers, all_of_them=st.lists(st.tuples(subscriptions, assignors, instances), max_size=4))
    def begin(self, all_of_them: list[tuple[dict, str | None, str | None]]):
        return multiple(*(self.join(*one) for one in all_of_them))

    # Members

    @rule(target=consumers, subscription=subscriptions, assignor=assignors, instance=instances)
    def join(self, subscription: dict, assignor: str | None, instance: str | None) -> Consumer:
        self.joined += 1
        static = {} if instance is None else {"instance_id": instance}
        consumer = Consumer(self.world, f"m{self.joined}", **(subscription | static | {"server_assignor": assignor}))
        self.living.append(consumer)
        self.beat(consumer, loses_answer=False, gives_up=True)
        return consumer

    @rule(consumer=consumers, loses_answer=st.booleans(), gives_up=st.booleans())
    def beat(self, consumer: Consumer, loses_answer: bool, gives_up: bool) -> None:
        assert consumer.beat(loses_answer=loses_answer, gives_up=gives_up) in EXPECTED

    @rule(data=st.data(), rounds=st.integers(1, 3))
    def everybody_beats(self, data: st.DataObject, rounds: int) -> None:
        for _ in range(rounds):
            for consumer in data.draw(st.permutations(self.living)):
                self.beat(consumer, loses_answer=False, gives_up=True)

    @rule(consumer=consumers, subscription=subscriptions)
    def subscribe(self, consumer: Consumer, subscription: dict) -> None:
        consumer.subscribe(**({"subscribed_topic_regex": ""} | subscription))

    @precondition(lambda self: len(self.living) > 2)
    @rule(target=consumers, consumer=consumes(consumers))
    def leave(self, consumer: Consumer):
        consumer.leave()
        self.living.remove(consumer)
        return multiple()

    @rule(target=consumers, consumer=consumes(consumers), returns=st.booleans())
    def restart_of_a_static_member(self, consumer: Consumer, returns: bool):
        instance = consumer.fields.get("instance_id")
        if instance is None:
            return consumer
        consumer.leave(-2)
        self.living.remove(consumer)
        if not returns:
            return multiple()
        return self.join(
            {"subscribed_topic_names": consumer.fields["subscribed_topic_names"] or ("orders",)}, None, instance
        )

    @precondition(lambda self: len(self.living) > 2)
    @rule(target=consumers, consumer=consumes(consumers))
    def crash(self, consumer: Consumer):
        self.living.remove(consumer)
        return multiple()

    # The world

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 3))
    def grow(self, topic: str, more: int) -> None:
        incarnation, count = self.counts.get(topic, (self.incarnations, 0))
        self.counts[topic] = (incarnation, count + more)
        self._tell_topics()

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        self.incarnations += 1
        self.counts.pop(topic, None)
        self._tell_topics()

    def _tell_topics(self) -> None:
        self.world.topics = {
            name: (topic_id(name, incarnation), count) for name, (incarnation, count) in self.counts.items()
        }
        self.world.groups.take_topics(Topics(self.world.topics, 0))

    @rule(elapsed_ms=st.integers(0, 30_000))
    def pass_time(self, elapsed_ms: int) -> None:
        self.world.pass_time(elapsed_ms)

    @rule(consumer=consumers)
    def log_refuses_a_decision(self, consumer: Consumer) -> None:
        """The log takes nothing: nothing has happened, and the member hears nothing."""
        group = self.world.groups.groups.get(GROUP)
        before = None if group is None else group.state.copy()
        self.world.decide(member_id=consumer.member_id, member_epoch=-1)
        group = self.world.groups.groups.get(GROUP)
        assert (None if group is None else group.state) == before

    @rule(is_compacted=st.booleans())
    def restart(self, is_compacted: bool) -> None:
        if is_compacted:
            latest: dict[bytes, bytes | None] = {}
            for key, value in self.world.log:
                latest.pop(key, None)
                latest[key] = value
            self.world.log = [(key, value) for key, value in latest.items() if value is not None]
        before = {name: group.state for name, group in self.world.groups.groups.items()}
        self.world.restart()
        assert {name: group.state for name, group in self.world.groups.groups.items()} == before

    # What always holds

    @invariant()
    def nobody_owns_what_another_owns(self) -> None:
        group = self.world.groups.groups.get(GROUP)
        if group is None:
            return
        members = group.state.members
        taken: dict = {}
        for consumer in self.living:
            if consumer.member_id in members:
                assert consumer.held <= members[consumer.member_id].held, consumer.member_id
                for partition in consumer.held:
                    assert taken.setdefault(partition, consumer.member_id) == consumer.member_id

    @invariant()
    def the_state_fits_together(self) -> None:
        group = self.world.groups.groups.get(GROUP)
        if group is None:
            return
        state = group.state
        assert state.holders == {partition: name for name, member in state.members.items() for partition in member.held}
        assert sum(len(member.held) for member in state.members.values()) == len(state.holders)
        assert state.static_members == {
            member.instance_id: name for name, member in state.members.items() if member.instance_id is not None
        }
        for member in state.members.values():
            assert member.held_since.keys() == member.held
            assert all(0 < epoch <= state.assignment_epoch for epoch in member.held_since.values())
        assert state.targets.keys() <= state.members.keys()
        assert all(member.epoch <= state.assignment_epoch for member in state.members.values())
        assert state.assignment_epoch <= state.epoch

    @invariant()
    def epochs_never_fall(self) -> None:
        group = self.world.groups.groups.get(GROUP)
        if group is None:
            return
        state = group.state
        assert (state.epoch, state.assignment_epoch) >= self.epochs
        self.epochs = (state.epoch, state.assignment_epoch)
        for name, member in state.members.items():
            if member.epoch > 0:
                assert member.epoch >= self.member_epochs.get(name, 0)
                self.member_epochs[name] = member.epoch

    def teardown(self) -> None:
        """Every member that still lives heartbeats: the dead are found out, and all partitions find their owners."""
        for round_number in range(24):
            self.world.pass_time(SESSION_MS // 4 if round_number < 8 else 0)
            for consumer in self.living:
                self.beat(consumer, loses_answer=False, gives_up=True)
            self.nobody_owns_what_another_owns()
        self.restart(is_compacted=True)
        if GROUP in self.world.groups.groups:
            self._all_is_at_rest()

    def _all_is_at_rest(self) -> None:
        state = self.world.state
        members = [consumer for consumer in self.living if consumer.member_id in state.members]
        assert {consumer.member_id for consumer in members} == state.members.keys()
        assert state.status == ("Stable" if members else "Empty")
        wanted = {
            (topic, number)
            for name in state.subscribed_topics() & self.world.topics.keys()
            for topic, count in [self.world.topics[name]]
            for number in range(count)
        }
        owned = [partition for consumer in members for partition in consumer.owned]
        assert sorted(owned) == sorted(wanted)
        written = len(self.world.log)
        for consumer in members:
            assert consumer.beat() is ErrorCode.NONE
        assert len(self.world.log) == written


TestConsumerGroups = ConsumerGroupMachine.TestCase
