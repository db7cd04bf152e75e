"""Consumers that are members of a group, blocking and asyncio, at real nodes: one table of scenarios for both."""

import threading
import time
from collections import Counter

import pytest

from eagleray.broker.groups.consumer.events import ConsumerHeartbeat, DescribeConsumerGroup
from eagleray.broker.identities import TopicPartition
from eagleray.client.errors import CommitFailed, FatalError, RefusedError, TopicNotFound
from tests.support.group_flavours import FLAVOURS, group_world

LIMIT_S = 60


@pytest.fixture(params=[*FLAVOURS])
def world(request, tmp_path):
    with group_world(tmp_path, request.param) as made:
        made.sync.admin.create_topic("orders", partitions=4)
        yield made


def all_of(topic="orders", partitions=4):
    return {TopicPartition(topic, number) for number in range(partitions)}


def poll_until(is_done, *consumers, what="it is done"):
    """Poll, in turn, until something is so; return what came, with whose it was."""
    deadline_s = time.monotonic() + LIMIT_S
    found = [[] for _ in consumers]
    while not is_done(found):
        assert time.monotonic() < deadline_s, f"not in time: {what}; {[len(each) for each in found]}"
        for consumer, records in zip(consumers, found, strict=True):
            records.extend(consumer.poll(20))
    return found


def share(*consumers, partitions=4):
    """Poll until the consumers have an equal part of the partitions each."""
    size = partitions // len(consumers)
    return poll_until(
        lambda _: all(len(consumer.assignment()) == size for consumer in consumers), *consumers, what="all have a part"
    )


def values(*found):
    return Counter(record.value for records in found for record in records)


def numbers(count):
    return Counter(b"%d" % number for number in range(count))


def members(world, group):
    async def ask():
        runtime = world.cluster.runtime
        return await runtime.peers.call(runtime.view.group_coordinator(group), DescribeConsumerGroup, group)

    return world.thread.run(ask()).members


class Told:
    """What callbacks were told, in order, and by which thread."""

    def __init__(self, world):
        self.events = []
        self.threads = set()
        self.callbacks = {
            name: world.flavour.callback(lambda partitions, name=name: self._note(name, partitions))
            for name in ("on_assigned", "on_revoked", "on_lost")
        }

    def _note(self, name, partitions):
        self.threads.add(threading.current_thread())
        self.events.append((name, {*partitions}))

    def of(self, name):
        return [partitions for kind, partitions in self.events if kind == name]


def test_consumer_alone_has_everything_at_once(world):
    world.fill("orders", 100, 4)
    with world.consumer("orders", group="one") as consumer:
        assert consumer.assignment() == all_of()
        (found,) = poll_until(lambda found: len(found[0]) >= 100, consumer)
        assert values(found) == numbers(100)
        metadata = consumer.group_metadata()
        assert (metadata.group_id, metadata.generation > 0, metadata.member_id != "") == ("one", True, True)


def test_two_consumers_share_the_records(world):
    with world.consumer("orders", group="one") as first, world.consumer("orders", group="one") as second:
        share(first, second)
        assert first.assignment() | second.assignment() == all_of()
        world.fill("orders", 400, 4)
        found = poll_until(lambda found: sum(map(len, found)) >= 400, first, second)
        assert values(*found) == numbers(400)
        assert {len(records) for records in found} == {200}


def test_partitions_of_a_member_that_left_go_on_where_it_has_committed(world):
    first, second = world.consumer("orders", group="one"), world.consumer("orders", group="one")
    share(first, second)
    world.fill("orders", 100, 4)
    found = poll_until(lambda found: sum(map(len, found)) >= 100, first, second)
    first.commit()
    second.commit()
    first.close()
    assert len(members(world, "one")) == 1, "it has left with close, not by its session timeout"
    poll_until(lambda _: second.assignment() == all_of(), second)
    world.fill("orders", 20, 4)
    (rest,) = poll_until(lambda found: len(found[0]) >= 20, second)
    assert values(*found) == numbers(100)
    assert values(rest) == numbers(20)
    second.close()


