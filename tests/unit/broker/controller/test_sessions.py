"""Nodes that are heard, nodes that are not, and what becomes of what they led."""

import msgspec

from eagleray.broker.controller.events import (
    ChangeIsr,
    CreateTopics,
    ElectLeaders,
    NewTopic,
    NodeBeat,
    ReserveProducerIds,
)
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import BrokerHeartbeat, InSyncReplica, ProposeIsr, Resigned
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import SMALL, ControllerDriver, planned_driver, replicated_driver

ORDERS_0 = TopicPartition("orders", 0)
SESSION_MS = ReplicationConfig().broker_session_timeout_ms


def driver_with_orders(**fields: object) -> ControllerDriver:
    driver = replicated_driver(msgspec.structs.replace(SMALL, **fields))
    assert driver.create("orders", 1, 3).error_code is ErrorCode.NONE
    return driver


def others_than(driver: ControllerDriver, *node_ids: int) -> list[int]:
    return [node_id for node_id in driver.image.nodes if node_id not in node_ids]


def orders(driver: ControllerDriver) -> PartitionImage:
    return driver.image.find(ORDERS_0)


def test_a_silent_node_leaves_and_another_in_sync_leads_in_one_append():
    driver = driver_with_orders()
    appends = len(driver.batches)
    driver.let_time_pass(SESSION_MS, *others_than(driver, 30))
    assert len(driver.batches) == appends + 1
    assert 30 not in driver.image.nodes
    assert driver.image.incarnations[30] == 1
    assert orders(driver) == PartitionImage(130, 1, (30, 130, 230), (130, 230), 1)
    assert driver.beat(30).error_code is ErrorCode.STALE_BROKER_EPOCH


def test_a_partition_with_one_replica_keeps_its_leader_while_that_is_away():
    driver = planned_driver()
    driver.plan_another_machine()
    driver.create("orders", 1)
    driver.register(driver.image.plan[2])
    before = orders(driver)
    driver.tick(SESSION_MS)
    assert 2 not in driver.image.nodes
    assert orders(driver) == before
    driver.register(driver.image.plan[2], 2)
    assert (orders(driver).leader, orders(driver).leader_epoch) == (2, before.leader_epoch + 1)


def test_on_one_machine_nobody_has_to_show_that_it_is_alive():
    driver = planned_driver()
    driver.register(driver.image.plan[2])
    driver.tick(10 * SESSION_MS)
    assert 2 in driver.image.nodes
    driver.plan_another_machine()
    driver.tick(SESSION_MS - 1)
    assert 2 in driver.image.nodes, "a whole session begins with the other machine"
    driver.tick(1)
    assert 2 not in driver.image.nodes


def test_heartbeats_are_answered_while_an_append_is_under_way_as_of_the_log():
    driver = driver_with_orders()
    driver.holds_appends = True
    driver.send(CreateTopics, (NewTopic("payments"),))
    answer = driver.beat(30)
    assert (answer.error_code, answer.metadata_version) == (ErrorCode.NONE, driver.image.version)
    driver.log_held()
    assert driver.beat(30).metadata_version == answer.metadata_version + 1


def test_a_session_ends_at_once_although_the_log_hears_of_it_later():
    driver = driver_with_orders()
    driver.holds_appends = True
    first = driver.send(CreateTopics, (NewTopic("payments"),))
    waiting = driver.send(CreateTopics, (NewTopic("invoices"),))
    driver.let_time_pass(SESSION_MS, *others_than(driver, 30))
    assert driver.beat(30).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert orders(driver).leader == 30
    driver.log_held()
    assert first in driver.answers
    driver.log_held()
    assert orders(driver).leader == 130, "it comes before whatever waited"
    assert waiting not in driver.answers
    driver.log_held()
    assert waiting in driver.answers
    assert driver.held is None


def test_a_lost_end_of_a_session_is_logged_at_the_next_tick():
    driver = driver_with_orders()
    driver.holds_appends = True
    driver.let_time_pass(SESSION_MS, *others_than(driver, 30))
    driver.lose_held()
    assert 30 in driver.image.nodes
    assert driver.beat(30).error_code is ErrorCode.STALE_BROKER_EPOCH
    driver.tick(0)
    driver.log_held()
    assert 30 not in driver.image.nodes
    assert orders(driver).leader == 130


def test_a_new_life_that_the_log_has_lost_has_no_session():
    driver = driver_with_orders()
    driver.holds_appends = True
    driver.let_time_pass(SESSION_MS, *others_than(driver, 30))
    driver.lose_held()
    driver.register(driver.image.plan[30], 2)
    driver.lose_held()
    assert driver.beat(30).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert driver.beat(30, incarnation=2).error_code is ErrorCode.STALE_BROKER_EPOCH


# Leaders that hand over


def hand_over(driver: ControllerDriver) -> Resigned:
    """Have the leader asked to resign."""
    assert driver.ask(ElectLeaders, (ORDERS_0,)).results[0].error_code is ErrorCode.NONE
    (asked,) = driver.beat(orders(driver).leader).resign
    return asked


