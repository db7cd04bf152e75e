"""Replicas that an operator wants elsewhere: single ones, and all of a machine."""

import pytest

from eagleray.broker.controller.replica_events import DrainNodes, ListReassignments, PartitionMove, ReassignPartitions
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import ControllerDriver, plan_of, planned_driver, replicated_driver

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
STATE_0 = TopicPartition("__transaction_state", 0)


@pytest.fixture
def driver() -> ControllerDriver:
    driver = replicated_driver()
    driver.create("orders", 2, 2)
    assert [state.replicas for state in driver.image.topics["orders"].partitions] == [(30, 130), (130, 230)]
    return driver


def move(driver: ControllerDriver, partition: TopicPartition, *target: int) -> ErrorCode:
    (result,) = driver.ask(ReassignPartitions, (PartitionMove(partition, target),)).results
    assert (result.message is None) == (result.error_code is ErrorCode.NONE)
    return result.error_code


def orders(driver: ControllerDriver, partition: TopicPartition = ORDERS_0) -> PartitionImage:
    return driver.image.find(partition)


def complete(driver: ControllerDriver, partition: TopicPartition) -> None:
    """Let all replicas of a partition come into sync, and its leader hand over if it is asked to."""
    driver.propose(partition, *orders(driver, partition).replicas)
    leader = orders(driver, partition).leader
    asked = driver.beat(leader).resign
    if asked:
        driver.beat(leader, *asked)


def test_replicas_are_added_before_the_others_go(driver):
    assert move(driver, ORDERS_0, 230, 130) is ErrorCode.NONE
    state = orders(driver)
    assert (state.replicas, state.adding, state.removing) == ((230, 130, 30), (230,), (30,))
    (listed,) = driver.ask(ListReassignments).reassignments
    assert (listed.partition, listed.adding, listed.removing) == (ORDERS_0, (230,), (30,))
    assert driver.ask(ListReassignments, (ORDERS_1,)).reassignments == ()
    complete(driver, ORDERS_0)
    state = orders(driver)
    assert (state.leader, state.replicas, set(state.isr)) == (230, (230, 130), {230, 130})
    assert driver.ask(ListReassignments).reassignments == ()


def test_a_move_can_be_taken_back(driver):
    move(driver, ORDERS_0, 230, 130)
    (result,) = driver.ask(ReassignPartitions, (PartitionMove(ORDERS_0, None),)).results
    assert result.error_code is ErrorCode.NONE
    assert set(orders(driver).replicas) == {30, 130}
    (result,) = driver.ask(ReassignPartitions, (PartitionMove(ORDERS_0, None),)).results
    assert result.error_code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("target", [(), (30, 31), (30, 30), (31, 130), (30, 110), (30, 999)])
def test_a_move_to_where_the_partition_cannot_be_is_refused(driver, target):
    before = driver.image
    assert move(driver, ORDERS_0, *target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert driver.image is before


def test_internal_partitions_go_to_nodes_of_their_role(driver):
    assert move(driver, STATE_0, 30) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(driver, STATE_0, 110, 210) is ErrorCode.NONE


def test_a_partition_that_is_not_there_or_has_a_node_of_its_own_is_not_moved(driver):
    driver.create("own", 1, leader_placement="dedicated")
    assert move(driver, TopicPartition("none", 0), 30) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(driver, TopicPartition("own", 0), 30) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_each_move_of_a_request_is_judged_by_itself_in_one_append(driver):
    appends = len(driver.batches)
    moves = (
        PartitionMove(ORDERS_0, (30, 230)),
        PartitionMove(ORDERS_1, (30, 230)),
        PartitionMove(STATE_0, (110,)),
        PartitionMove(STATE_0, (210,)),
        PartitionMove(TopicPartition("orders", 2), (30,)),
    )
    results = driver.ask(ReassignPartitions, moves).results
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert len(driver.batches) == appends + 1


# Draining


def test_a_drained_machine_has_no_replicas_in_the_end_and_can_leave_the_plan():
    driver = replicated_driver()
    driver.create("orders", 6, 2)
    driver.plan((*plan_of("abc"),))
    internal = [
        TopicPartition(name, number)
        for name, count in (("__transaction_state", 4), ("__consumer_offsets", 3))
        for number in range(count)
    ]
    for partition in internal:
        move(driver, partition, *(node_id for node_id in orders(driver, partition).replicas if node_id < 200))
        complete(driver, partition)
    refused = driver.plan(plan_of("ab"))
    assert refused.error_code is not ErrorCode.NONE
    answer = driver.ask(DrainNodes, "c")
    assert (answer.error_code, answer.partitions) == (ErrorCode.NONE, 4)
    for partition in [TopicPartition("orders", number) for number in range(6)]:
        complete(driver, partition)
        assert {node_id // 100 for node_id in orders(driver, partition).replicas} == {0, 1}
    assert driver.plan(plan_of("ab")).error_code is ErrorCode.NONE
    assert driver.image.draining == ()


def test_machine_that_no_other_can_replace_is_not_drained(driver):
    before = driver.image
    answer = driver.ask(DrainNodes, "c")
    assert answer.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "__transaction_state" in answer.message
    assert driver.image is before


def test_draining_again_changes_nothing_and_a_drained_node_gets_nothing_new(driver):
    answer = driver.ask(DrainNodes, None, 230)
    assert (answer.error_code, answer.partitions) == (ErrorCode.NONE, 1)
    assert driver.image.draining == (230,)
    before = driver.image
    assert driver.ask(DrainNodes, None, 230).partitions == 0
    assert driver.image is before
    driver.create("payments", 6, 3)
    assert all(230 not in state.replicas for state in driver.image.topics["payments"].partitions)
    assert move(driver, ORDERS_0, 30, 230) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert driver.ask(DrainNodes, None, 230, undo=True).error_code is ErrorCode.NONE
    assert driver.image.draining == ()
    assert move(driver, ORDERS_0, 30, 230) is ErrorCode.NONE


def test_a_node_with_a_partition_to_itself_is_not_drained():
    driver = planned_driver()
    driver.create("own", 1, leader_placement="dedicated")
    answer = driver.ask(DrainNodes, None, 1000)
    assert answer.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "own-0" in answer.message


@pytest.mark.parametrize("request_", [{"machine": "z"}, {"node_id": 999}, {}])
def test_machine_that_is_not_planned_cannot_be_drained(driver, request_):
    assert driver.ask(DrainNodes, **request_).error_code is ErrorCode.INVALID_REQUEST