def test_callbacks_are_told_what_comes_and_goes_in_the_place_that_polls(world):
    told = Told(world)
    with world.consumer(group="one") as first:
        first.subscribe("orders", **told.callbacks)
        poll_until(lambda _: first.assignment() == all_of(), first)
        assert told.events == [("on_assigned", all_of())]
        with world.consumer("orders", group="one") as second:
            share(first, second)
            assert told.of("on_revoked") == [all_of() - first.assignment()]
        poll_until(lambda _: first.assignment() == all_of(), first)
    assert [name for name, _ in told.events] == ["on_assigned", "on_revoked", "on_assigned", "on_revoked"]
    assert told.events[-1] == ("on_revoked", all_of()), "what it had when it was closed"
    is_blocking = world.flavour.name == "blocking"
    assert told.threads == {threading.current_thread() if is_blocking else world.thread._thread}


def test_consumer_that_unsubscribes_leaves_and_is_told_so_and_may_come_back(world):
    told = Told(world)
    with world.consumer(group="one") as consumer:
        consumer.subscribe("orders", **told.callbacks)
        poll_until(lambda _: consumer.assignment() == all_of(), consumer)
        consumer.unsubscribe()
        assert told.events == [("on_assigned", all_of()), ("on_revoked", all_of())]
        assert (consumer.assignment(), members(world, "one")) == (set(), ())
        consumer.subscribe("orders")
        poll_until(lambda _: consumer.assignment() == all_of(), consumer)


def test_offsets_may_be_committed_while_partitions_are_revoked(world):
    world.fill("orders", 100, 4)
    with world.consumer(group="one") as first:
        inner = world.flavour.inner(first)

        def commit(_):
            # The asyncio flavour awaits what this returns.
            return inner.commit() if world.flavour.name == "asyncio" else first.commit()

        first.subscribe("orders", on_revoked=world.flavour.callback(commit))
        (before,) = poll_until(lambda found: len(found[0]) >= 100, first)
        with world.consumer("orders", group="one") as second:
            found = share(first, second)
            world.fill("orders", 40, 4)
            more = poll_until(lambda more: values(*found, *more) == numbers(40), first, second)
    assert values(before) == numbers(100)
    assert values(*found, *more) == numbers(40), "nothing is read twice: the second goes on where the first has been"


def test_automatic_commits_come_before_partitions_are_given_up(world):
    world.fill("orders", 100, 4)
    settings = {"group": "one", "enable_auto_commit": True, "auto_commit_interval_ms": 1_000_000}
    with world.consumer("orders", **settings) as first:
        poll_until(lambda found: len(found[0]) >= 100, first)
        with world.consumer("orders", group="one") as second:
            found = share(first, second)
            assert values(*found) == Counter()
            theirs = second.assignment()
            assert {name: found.offset for name, found in second.committed(*theirs).items()} == dict.fromkeys(
                theirs, 25
            )


def test_static_member_keeps_its_partitions_while_it_is_away(world):
    told = Told(world)
    with world.consumer(group="one") as other:
        other.subscribe("orders", **told.callbacks)
        static = world.consumer("orders", group="one", group_instance_id="cart-1")
        share(static, other)
        had, before = static.assignment(), len(told.events)
        static.close()
        for _ in range(10):
            other.poll(20)
        again = world.consumer("orders", group="one", group_instance_id="cart-1")
        share(again, other)
        assert again.assignment() == had
        assert len(told.events) == before, "nothing was taken from the others meanwhile"
        again.close()


def test_second_consumer_of_an_instance_id_that_is_held_is_refused(world):
    static = {"group": "one", "group_instance_id": "cart-1"}
    with world.consumer("orders", **static), pytest.raises(FatalError, match="has not left"):
        world.consumer("orders", **static)


