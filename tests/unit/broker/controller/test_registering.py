"""Nodes that come, and come back: each incarnation of a node leads at epochs that no incarnation before it had."""

import msgspec
import pytest

from eagleray.broker.controller.events import RegisterNode
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.losses import EVERYTHING, Loss
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import PLAN, ControllerDriver, plan_of, planned_driver, registration

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
LEADER = PLAN[2]
SESSION_MS = ReplicationConfig().broker_session_timeout_ms


def test_a_node_that_comes_is_answered_with_the_image_that_has_it():
    driver = planned_driver()
    answer = driver.register(LEADER, 77)
    assert answer.error_code is ErrorCode.NONE
    assert answer.image == driver.image
    assert answer.image.nodes[2] == registration(LEADER, 77)


def test_another_incarnation_bumps_the_epochs_of_what_it_leads_in_the_same_append():
    driver = planned_driver()
    driver.create("orders", 2)
    driver.register(LEADER, 1)
    appends = len(driver.batches)
    driver.register(LEADER, 2)
    assert len(driver.batches) == appends + 1
    assert driver.image.leader_epoch_of(ORDERS_0) == 2
    assert driver.image.leader_epoch_of(ORDERS_1) == 0
    partition = driver.image.find(ORDERS_0)
    assert (partition.leader, partition.replicas, partition.partition_epoch) == (2, (2,), 2)


def test_the_same_incarnation_again_changes_nothing_and_is_answered_alike():
    driver = planned_driver()
    driver.create("orders", 2)
    driver.register(LEADER, 1)
    before, appends = driver.image, len(driver.batches)
    answer = driver.register(LEADER, 1)
    assert (answer.error_code, answer.image) == (ErrorCode.NONE, before)
    assert len(driver.batches) == appends


def test_an_incarnation_that_listens_elsewhere_is_found_there_at_the_same_epoch():
    driver = planned_driver()
    driver.create("orders", 2)
    driver.register(LEADER, 1)
    moved = msgspec.structs.replace(registration(LEADER, 1), port=1234)
    assert driver.ask(RegisterNode, moved).error_code is ErrorCode.NONE
    assert driver.image.nodes[2].port == 1234
    assert driver.image.leader_epoch_of(ORDERS_0) == 1


def test_a_node_that_is_not_planned_may_not_join():
    driver = planned_driver()
    answer = driver.register(PlannedNode(9, ("leader",)))
    assert answer.error_code is ErrorCode.INVALID_REGISTRATION
    assert "node 9 is not planned" in answer.message
    assert 9 not in driver.image.nodes


def test_a_node_with_other_roles_than_planned_may_not_join():
    driver = planned_driver()
    answer = driver.register(PlannedNode(2, ("leader", "groups")))
    assert answer.error_code is ErrorCode.INVALID_REGISTRATION
    assert "planned with ['leader']" in answer.message


def test_the_order_of_roles_does_not_matter():
    driver = planned_driver()
    assert driver.register(PlannedNode(1, ("groups", "coordinator"))).error_code is ErrorCode.NONE


def test_a_restarted_coordinator_has_new_coordinator_epochs():
    driver = planned_driver()
    driver.register(PLAN[1], 1)
    driver.register(PLAN[1], 2)
    assert {partition.leader_epoch for partition in driver.image.topics["__transaction_state"].partitions} == {2}


# Incarnations


def test_a_life_that_another_has_replaced_is_told_which_one_it_has_to_come_after():
    driver = planned_driver()
    driver.register(LEADER, 7)
    before = driver.image
    answer = driver.register(LEADER, 6)
    assert (answer.error_code, answer.known_incarnation) == (ErrorCode.STALE_BROKER_EPOCH, 7)
    assert driver.image is before


def test_a_life_whose_session_has_ended_is_over_before_the_log_knows_and_after():
    driver = planned_driver()
    driver.plan_another_machine()
    driver.register(LEADER, 7)
    driver.holds_appends = True
    driver.tick(SESSION_MS)
    request_id = driver.send(RegisterNode, registration(LEADER, 7))
    assert 2 in driver.image.nodes
    driver.commit_held()
    assert 2 not in driver.image.nodes
    answer = driver.answers[request_id]
    assert (answer.error_code, answer.known_incarnation) == (ErrorCode.STALE_BROKER_EPOCH, 7)
    assert driver.register(LEADER, 7).known_incarnation == 7
    driver.restart()
    assert driver.register(LEADER, 7).known_incarnation == 7
    driver.holds_appends = False
    assert driver.register(LEADER, 8).error_code is ErrorCode.NONE