def driver_led_by_another(**fields: object) -> ControllerDriver:
    driver = driver_with_orders(**fields)
    driver.let_time_pass(SESSION_MS, *others_than(driver, 30))
    driver.register(driver.image.plan[30], 2)
    driver.propose(ORDERS_0, 130, 230, 30)
    assert (orders(driver).leader, orders(driver).isr) == (130, (130, 230, 30))
    return driver


def test_the_preferred_leader_leads_when_the_present_one_has_resigned():
    driver = driver_led_by_another()
    assert driver.ask(ElectLeaders).results[0].partition == ORDERS_0
    asked = hand_over(driver)
    assert driver.beat(130, asked).metadata_version == driver.image.version
    assert (orders(driver).leader, orders(driver).leader_epoch) == (30, asked.leader_epoch + 1)
    assert driver.ask(ElectLeaders).results == ()
    assert driver.ask(ElectLeaders, (ORDERS_0,)).results[0].error_code is ErrorCode.ELECTION_NOT_NEEDED


def test_a_resignation_waits_for_the_append_under_way_and_is_repeated_if_that_is_lost():
    driver = driver_led_by_another()
    asked = hand_over(driver)
    driver.holds_appends = True
    driver.send(CreateTopics, (NewTopic("payments"),))
    request_id = driver.send(NodeBeat, BrokerHeartbeat(130, 1, driver.now_ms, (asked,)))
    assert request_id not in driver.answers
    driver.lose_held()
    answer = driver.answers[request_id].answer
    assert (answer.error_code, answer.metadata_version) == (ErrorCode.NONE, driver.image.version)
    assert answer.resign == (asked,)
    assert orders(driver).leader == 130
    driver.send(NodeBeat, BrokerHeartbeat(130, 1, driver.now_ms, (asked,)))
    driver.log_held()
    assert orders(driver).leader == 30


def test_a_resignation_whose_node_was_given_up_meanwhile_is_refused_even_if_the_append_is_lost():
    driver = driver_led_by_another()
    asked = hand_over(driver)
    driver.holds_appends = True
    driver.send(CreateTopics, (NewTopic("payments"),))
    request_id = driver.send(NodeBeat, BrokerHeartbeat(130, 1, driver.now_ms, (asked,)))
    driver.tick(SESSION_MS)
    driver.lose_held()
    assert driver.answers[request_id].answer.error_code is ErrorCode.STALE_BROKER_EPOCH


def test_the_preferred_leaders_lead_again_by_themselves_after_a_while():
    driver = driver_led_by_another(leader_imbalance_check_interval_seconds=10)
    alive = others_than(driver, 30)
    for _ in range(20):
        driver.beat(30, incarnation=2)
        driver.let_time_pass(500, *alive)
    (asked,) = driver.beat(130).resign
    driver.beat(130, asked)
    assert orders(driver).leader == 30


def test_leaders_stay_where_they_are_if_nobody_wants_them_to_go_back():
    driver = driver_led_by_another(leader_imbalance_check_interval_seconds=1, auto_leader_rebalance_enable=False)
    driver.tick(2000)
    assert driver.beat(130).resign == ()


# In-sync sets


def test_a_leader_changes_the_in_sync_set():
    driver = driver_with_orders()
    answer = driver.propose(ORDERS_0, 30, 130).answer
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (ErrorCode.NONE, (30, 130), 1)
    assert orders(driver).isr == (30, 130)


def test_a_proposal_that_was_not_judged_is_not_answered_like_one_that_was_refused():
    driver = driver_with_orders()
    driver.holds_appends = True
    proposal = ProposeIsr(ORDERS_0, 30, 0, 0, (InSyncReplica(30, 1),))
    request_id = driver.send(ChangeIsr, proposal)
    driver.lose_held()
    answer = driver.answers[request_id].answer
    assert answer.error_code.is_retriable
    assert answer.leader_epoch < 0, "a leader takes nothing back because of it"
    refused = driver.send(ChangeIsr, msgspec.structs.replace(proposal, partition_epoch=5))
    assert driver.answers[refused].answer.leader_epoch == 0


# Producer ids


def test_producer_ids_are_given_once_also_after_a_restart():
    driver = planned_driver()
    assert (driver.ask(ReserveProducerIds, 1000).first_id, driver.ask(ReserveProducerIds, 10).first_id) == (0, 1000)
    driver.restart()
    answer = driver.ask(ReserveProducerIds, 5)
    assert (answer.error_code, answer.first_id, answer.count) == (ErrorCode.NONE, 1010, 5)


def test_there_is_an_end_to_producer_ids():
    driver = planned_driver()
    assert driver.ask(ReserveProducerIds, 2**63).error_code is not ErrorCode.NONE
    assert driver.ask(ReserveProducerIds, 0).error_code is ErrorCode.INVALID_REQUEST
    assert driver.ask(ReserveProducerIds, 2**63 - 6).first_id == 0
    assert driver.ask(ReserveProducerIds, 10).error_code is not ErrorCode.NONE
    assert driver.ask(ReserveProducerIds, 5).first_id == 2**63 - 6


def test_lost_producer_ids_are_nobodys():
    driver = planned_driver()
    driver.holds_appends = True
    request_id = driver.send(ReserveProducerIds, 1000)
    driver.lose_held()
    assert driver.answers[request_id].error_code.is_retriable
    driver.holds_appends = False
    assert driver.ask(ReserveProducerIds, 1000).first_id == 0