@pytest.mark.parametrize(("assignor", "sizes"), [("range", [2, 4]), ("uniform", [3, 3]), (None, [3, 3])])
def test_remote_assignor_of_the_members_shares_the_partitions_out(world, assignor, sizes):
    """Of two topics with three partitions each, ranges give the first member two of each."""
    for topic in ("left", "right"):
        world.sync.admin.create_topic(topic, partitions=3)
    settings = {"group": "one", "group_remote_assignor": assignor}
    with world.consumer("left", "right", **settings) as first, world.consumer("left", "right", **settings) as second:
        poll_until(
            lambda _: sorted(len(consumer.assignment()) for consumer in (first, second)) == sizes,
            first,
            second,
            what=f"{assignor} gives {sizes}",
        )
        assert first.assignment() | second.assignment() == all_of("left", 3) | all_of("right", 3)
        if assignor == "range":
            for consumer in (first, second):
                left, right = numbers_of(consumer, "left"), numbers_of(consumer, "right")
                assert left == right, "equal keys of both topics go to the same member"


def numbers_of(consumer, topic):
    return {partition.partition for partition in consumer.assignment() if partition.topic == topic}


def test_pattern_is_resolved_by_the_broker_and_finds_topics_that_come_later(world):
    with world.consumer(group="one") as consumer:
        consumer.subscribe(pattern="or.*s")
        poll_until(lambda _: consumer.assignment() == all_of(), consumer)
        world.sync.admin.create_topic("organs", partitions=2)
        world.sync.admin.create_topic("invoices", partitions=2)
        poll_until(lambda _: consumer.assignment() == all_of() | all_of("organs", 2), consumer)
        consumer.subscribe("invoices")
        poll_until(lambda _: consumer.assignment() == all_of("invoices", 2), consumer)


def test_pattern_that_is_none_is_refused(world):
    with world.consumer(group="one") as consumer:
        consumer.subscribe(pattern="or(")
        with pytest.raises(RefusedError, match="regular expression"):
            poll_until(lambda _: False, consumer)


def test_topic_that_comes_later_is_waited_for_with_one_warning(world, caplog):
    with world.consumer("later", group="one") as consumer:
        assert consumer.poll(200) == []
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(warnings) == 1
        assert "'later'" in warnings[0]
        world.sync.admin.create_topic("later", partitions=2)
        world.fill("later", 10, 2)
        (found,) = poll_until(lambda found: len(found[0]) >= 10, consumer)
        assert values(found) == numbers(10)


def test_topic_that_does_not_exist_is_an_error_without_a_group(world):
    with pytest.raises(TopicNotFound, match=r"'nope'.*create_topic"):
        world.consumer("nope")
    with world.consumer() as consumer:
        consumer.assign([TopicPartition("orders", 9)])
        with pytest.raises(TopicNotFound, match="partitions 0 to 3"):
            poll_until(lambda _: False, consumer)
        with pytest.raises(TopicNotFound, match="partitions 0 to 3"):
            consumer.end_offsets(TopicPartition("orders", 9))


def test_topic_that_was_just_made_by_another_client_is_found(world):
    """What this client has seen of the cluster is older than the topic."""
    with world.another_client() as other:
        other.admin.create_topic("fresh", partitions=1)
        with world.consumer("fresh") as consumer:
            assert consumer.assignment() == all_of("fresh", 1)


def test_assign_never_joins(world):
    world.fill("orders", 100, 4)
    with world.consumer(group="one") as first, world.consumer(group="one") as second:
        for consumer in (first, second):
            consumer.assign(all_of())
        found = poll_until(lambda found: all(len(records) >= 100 for records in found), first, second)
        assert [values(records) for records in found] == [numbers(100)] * 2
        assert first.group_metadata().generation == -1
        first.commit()
        second.commit()
    with world.consumer("orders", group="one") as member:
        with pytest.raises(RefusedError, match="unsubscribe"):
            member.assign(all_of())
        assert member.poll(100) == []
        member.unsubscribe()
        member.assign([TopicPartition("orders", 0)])
        member.seek_to_beginning()
        (found,) = poll_until(lambda found: len(found[0]) >= 25, member)


