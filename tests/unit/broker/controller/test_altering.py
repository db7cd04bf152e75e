"""Topics that there are: growing them, changing their settings, and deleting them."""

import msgspec
import pytest

from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    DeleteTopics,
    DescribeConfigs,
    GrowTopic,
    StartNodes,
    StopNodes,
)
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import SMALL, planned_driver

INTERNAL = ["__transaction_state", "__consumer_offsets"]


# Deleting


def test_a_deleted_topic_is_gone_and_its_name_free():
    driver = planned_driver()
    old = driver.create("orders", 2)
    (result,) = driver.ask(DeleteTopics, ("orders",)).results
    assert (result.error_code, result.topic_id) == (ErrorCode.NONE, old.topic_id)
    assert "orders" not in driver.image.topics
    assert driver.image.leader_of(TopicPartition("orders", 0)) == -1
    assert driver.create("orders").topic_id != old.topic_id


def test_existing_topic_is_deleted_beside_an_unknown_one():
    driver = planned_driver()
    driver.create("orders")
    answer = driver.ask(DeleteTopics, ("nothing", "orders"))
    codes = [result.error_code for result in answer.results]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]


def test_a_name_given_twice_is_not_deleted():
    driver = planned_driver()
    driver.create("orders")
    answer = driver.ask(DeleteTopics, ("orders", "orders"))
    assert [result.error_code for result in answer.results] == [ErrorCode.INVALID_REQUEST]
    assert "orders" in driver.image.topics


def test_a_topic_is_deleted_by_its_id_unless_another_has_its_name_by_now():
    driver = planned_driver()
    old = driver.create("orders").topic_id
    driver.ask(DeleteTopics, ("orders",))
    new = driver.create("orders").topic_id
    (result,) = driver.ask(DeleteTopics, ("orders",), {"orders": old}).results
    assert result.error_code is ErrorCode.UNKNOWN_TOPIC_ID
    assert driver.image.topic_id("orders") == new
    (result,) = driver.ask(DeleteTopics, ("orders",), {"orders": new}).results
    assert (result.error_code, result.topic_id) == (ErrorCode.NONE, new)


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_topics_are_not_for_clients_to_delete_grow_or_configure(name):
    driver = planned_driver()
    before = driver.image
    answers = [
        driver.ask(DeleteTopics, (name,)),
        driver.ask(GrowTopic, name, 60),
        driver.ask(AlterTopicConfigs, name, {"cleanup.policy": "delete"}),
    ]
    assert [answer.results[0].error_code for answer in answers] == [ErrorCode.INVALID_REQUEST] * 3
    assert driver.image is before


def test_dedicated_nodes_go_with_their_topic_and_their_ids_never_come_back():
    driver = planned_driver()
    driver.create("orders", 2, leader_placement="dedicated")
    driver.create("payments", 1, leader_placement="dedicated")
    driver.register(PlannedNode(1000, ("leader",)))
    appends = len(driver.batches)
    driver.ask(DeleteTopics, ("orders",))
    assert len(driver.batches) == appends + 1
    assert driver.supervision[-1] == StopNodes((1000, 1001))
    assert 1000 not in driver.image.nodes
    assert {1000, 1001, 1002} & set(driver.image.plan) == {1002}
    driver.ask(DeleteTopics, ("payments",))
    driver.restart()
    driver.create("orders", 1, leader_placement="dedicated")
    assert driver.image.leader_of(TopicPartition("orders", 0)) == 1003


# Growing


def test_a_topic_grows_behind_the_partitions_that_it_has():
    driver = planned_driver()
    driver.create("orders", 1)
    before = driver.image.topics["orders"].partitions
    (result,) = driver.ask(GrowTopic, "orders", 3).results
    assert (result.error_code, result.partitions) == (ErrorCode.NONE, 3)
    after = driver.image.topics["orders"].partitions
    assert after[:1] == before
    assert [partition.leader for partition in after] == [2, 3, 2]


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_a_topic_does_not_shrink_or_stay(count):
    driver = planned_driver()
    driver.create("orders", 2)
    (result,) = driver.ask(GrowTopic, "orders", count).results
    assert result.error_code is ErrorCode.INVALID_PARTITIONS
    assert "has 2 partitions" in result.message


