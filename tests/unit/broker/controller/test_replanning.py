"""Plans without nodes that keep replicas: who takes them over, what is copied, and what is refused."""

import msgspec
import pytest

from eagleray.broker.controller.events import CreateTopics, NewTopic, PlanNodes
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import PLAN, SMALL, ControllerDriver, plan_of, planned_driver, replicated_driver

ORDERS_0 = TopicPartition("orders", 0)
SESSION_MS = ReplicationConfig().broker_session_timeout_ms
ONE_STATE_REPLICA = msgspec.structs.replace(
    SMALL, transaction_state_log_replication_factor=1, offsets_topic_replication_factor=1
)


def orders(driver: ControllerDriver) -> PartitionImage:
    return driver.image.find(ORDERS_0)


def without(*node_ids: int) -> tuple[PlannedNode, ...]:
    return tuple(node for node in plan_of() if node.node_id not in node_ids)


def test_another_node_of_the_machine_takes_replicas_over():
    driver = replicated_driver()
    driver.create("orders", 1, 3)
    assert driver.plan(without(30, 130)).error_code is ErrorCode.NONE
    assert orders(driver) == PartitionImage(31, 1, (31, 131, 230), (31, 131, 230), 1)


def test_a_machine_that_is_dead_leaves_the_plan_and_others_copy_what_it_had():
    driver = replicated_driver()
    driver.create("orders", 1, 2)
    assert orders(driver).replicas == (30, 130)
    driver.let_time_pass(SESSION_MS, *(node_id for node_id in driver.image.nodes if not 100 <= node_id < 200))
    assert driver.plan(plan_of("ac")).error_code is ErrorCode.NONE
    state = orders(driver)
    assert (state.leader, state.replicas, state.isr, state.adding) == (30, (30, 230), (30,), (230,))
    driver.propose(ORDERS_0, 30, 230)
    assert (orders(driver).isr, orders(driver).adding) == ((30, 230), ())
    assert not any(100 <= node_id < 200 for node_id in (*driver.image.plan, *driver.image.incarnations))
    states = driver.image.topics["__transaction_state"].partitions
    assert {len(state.replicas) for state in states} == {2}, "there are two machines left"


def test_a_machine_whose_nodes_may_still_lead_does_not_leave_the_plan_yet():
    driver = replicated_driver()
    driver.create("orders", 1, 3)
    before = driver.image
    answer = driver.plan(plan_of("bc"))
    assert answer.error_code is ErrorCode.LEADER_NOT_AVAILABLE
    assert "for as long as its session lasts" in answer.message
    assert driver.image is before


def test_a_machine_with_the_only_replica_in_sync_does_not_leave_the_plan():
    driver = replicated_driver()
    driver.create("orders", 1, 2)
    driver.propose(ORDERS_0, 30)
    driver.let_time_pass(SESSION_MS, *(node_id for node_id in driver.image.nodes if node_id >= 100))
    before = driver.image
    answer = driver.plan(plan_of("bc"))
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert "orders-0" in answer.message
    assert driver.image is before


def test_a_partition_whose_leader_has_never_come_is_led_by_one_that_has():
    driver = ControllerDriver(ONE_STATE_REPLICA)
    driver.plan((*plan_of("ab"), PlannedNode(230, ("leader",), None, "c")))
    driver.ask(CreateTopics, (NewTopic("orders", -1, -1, {}, ((230, 30, 130),)),))
    driver.register(driver.image.plan[130])
    assert orders(driver).leader == 230
    assert driver.plan(plan_of("ab")).error_code is ErrorCode.NONE
    assert (orders(driver).leader, orders(driver).leader_epoch) == (130, 1)
    assert set(orders(driver).replicas) == {30, 130}


# Names of machines


def renamed(old: str, new: str) -> tuple[PlannedNode, ...]:
    return tuple(msgspec.structs.replace(node, machine=new) if node.machine == old else node for node in plan_of())


def test_a_machine_may_have_another_name_and_keeps_its_replicas():
    driver = replicated_driver()
    driver.create("orders", 1, 3)
    before = orders(driver)
    assert driver.plan(renamed("b", "b2")).error_code is ErrorCode.NONE
    assert orders(driver) == before
    fewer = tuple(node for node in renamed("b", "b3") if node.node_id != 130)
    assert driver.plan(fewer).error_code is ErrorCode.NONE
    assert orders(driver).replicas == (30, 131, 230)


def test_the_only_machine_may_get_a_name_and_company_with_its_dedicated_nodes():
    driver = planned_driver()
    driver.create("own", 1, leader_placement="dedicated")
    driver.create("orders", 2)
    named = tuple(msgspec.structs.replace(node, machine="a") for node in PLAN[:3])
    assert driver.plan((*named, PlannedNode(130, ("leader",), None, "b"))).error_code is ErrorCode.NONE
    assert driver.image.plan[1000].machine == "a"
    assert {state.replicas for state in driver.image.topics["orders"].partitions} == {(2,)}


@pytest.mark.parametrize("other", ["c", "a"])
def test_a_node_is_not_planned_away_from_its_replicas(other):
    driver = replicated_driver()
    driver.create("orders", 1, 3)
    answer = driver.plan(renamed("b", other))
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert "its replicas are on 'b'" in answer.message


def test_the_machine_of_a_dedicated_node_stays_planned():
    driver = ControllerDriver(ONE_STATE_REPLICA)
    driver.plan((*plan_of("a"), PlannedNode(130, ("leader",), None, "b")))
    driver.create("own", 2, leader_placement="dedicated")
    answer = driver.plan(plan_of("a"))
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert "own-1" in answer.message


def test_a_plan_that_was_made_from_another_one_than_there_is_changes_nothing():
    driver = replicated_driver()
    grown, before = (*plan_of(), PlannedNode(310, ("leader",), None, "d")), driver.image
    answer = driver.ask(PlanNodes, grown, made_from=without(31))
    assert answer.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert answer.message == "another call has changed the plan meanwhile"
    assert driver.image is before


def test_a_plan_that_was_made_from_another_one_is_told_so_before_anything_else_is_wrong_with_it():
    """A partition has a node to itself on a machine that was added meanwhile: the plan was right when it was made."""
    driver = replicated_driver()
    there = PlannedNode(330, ("leader",), None, "d")
    driver.plan((*plan_of(), there))
    driver.register(there)
    assert driver.create("own", 8, leader_placement="dedicated").error_code is ErrorCode.NONE
    assert any(node.machine == "d" and node.dedicated_to for node in driver.image.plan.values())
    stale = (*plan_of(), PlannedNode(430, ("leader",), None, "e"))
    assert driver.ask(PlanNodes, stale).error_code is ErrorCode.INVALID_REQUEST
    assert driver.ask(PlanNodes, stale, made_from=plan_of()).error_code is ErrorCode.INVALID_UPDATE_VERSION


def test_a_plan_that_was_made_from_the_one_there_is_may_be_asked_for_twice():
    driver = replicated_driver()
    grown = (*plan_of(), PlannedNode(310, ("leader",), None, "d"))
    for _ in range(2):
        assert driver.ask(PlanNodes, grown, made_from=plan_of()).error_code is ErrorCode.NONE
        assert tuple(driver.image.plan.values()) == grown


def test_dedicated_nodes_are_no_part_of_what_a_plan_is_made_from():
    driver = planned_driver()
    assert driver.create("orders", 1, leader_placement="dedicated").error_code is ErrorCode.NONE
    assert len(driver.image.plan) > len(PLAN)
    assert driver.ask(PlanNodes, PLAN, made_from=PLAN).error_code is ErrorCode.NONE
