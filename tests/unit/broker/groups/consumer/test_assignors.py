"""Who gets which partitions, by example; tests/property has what holds for all groups."""

import pytest

from eagleray.broker.groups.consumer.assignors import ASSIGNORS
from eagleray.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions
from eagleray.broker.groups.consumer.range_assignor import assign_ranges
from eagleray.broker.groups.consumer.subscriptions import Subscriber
from eagleray.broker.groups.consumer.uniform_assignor import assign_uniformly
from tests.support.consumer_groups import parts, topic_id


def wants(*names: str, has: Partitions = NO_PARTITIONS, instance_id: str | None = None) -> Subscriber:
    return Subscriber(topic_ids=frozenset(map(topic_id, names)), partitions=has, instance_id=instance_id)


def counts(**topics: int) -> dict[bytes, int]:
    return {topic_id(name): count for name, count in topics.items()}


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
def test_empty_group_and_members_without_topics_get_nothing(assign):
    assert assign({}, counts(orders=3)) == {}
    assert assign({"a": wants()}, counts(orders=3)) == {"a": NO_PARTITIONS}
    assert assign({"a": wants("orders")}, {}) == {"a": NO_PARTITIONS}


def test_ranges_of_equal_topics_are_cut_at_the_same_places():
    members = {"a": wants("orders", "payments"), "b": wants("orders", "payments")}
    assert assign_ranges(members, counts(orders=3, payments=3)) == {
        "a": parts("orders", 0, 1) | parts("payments", 0, 1),
        "b": parts("orders", 2) | parts("payments", 2),
    }


def test_ranges_are_cut_for_the_subscribers_of_a_topic_alone():
    members = {"a": wants("orders", "payments"), "b": wants("orders"), "c": wants("orders")}
    assert assign_ranges(members, counts(orders=2, payments=2)) == {
        "a": parts("orders", 0) | parts("payments", 0, 1),
        "b": parts("orders", 1),
        "c": NO_PARTITIONS,
    }


def test_static_members_come_first_by_the_id_that_they_keep():
    members = {
        "z": wants("orders", instance_id="one"),
        "a": wants("orders"),
        "b": wants("orders", instance_id="two"),
    }
    assert assign_ranges(members, counts(orders=3)) == {
        "z": parts("orders", 0),
        "b": parts("orders", 1),
        "a": parts("orders", 2),
    }


def test_uniform_spreads_each_topic():
    members = {"a": wants("orders", "payments"), "b": wants("orders", "payments")}
    assert assign_uniformly(members, counts(orders=2, payments=2)) == {
        "a": parts("orders", 0) | parts("payments", 0),
        "b": parts("orders", 1) | parts("payments", 1),
    }


def test_a_member_that_joins_gets_no_more_than_its_share():
    members = {"a": wants("orders", has=parts("orders", 0, 1, 2, 3)), "b": wants("orders")}
    assert assign_uniformly(members, counts(orders=4)) == {"a": parts("orders", 0, 1), "b": parts("orders", 2, 3)}


def test_only_the_surplus_moves():
    members = {
        name: wants("orders", has=parts("orders", *range(first, first + 6)))
        for name, first in (("a", 0), ("b", 6), ("c", 12))
    }
    assigned = assign_uniformly(members | {"d": wants("orders")}, counts(orders=18))
    assert sorted(map(len, assigned.values())) == [4, 4, 5, 5]
    assert sum(len(members[name].partitions - assigned[name]) for name in members) == 4


def test_new_partitions_go_to_the_member_that_has_least():
    members = {"a": wants("orders", has=parts("orders", 0, 1)), "b": wants("orders", has=parts("orders", 2))}
    assert assign_uniformly(members, counts(orders=4)) == {"a": parts("orders", 0, 1), "b": parts("orders", 2, 3)}


def test_partition_that_is_gone_or_no_longer_wanted_is_not_kept():
    members = {"a": wants("orders", has=parts("orders", 0, 7) | parts("gone", 0) | parts("payments", 0))}
    assert assign_uniformly(members, counts(orders=2, payments=1)) == {"a": parts("orders", 0, 1)}


def test_members_that_want_more_leave_what_others_alone_want():
    members = {"a": wants("orders", "payments"), "b": wants("orders")}
    assert assign_uniformly(members, counts(orders=2, payments=2)) == {
        "a": parts("payments", 0, 1),
        "b": parts("orders", 0, 1),
    }


def test_a_partition_that_two_had_goes_to_one():
    both = wants("orders", has=parts("orders", 0))
    assert assign_uniformly({"a": both, "b": both}, counts(orders=1)) == {"a": parts("orders", 0), "b": NO_PARTITIONS}


def test_thousands_of_partitions_are_shared_evenly():
    first = {"member-0": wants("orders", has=parts("orders", *range(10_000)))}
    assigned = assign_uniformly(first | {f"member-{n}": wants("orders") for n in range(1, 100)}, counts(orders=10_000))
    assert {len(partitions) for partitions in assigned.values()} == {100}