def test_member_that_does_not_poll_leaves_and_its_commits_and_transactions_are_refused(world):
    world.fill("orders", 100, 4)
    told = Told(world)
    with world.consumer(group="one", max_poll_interval_ms=300) as slow, world.consumer(group="one") as other:
        slow.subscribe("orders", **told.callbacks)
        (found,) = poll_until(lambda found: len(found[0]) >= 100, slow)
        assert values(found) == numbers(100)
        positions, metadata = slow.positions(), slow.group_metadata()
        other.subscribe("orders")
        (again,) = poll_until(lambda found: len(found[0]) >= 100, other)
        assert values(again) == numbers(100)
        assert slow.group_metadata() == metadata
        with pytest.raises(CommitFailed):
            slow.commit()
        with world.sync.producer(transactional_id="slow") as producer:
            producer.begin()
            with pytest.raises(CommitFailed):
                producer.send_offsets(positions, slow.group_metadata())
            producer.abort()
        assert told.of("on_lost") == []
        share(slow, other)
        assert told.of("on_lost") == [all_of()]
        assert told.of("on_revoked") == []


def test_member_that_the_group_has_lost_joins_again_without_what_it_had(world):
    world.fill("orders", 100, 4)
    told = Told(world)
    with world.consumer(group="one") as consumer:
        consumer.subscribe("orders", on_assigned=told.callbacks["on_assigned"], on_revoked=told.callbacks["on_revoked"])
        poll_until(lambda found: len(found[0]) >= 100, consumer)
        first_epoch = consumer.group_metadata().generation
        expel(world, "one", consumer.group_metadata().member_id)
        (found,) = poll_until(lambda found: len(found[0]) >= 100, consumer)
        assert values(found) == numbers(100), "it had committed nothing"
        assert [name for name, _ in told.events] == ["on_assigned", "on_revoked", "on_assigned"]
        assert consumer.group_metadata().generation != first_epoch


def test_consume_transform_produce_scales_out_exactly(world):
    world.sync.admin.create_topic("invoices", partitions=2)
    world.fill("orders", 100, 4)
    consumers = [world.consumer("orders", group="billing") for _ in range(2)]
    producers = [world.sync.producer(transactional_id=f"billing-{number}") for number in range(2)]
    for _ in range(4):
        world.fill("orders", 100, 4)
    copied, deadline_s = 0, time.monotonic() + LIMIT_S
    while copied < 500:
        assert time.monotonic() < deadline_s, copied
        for consumer, producer in zip(consumers, producers, strict=True):
            records = consumer.poll(20, 30)
            if records:
                with producer.transaction():
                    for record in records:
                        producer.send("invoices", record.value)
                    producer.send_offsets(consumer.positions(), consumer.group_metadata())
                copied += len(records)
    for client in (*consumers, *producers):
        client.close()
    with world.consumer("invoices") as reader:
        (found,) = poll_until(lambda found: len(found[0]) >= 500, reader)
    assert values(found) == Counter(dict.fromkeys(numbers(100), 5))


def test_consumer_goes_on_when_the_coordinator_is_started_again(world):
    group = next(
        name for name in map("group-{}".format, range(100)) if world.cluster.runtime.view.group_coordinator(name) == 1
    )
    with world.consumer("orders", group=group) as consumer:
        metadata = consumer.group_metadata()
        world.on_nodes(restart(world.nodes, 1))
        world.fill("orders", 100, 4)
        poll_until(lambda found: len(found[0]) >= 100, consumer)
        consumer.commit()
        assert consumer.group_metadata() == metadata


def test_cluster_that_is_closed_lets_its_consumers_leave(world):
    consumer = world.consumer("orders", group="one")
    assert len(members(world, "one")) == 1
    with world.another_client() as other:
        inner = other.consumer("orders", group="one")
        assert len(members(world, "one")) == 2
        inner._is_closed = True  # it was dropped by the application, which closed the cluster only
    assert len(members(world, "one")) == 1
    consumer.close()
    assert members(world, "one") == ()


async def restart(nodes, node_id):
    await nodes.stop_node(node_id)
    await nodes.start_node(node_id)
    await nodes.until_registered()


def expel(world, group, member_id):
    """Take a member out of its group, as an admin or an expired session does."""

    async def ask():
        runtime = world.cluster.runtime
        return await runtime.peers.call(runtime.view.group_coordinator(group), ConsumerHeartbeat, group, member_id, -1)

    assert world.thread.run(ask()).error_code.name == "NONE"