def test_a_topic_that_does_not_exist_cannot_grow():
    (result,) = planned_driver().ask(GrowTopic, "orders", 2).results
    assert result.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topic_does_not_grow_beyond_what_a_cluster_may_have():
    driver = planned_driver(msgspec.structs.replace(SMALL, max_partitions_per_cluster=5))
    driver.create("orders", 2)
    driver.create("payments", 2)
    (refused,) = driver.ask(GrowTopic, "orders", 4).results
    assert refused.error_code is ErrorCode.POLICY_VIOLATION
    assert "max.partitions.per.cluster" in refused.message
    (grown,) = driver.ask(GrowTopic, "orders", 3).results
    assert grown.error_code is ErrorCode.NONE


def test_growth_that_is_only_validated_changes_nothing():
    driver = planned_driver()
    driver.create("orders", 1)
    (result,) = driver.ask(GrowTopic, "orders", 3, validate_only=True).results
    assert (result.error_code, result.partitions) == (ErrorCode.NONE, 3)
    assert len(driver.image.topics["orders"].partitions) == 1


def test_a_dedicated_topic_grows_by_dedicated_nodes():
    driver = planned_driver()
    driver.create("orders", 1, leader_placement="dedicated")
    driver.ask(GrowTopic, "orders", 2)
    assert driver.supervision[-1] == StartNodes((PlannedNode(1001, ("leader",), TopicPartition("orders", 1)),))
    assert driver.image.leader_of(TopicPartition("orders", 1)) == 1001


def test_growth_keeps_to_the_limits():
    driver = planned_driver(msgspec.structs.replace(SMALL, dedicated_nodes_limit=1))
    driver.create("orders", 1, leader_placement="dedicated")
    driver.create("payments", 1)
    for name, count in (("orders", 2), ("payments", 10_002)):
        (result,) = driver.ask(GrowTopic, name, count).results
        assert result.error_code is ErrorCode.POLICY_VIOLATION


def test_new_partitions_are_put_where_the_client_wants_them():
    driver = planned_driver()
    driver.create("orders", 1)
    (result,) = driver.ask(GrowTopic, "orders", 3, assignments=((3,), (3,))).results
    assert (result.error_code, result.partitions) == (ErrorCode.NONE, 3)
    assert [partition.leader for partition in driver.image.topics["orders"].partitions][1:] == [3, 3]


@pytest.mark.parametrize("assignments", [((2,),), ((2,), (3,), (2,)), ((2,), (99,)), ((2,), (2, 3))])
def test_new_partitions_cannot_be_put_where_there_is_no_one_leader_for_each(assignments):
    driver = planned_driver()
    driver.create("orders", 1)
    (result,) = driver.ask(GrowTopic, "orders", 3, assignments=assignments).results
    assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert len(driver.image.topics["orders"].partitions) == 1


# Settings


def test_settings_are_set_and_taken_back():
    driver = planned_driver()
    driver.create("orders", retention_ms="1000", segment_ms="5000")
    (result,) = driver.ask(AlterTopicConfigs, "orders", {"retention.ms": None, "cleanup.policy": "compact"}).results
    assert result.error_code is ErrorCode.NONE
    assert driver.image.topics["orders"].configs == {"segment.ms": "5000", "cleanup.policy": "compact"}


@pytest.mark.parametrize(
    "wrong",
    [{"segment.ms": "x"}, {"retention.sm": None}, {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}],
)
def test_one_wrong_setting_keeps_all_as_they_were(wrong):
    driver = planned_driver()
    driver.create("orders", retention_ms="1000")
    (result,) = driver.ask(AlterTopicConfigs, "orders", {"retention.ms": "2000"} | wrong).results
    assert result.error_code is ErrorCode.INVALID_CONFIG
    assert result.message
    assert driver.image.topics["orders"].configs == {"retention.ms": "1000"}


def test_settings_are_checked_together_with_those_that_stay():
    driver = planned_driver()
    driver.create("orders", max_compaction_lag_ms="4")
    (result,) = driver.ask(AlterTopicConfigs, "orders", {"min.compaction.lag.ms": "5"}).results
    assert result.error_code is ErrorCode.INVALID_CONFIG


