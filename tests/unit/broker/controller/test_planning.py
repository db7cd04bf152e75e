"""Who belongs to the cluster, who leads what, and what happens to partitions whose leader is gone."""

import pytest

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.config import InvalidConfig
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import PLAN, ControllerDriver, planned_driver

TRANSACTIONS = "__transaction_state"
OFFSETS = "__consumer_offsets"


def leaders(driver: ControllerDriver, topic: str) -> list[int]:
    return [partition.leader for partition in driver.image.topics[topic].partitions]


def epochs(driver: ControllerDriver, topic: str) -> list[int]:
    return [partition.leader_epoch for partition in driver.image.topics[topic].partitions]


def test_the_first_plan_names_the_cluster_and_makes_the_internal_topics_in_one_append():
    driver = ControllerDriver()
    answer = driver.plan()
    assert answer.error_code is ErrorCode.NONE
    assert answer.nodes == PLAN
    assert len(driver.batches) == 1
    assert len(driver.image.cluster_id) == 22
    assert leaders(driver, TRANSACTIONS) == [1] * 4
    assert leaders(driver, OFFSETS) == [1] * 3
    assert all(driver.image.topics[name].configs["cleanup.policy"] == "compact" for name in (TRANSACTIONS, OFFSETS))


def test_internal_topics_have_fifty_partitions_by_default():
    driver = planned_driver(ControllerConfig())
    assert len(leaders(driver, TRANSACTIONS)) == len(leaders(driver, OFFSETS)) == 50


def test_internal_partitions_are_spread_over_the_nodes_of_their_role():
    driver = ControllerDriver()
    driver.plan((PlannedNode(1, ("coordinator",)), PlannedNode(2, ("coordinator",)), PlannedNode(3, ("groups",))))
    assert leaders(driver, TRANSACTIONS) == [1, 2, 1, 2]
    assert leaders(driver, OFFSETS) == [3, 3, 3]


def test_an_internal_topic_comes_with_the_first_plan_that_has_its_role():
    driver = ControllerDriver()
    driver.plan((PlannedNode(1, ("coordinator",)),))
    assert OFFSETS not in driver.image.topics
    driver.plan((PlannedNode(1, ("coordinator", "groups")),))
    assert leaders(driver, OFFSETS) == [1] * 3


def test_the_same_plan_again_changes_nothing():
    driver = planned_driver()
    answer = driver.plan()
    assert answer.nodes == PLAN
    assert len(driver.batches) == 1


def test_partitions_of_a_node_that_is_no_longer_planned_move_at_a_new_epoch():
    driver = planned_driver()
    driver.create("orders", 4)
    driver.register(PLAN[3])
    assert leaders(driver, "orders") == [2, 3, 2, 3]
    driver.plan((*PLAN[:3], PlannedNode(4, ("leader",))))
    assert leaders(driver, "orders") == [2, 4, 2, 4]
    assert epochs(driver, "orders") == [0, 2, 0, 2]
    moved = driver.image.topics["orders"].partitions[1]
    assert (moved.replicas, moved.isr, moved.partition_epoch) == ((4,), (4,), 2)
    assert 3 not in driver.image.nodes
    assert 3 not in driver.image.plan


def test_partitions_of_a_node_that_loses_its_role_move():
    driver = planned_driver()
    driver.plan((PLAN[0], PlannedNode(1, ("groups",)), *PLAN[2:], PlannedNode(5, ("coordinator",))))
    assert leaders(driver, TRANSACTIONS) == [5] * 4
    assert epochs(driver, TRANSACTIONS) == [1] * 4
    assert leaders(driver, OFFSETS) == [1] * 3


def test_a_plan_that_leaves_partitions_without_a_leader_is_refused():
    driver = planned_driver()
    before = driver.image
    answer = driver.plan(tuple(node for node in PLAN if node.node_id != 1))
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert "coordinator, groups" in answer.message
    assert driver.image is before


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ((PlannedNode(1, ("leader",)), PlannedNode(1, ("groups",))), "same id"),
        ((PlannedNode(1, ()),), "roles"),
        ((PlannedNode(1, ("lieder",)),), "roles"),
        ((PlannedNode(-1, ("leader",)),), "0 to 999"),
        ((PlannedNode(1000, ("leader",)),), "0 to 999"),
        ((PlannedNode(5, ("leader",), TopicPartition("orders", 0)),), "0 to 999"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_with_the_reason(nodes, text):
    driver = ControllerDriver()
    answer = driver.plan(nodes)
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert text in answer.message
    assert driver.batches == []


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"transaction_state_log_num_partitions": 5}, "transaction.state.log.num.partitions is 5"),
        ({"offsets_topic_num_partitions": 2}, "offsets.topic.num.partitions is 2"),
    ],
)
def test_the_internal_topics_keep_their_number_of_partitions_for_life(fields, key):
    driver = planned_driver()
    kept = {"transaction_state_log_num_partitions": 4, "offsets_topic_num_partitions": 3}
    with pytest.raises(InvalidConfig, match=key):
        driver.restart(ControllerConfig(**(kept | fields)))


# Dedicated nodes


def test_dedicated_nodes_stay_planned_until_their_topic_goes_whatever_supervision_plans():
    driver = planned_driver()
    driver.create("orders", 2, leader_placement="dedicated")
    driver.restart()
    dedicated = tuple(PlannedNode(1000 + n, ("leader",), TopicPartition("orders", n)) for n in range(2))
    assert driver.plan().nodes == (*PLAN, *dedicated)
    assert driver.plan((*PLAN, *dedicated)).nodes == (*PLAN, *dedicated)
    assert leaders(driver, "orders") == [1000, 1001]


def test_a_dedicated_node_takes_no_other_partition():
    driver = planned_driver()
    driver.create("orders", 1, leader_placement="dedicated")
    driver.create("payments", 6)
    assert set(leaders(driver, "payments")) == {2, 3}
    assert driver.plan(PLAN[:2]).error_code is ErrorCode.INVALID_REQUEST
