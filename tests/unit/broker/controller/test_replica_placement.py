"""Where replicas of new partitions go, and how many there are."""

import msgspec
import pytest

from eagleray.broker.controller.events import CreateTopics, GrowTopic, NewTopic, StartNodes
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import PLAN, SMALL, ControllerDriver, plan_of, planned_driver, replicated_driver

TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
SESSION_MS = ReplicationConfig().broker_session_timeout_ms


def replicas(driver: ControllerDriver, topic: str) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in driver.image.topics[topic].partitions]


def machines(node_ids: tuple[int, ...]) -> list[int]:
    return [node_id // 100 for node_id in node_ids]


def test_replicas_are_on_machines_of_their_own_and_leaders_go_round():
    driver = replicated_driver()
    assert driver.create("orders", 12, 3).error_code is ErrorCode.NONE
    placed = replicas(driver, "orders")
    assert [nodes[0] for nodes in placed[:6]] == [30, 130, 230, 31, 131, 231]
    assert all(sorted(machines(nodes)) == [0, 1, 2] for nodes in placed)
    kept = [node_id for nodes in placed for node_id in nodes]
    assert {kept.count(node_id) for node_id in set(kept)} <= {5, 6, 7}
    for partition in driver.image.topics["orders"].partitions:
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]


def test_the_default_factor_is_the_settings():
    driver = replicated_driver(msgspec.structs.replace(SMALL, default_replication_factor=2))
    driver.create("orders", 4)
    assert {len(nodes) for nodes in replicas(driver, "orders")} == {2}


@pytest.mark.parametrize(("factor", "text"), [(4, "with 3 machines"), (0, "expected 1 or more"), (-2, "1 or more")])
def test_a_factor_that_cannot_be_is_refused(factor, text):
    result = replicated_driver().create("orders", 1, factor)
    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert text in result.message


def test_a_default_factor_that_cannot_be_is_refused_too():
    driver = planned_driver(msgspec.structs.replace(SMALL, default_replication_factor=2))
    result = driver.create("orders")
    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "with 1 machines" in result.message
    assert driver.create("payments", 1, 1).error_code is ErrorCode.NONE


def test_two_leaders_on_one_machine_are_no_place_for_two_replicas():
    assert planned_driver().create("orders", 1, 2).error_code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_partition_with_a_node_of_its_own_has_one_replica():
    driver = replicated_driver(msgspec.structs.replace(SMALL, default_replication_factor=3))
    refused = driver.create("orders", 1, 3, leader_placement="dedicated")
    assert refused.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "leader.placement=dedicated" in refused.message
    assert driver.create("orders", 4, leader_placement="dedicated").error_code is ErrorCode.NONE
    assert {len(nodes) for nodes in replicas(driver, "orders")} == {1}
    (started,) = driver.supervision
    assert isinstance(started, StartNodes)
    assert [node.machine for node in started.nodes] == ["a", "b", "c", "a"]


def test_machines_that_are_there_go_before_those_that_are_not_if_there_are_enough():
    driver = replicated_driver()
    driver.let_time_pass(SESSION_MS, *(node_id for node_id in driver.image.nodes if node_id < 200))
    driver.create("orders", 4, 2)
    assert {node_id // 100 for nodes in replicas(driver, "orders") for node_id in nodes} == {0, 1}
    assert driver.create("payments", 1, 3).error_code is ErrorCode.NONE


def test_node_that_is_away_neither_leads_a_new_partition_nor_is_in_sync():
    driver = replicated_driver()
    driver.let_time_pass(SESSION_MS, *(node_id for node_id in driver.image.nodes if node_id >= 100))
    driver.create("orders", 6, 3)
    driver.ask(GrowTopic, "orders", 9)
    partitions = driver.image.topics["orders"].partitions
    assert {len(partition.replicas) for partition in partitions} == {3}
    assert any(partition.replicas[0] < 100 for partition in partitions)
    for partition in partitions:
        assert partition.isr == tuple(node_id for node_id in partition.replicas if node_id >= 100)
        assert partition.leader == partition.isr[0]


def test_a_node_that_is_away_while_its_machine_is_not_gets_its_share():
    driver = planned_driver()
    driver.register(PLAN[2])
    driver.create("orders", 4)
    assert replicas(driver, "orders") == [(2,), (3,), (2,), (3,)]


def test_more_partitions_have_as_many_replicas_as_the_others():
    driver = replicated_driver()
    driver.create("orders", 1, 2)
    assert driver.ask(GrowTopic, "orders", 4).results[0].error_code is ErrorCode.NONE
    assert [len(nodes) for nodes in replicas(driver, "orders")] == [2, 2, 2, 2]
    wrong = driver.ask(GrowTopic, "orders", 5, False, ((30,),)).results[0]
    assert wrong.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert driver.ask(GrowTopic, "orders", 5, False, ((30, 230),)).results[0].error_code is ErrorCode.NONE
    assert replicas(driver, "orders")[4] == (30, 230)


# Where somebody wants them


def assigned(driver: ControllerDriver, *placed: tuple[int, ...]):
    return driver.ask(CreateTopics, (NewTopic("orders", -1, -1, {}, placed),)).results[0]


def test_replicas_are_put_where_their_creator_wants_them():
    driver = replicated_driver()
    assert assigned(driver, (231, 30), (30, 131)).error_code is ErrorCode.NONE
    assert replicas(driver, "orders") == [(231, 30), (30, 131)]
    assert driver.image.leader_of(TopicPartition("orders", 0)) == 231


@pytest.mark.parametrize("second", [(30, 31), (30, 30), (30, 110), (30, 999), (30,), (30, 130, 230), ()])
def test_replicas_cannot_be_put_on_one_machine_or_on_nodes_that_keep_none(second):
    driver = replicated_driver()
    result = assigned(driver, (30, 130), second)
    assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.message
    assert "orders" not in driver.image.topics


# Internal topics, and what has to be in sync


@pytest.mark.parametrize(("names", "factor", "least"), [("abc", 3, "2"), ("ab", 2, "2"), ("a", 1, None)])
def test_internal_topics_have_as_many_replicas_as_the_machines_allow(names, factor, least):
    driver = ControllerDriver()
    driver.plan(plan_of(names))
    for topic in (TRANSACTIONS, OFFSETS):
        assert {len(nodes) for nodes in replicas(driver, topic)} == {factor}
        assert all(len(set(machines(nodes))) == factor for nodes in replicas(driver, topic))
    assert driver.image.topics[TRANSACTIONS].configs.get("min.insync.replicas") == least
    assert "min.insync.replicas" not in driver.image.topics[OFFSETS].configs


def test_new_topics_take_over_how_many_have_to_be_in_sync_as_far_as_they_have_replicas():
    driver = replicated_driver(msgspec.structs.replace(SMALL, min_insync_replicas=2))
    driver.create("three", 1, 3)
    driver.create("one", 1, 1)
    driver.create("own", 1, 3, min_insync_replicas="3")
    given = [driver.image.topics[name].configs.get("min.insync.replicas") for name in ("three", "one", "own", OFFSETS)]
    assert given == ["2", None, "3", "2"]


def test_machines_without_the_role_do_not_count():
    driver = ControllerDriver()
    driver.plan((*plan_of("ab"), PlannedNode(210, ("coordinator",), None, "c")))
    assert {len(nodes) for nodes in replicas(driver, TRANSACTIONS)} == {3}
    assert {len(nodes) for nodes in replicas(driver, OFFSETS)} == {2}
    assert "with 2 machines" in driver.create("orders", 1, 3).message