def test_the_placement_of_leaders_is_decided_with_the_topic():
    driver = planned_driver()
    driver.create("orders")
    (result,) = driver.ask(AlterTopicConfigs, "orders", {"leader.placement": "dedicated"}).results
    assert result.error_code is ErrorCode.INVALID_CONFIG
    assert "when a topic is created" in result.message


def test_settings_that_change_nothing_are_not_logged():
    driver = planned_driver()
    driver.create("orders", retention_ms="1000")
    appends = len(driver.batches)
    for changes, validate_only in (({"retention.ms": "1000", "segment.ms": None}, False), ({"segment.ms": "9"}, True)):
        (result,) = driver.ask(AlterTopicConfigs, "orders", changes, validate_only).results
        assert result.error_code is ErrorCode.NONE
    assert len(driver.batches) == appends


def test_a_topic_that_does_not_exist_has_no_settings():
    driver = planned_driver()
    (result,) = driver.ask(AlterTopicConfigs, "orders", {}).results
    assert result.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert driver.ask(DescribeConfigs, "orders").error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_every_setting_is_described_as_it_counts_and_the_given_ones_are_named():
    driver = planned_driver()
    driver.create("orders", retention_ms="1000", cleanup_policy="delete, compact", min_insync_replicas="2")
    answer = driver.ask(DescribeConfigs, "orders")
    assert answer.explicit == ("cleanup.policy", "min.insync.replicas", "retention.ms")
    assert answer.configs["retention.ms"] == "1000"
    assert answer.configs["min.insync.replicas"] == "2"
    assert answer.configs["cleanup.policy"] == "compact,delete"
    assert answer.configs["compression.type"] == "producer"
    assert answer.configs["unclean.leader.election.enable"] == "false"


def test_settings_may_replace_all_that_there_were():
    driver = planned_driver()
    driver.create("orders", retention_ms="1000", segment_ms="5000")
    (result,) = driver.ask(AlterTopicConfigs, "orders", {"segment.ms": "9", "flush": None}, replaces=True).results
    assert result.error_code is ErrorCode.NONE
    assert driver.image.topics["orders"].configs == {"segment.ms": "9"}


def test_settings_that_replace_all_leave_the_leaders_where_they_are():
    driver = planned_driver()
    driver.create("orders", leader_placement="dedicated", retention_ms="1000")
    (result,) = driver.ask(AlterTopicConfigs, "orders", {}, replaces=True).results
    assert result.error_code is ErrorCode.NONE
    assert driver.image.topics["orders"].configs == {"leader.placement": "dedicated"}


def alter_list(driver, added="", removed=""):
    """Add to and take from the policies of a topic; return its setting, or why that was refused."""
    lists = [{"cleanup.policy": text} if text else {} for text in (added, removed)]
    (result,) = driver.ask(AlterTopicConfigs, "orders", {}, added=lists[0], removed=lists[1]).results
    if result.error_code is not ErrorCode.NONE:
        return result.error_code
    return driver.image.topics["orders"].configs["cleanup.policy"]


def test_lists_are_added_to_and_taken_from():
    driver = planned_driver()
    driver.create("orders")
    assert alter_list(driver, added="compact") == "delete,compact"
    assert alter_list(driver, added="delete, compact") == "delete,compact"
    assert alter_list(driver, removed="delete") == "compact"
    assert alter_list(driver, added="delete", removed="compact") == "delete"
    assert alter_list(driver, removed="delete") is ErrorCode.INVALID_CONFIG
    assert alter_list(driver, added="nonsense") is ErrorCode.INVALID_CONFIG
    assert driver.image.topics["orders"].configs == {"cleanup.policy": "delete"}


@pytest.mark.parametrize("key", ["retention.ms", "nonsense"])
def test_setting_that_is_no_list_cannot_be_added_to(key):
    driver = planned_driver()
    driver.create("orders")
    for lists in ({"added": {key: "1"}}, {"removed": {key: "1"}}):
        (result,) = driver.ask(AlterTopicConfigs, "orders", {}, **lists).results
        assert result.error_code is ErrorCode.INVALID_CONFIG
        assert key in result.message
