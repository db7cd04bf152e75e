"""What holds for every assignment, whoever wants what and whoever had what before."""

from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.groups.consumer.assignors import ASSIGNORS
from eagleray.broker.groups.consumer.partitions import Partitions, TopicIdPartition
from eagleray.broker.groups.consumer.subscriptions import Subscriber
from eagleray.broker.groups.consumer.uniform_assignor import assign_uniformly

TOPICS = [f"topic-{number}".encode().ljust(16) for number in range(5)]
MEMBERS = [f"member-{number}" for number in range(6)]

partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9))
topic_sets = st.frozensets(st.sampled_from(TOPICS))
partition_sets = st.frozensets(st.builds(TopicIdPartition, st.sampled_from(TOPICS), st.integers(0, 9)), max_size=20)


@st.composite
def groups(draw: st.DrawFn, topic_ids: st.SearchStrategy[frozenset[bytes]] = topic_sets) -> dict[str, Subscriber]:
    """Any members, with any past, as long as no two of them had the same partition."""
    members, taken = {}, frozenset()
    for member_id in draw(st.lists(st.sampled_from(MEMBERS), unique=True)):
        had = draw(partition_sets) - taken
        taken |= had
        # Instance ids are in another order than member ids.
        instance_id = draw(st.sampled_from((None, member_id[::-1])))
        members[member_id] = Subscriber(topic_ids=draw(topic_ids), partitions=had, instance_id=instance_id)
    return members


def of_same_topics(members: dict[str, Subscriber], topic_ids: frozenset[bytes]) -> dict[str, Subscriber]:
    return {name: Subscriber(topic_ids=topic_ids, partitions=member.partitions) for name, member in members.items()}


def with_past(members: dict[str, Subscriber], assigned: dict[str, Partitions]) -> dict[str, Subscriber]:
    return {
        name: Subscriber(topic_ids=member.topic_ids, partitions=assigned.get(name, frozenset()))
        for name, member in members.items()
    }


@given(groups(), partition_counts, st.sampled_from(sorted(ASSIGNORS)), st.randoms(use_true_random=False))
def test_every_partition_of_a_subscribed_topic_has_one_owner(members, counts, name, random):
    assigned = ASSIGNORS[name](members, counts)
    assert assigned.keys() == members.keys()
    wanted = frozenset().union(*(member.topic_ids for member in members.values()))
    everything = [
        TopicIdPartition(topic, number) for topic in wanted & counts.keys() for number in range(counts[topic])
    ]
    assert sorted(partition for partitions in assigned.values() for partition in partitions) == sorted(everything)
    for member_id, partitions in assigned.items():
        assert {partition.topic_id for partition in partitions} <= members[member_id].topic_ids
    # The order in which members and topics are told has no say in it.
    shuffled_members, shuffled_counts = list(members.items()), list(counts.items())
    random.shuffle(shuffled_members)
    random.shuffle(shuffled_counts)
    assert ASSIGNORS[name](dict(shuffled_members), dict(shuffled_counts)) == assigned


@given(groups(), partition_counts)
def test_uniform_loads_differ_only_where_subscriptions_do(members, counts):
    assigned = assign_uniformly(members, counts)
    for giver, partitions in assigned.items():
        for taker, others in assigned.items():
            topics = members[taker].topic_ids
            # Nobody could make it more even by giving something away.
            if any(partition.topic_id in topics for partition in partitions):
                assert len(partitions) - len(others) <= 1, (giver, taker)


@given(groups(), topic_sets, partition_counts)
def test_uniform_is_balanced_within_one_where_all_want_the_same(members, topic_ids, counts):
    same = of_same_topics(members, topic_ids)
    assigned = assign_uniformly(same, counts)
    loads = {len(partitions) for partitions in assigned.values()}
    assert not loads or max(loads) - min(loads) <= 1
    # No assignment that is as even could have moved less: everybody keeps what it had, up to its share.
    kept = {name: _still_there(member, counts) for name, member in same.items()}
    moved = sum(len(kept[name] - assigned[name]) for name in same)
    assert moved == _fewest_moves(list(map(len, kept.values())), sum(map(len, assigned.values())))


def _still_there(member: Subscriber, counts: dict[bytes, int]) -> Partitions:
    return frozenset(
        partition
        for partition in member.partitions
        if partition.topic_id in member.topic_ids and partition.partition < counts.get(partition.topic_id, 0)
    )


def _fewest_moves(loads: list[int], total: int) -> int:
    if not loads:
        return 0
    share, larger_shares = divmod(total, len(loads))
    shares = [share + (place < larger_shares) for place in range(len(loads))]
    return sum(max(0, load - allowed) for load, allowed in zip(sorted(loads, reverse=True), shares, strict=True))


@given(groups(), partition_counts)
def test_uniform_again_is_the_same(members, counts):
    assigned = assign_uniformly(members, counts)
    assert assign_uniformly(with_past(members, assigned), counts) == assigned


@given(groups(), topic_sets, partition_counts, st.sampled_from(MEMBERS))
def test_members_that_stay_keep_all_that_they_had_when_another_leaves(members, topic_ids, counts, leaver):
    same = of_same_topics(members, topic_ids)
    before = assign_uniformly(same, counts)
    left = with_past({name: member for name, member in same.items() if name != leaver}, before)
    after = assign_uniformly(left, counts)
    assert all(before[name] <= after[name] for name in left)


@given(groups(), topic_sets, partition_counts)
def test_members_that_were_there_get_nothing_new_when_another_joins(members, topic_ids, counts):
    same = of_same_topics(members, topic_ids)
    before = assign_uniformly(same, counts)
    joined = with_past(same, before) | {"newcomer": Subscriber(topic_ids=topic_ids)}
    after = assign_uniformly(joined, counts)
    assert all(after[name] <= before[name] for name in before)


@given(topic_sets, st.integers(1, 9), st.integers(1, 6))
def test_ranges_of_equal_topics_are_the_same_numbers(topic_ids, count, size):
    members = {name: Subscriber(topic_ids=topic_ids) for name in MEMBERS[:size]}
    assigned = ASSIGNORS["range"](members, dict.fromkeys(topic_ids, count))
    for partitions in assigned.values():
        numbers = {topic: {p.partition for p in partitions if p.topic_id == topic} for topic in topic_ids}
        assert len(set(map(frozenset, numbers.values()))) <= 1
        assert all(not found or len(found) == max(found) - min(found) + 1 for found in numbers.values())