def test_after_a_restart_of_the_controller_a_registered_life_goes_on():
    driver = planned_driver()
    driver.register(LEADER, 7)
    driver.now_ms += SESSION_MS
    driver.restart()
    driver.tick(SESSION_MS - 1)
    assert driver.register(LEADER, 7).error_code is ErrorCode.NONE
    driver.tick(SESSION_MS - 1)
    assert 2 in driver.image.nodes


def test_a_node_that_leaves_the_plan_and_comes_back_may_begin_with_any_life():
    driver = planned_driver()
    driver.register(LEADER, 7)
    driver.plan((*PLAN[:2], PLAN[3]))
    assert 2 not in driver.image.incarnations
    driver.plan()
    assert driver.register(LEADER, 1).error_code is ErrorCode.NONE


@pytest.mark.parametrize(("incarnations", "expected"), [((1,), (30, 130, 230)), ((1, 2), (130, 230))])
def test_loss_of_a_node_counts_only_if_it_was_there_before(incarnations, expected):
    driver = ControllerDriver()
    driver.plan(plan_of())
    driver.create("orders", 1, 3)
    for node_id in (130, 230):
        driver.register(driver.image.plan[node_id])
    for incarnation in incarnations:
        driver.register(driver.image.plan[30], incarnation, loss=EVERYTHING)
    state = driver.image.find(ORDERS_0)
    assert state.replicas == (30, 130, 230)
    assert state.isr == expected
    assert state.leader == expected[0]


def three_machines():
    """Three nodes, each on a machine of its own, that keep two partitions, the first of which node 30 leads."""
    driver = ControllerDriver()
    driver.plan(plan_of(leaders=1))
    driver.create("orders", 2, 3)
    for node_id in (30, 130, 230):
        driver.register(driver.image.plan[node_id])
    return driver


def test_a_node_is_out_of_sync_only_where_it_has_lost_something():
    driver = three_machines()
    driver.register(driver.image.plan[30], 2, loss=Loss((ORDERS_0,)))
    assert set(driver.image.find(ORDERS_0).isr) == {130, 230}
    assert set(driver.image.find(ORDERS_1).isr) == {30, 130, 230}


def test_a_loss_that_is_told_twice_counts_once():
    driver = three_machines()
    driver.register(driver.image.plan[30], 2, loss=Loss((ORDERS_0,)))
    driver.propose(ORDERS_0, 130, 230, 30)
    image = driver.image
    assert 30 in image.find(ORDERS_0).isr
    assert driver.register(driver.image.plan[30], 2, loss=Loss((ORDERS_0,))).error_code is ErrorCode.NONE
    assert driver.image == image


def test_a_node_in_doubt_waits_until_those_in_sync_with_it_are_heard_or_gone():
    driver = three_machines()
    loss = Loss((), (ORDERS_0, ORDERS_1), is_everything=True)
    driver.now_ms += 1
    assert driver.register(driver.image.plan[30], 2, loss=loss).error_code is ErrorCode.BROKER_NOT_AVAILABLE
    driver.beat(130)
    assert driver.register(driver.image.plan[30], 2, loss=loss).error_code is ErrorCode.BROKER_NOT_AVAILABLE
    driver.let_time_pass(SESSION_MS, 130)
    assert sorted(driver.image.nodes) == [130]
    assert driver.register(driver.image.plan[30], 2, loss=loss).error_code is ErrorCode.NONE
    assert driver.image.find(ORDERS_0).isr == (130,)


def test_nodes_in_doubt_do_not_make_way_for_one_that_has_lost_its_disk_and_not_said_so():
    """All machines lose their power, and one its disk; the controller begins anew, and takes nobody for alive."""
    driver = three_machines()
    loss = Loss((), (ORDERS_0, ORDERS_1), is_everything=True)
    driver.restart()
    assert driver.register(driver.image.plan[30], 2, loss=loss).error_code is ErrorCode.BROKER_NOT_AVAILABLE
    driver.tick(SESSION_MS)
    assert driver.register(driver.image.plan[30], 2, loss=loss).error_code is ErrorCode.NONE
    assert driver.register(driver.image.plan[130], 2, loss=loss).error_code is ErrorCode.NONE
    assert 30 in driver.image.find(ORDERS_0).isr
    driver.register(driver.image.plan[230], 2, loss=EVERYTHING)
    assert driver.image.find(ORDERS_0).isr == (30,)
    assert driver.image.find(ORDERS_0).leader == 30
