"""Nodes that are heard, nodes that are not, and what becomes of what they led."""

from collections import deque

import msgspec

from eagleray.broker.controller.events import CreateTopics, NewTopic, ReserveProducerIds
from eagleray.broker.controller.replica_events import ChangeIsr, ElectLeaders, NodeBeat
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import PartitionImage
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


def test_nodes_of_one_machine_need_no_sessions():
    driver = planned_driver()
    driver.register(driver.image.plan[2])
    driver.tick(10 * SESSION_MS)
    assert 2 in driver.image.nodes
    driver.plan_another_machine()
    driver.tick(SESSION_MS - 1)
    assert 2 in driver.image.nodes, "a whole session begins with the other machine"
    driver.tick(1)
    assert 2 not in driver.image.nodes


def test_answer_to_a_heartbeat_rests_on_all_that_was_decided_before_it():
    driver = driver_with_orders()
    driver.holds_appends = True
    version = driver.image.version
    driver.send(CreateTopics, (NewTopic("payments"),))
    first = driver.send(NodeBeat, BrokerHeartbeat(30, 1, driver.now_ms))
    driver.send(CreateTopics, (NewTopic("invoices"),))
    second = driver.send(NodeBeat, BrokerHeartbeat(30, 1, driver.now_ms))
    assert driver.answers.keys().isdisjoint({first, second})
    driver.commit_held()
    assert driver.answers[first].answer.metadata_version == driver.image.version == version + 1
    assert second not in driver.answers
    driver.commit_held()
    assert driver.answers[second].answer.metadata_version == version + 2


def test_heartbeats_count_also_where_no_more_appends_are_taken():
    driver = driver_with_orders(queued_requests_limit=0)
    driver.holds_appends = True
    driver.send(CreateTopics, (NewTopic("payments"),))
    refused = driver.send(CreateTopics, (NewTopic("invoices"),))
    assert driver.answers[refused].results[0].error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    beat = driver.send(NodeBeat, BrokerHeartbeat(30, 1, driver.now_ms))
    driver.commit_held()
    assert driver.answers[beat].answer.error_code is ErrorCode.NONE


def test_node_is_given_up_at_once_and_hears_of_it_when_others_lead():
    driver = driver_with_orders(queued_requests_limit=0)
    driver.holds_appends = True
    driver.send(CreateTopics, (NewTopic("payments"),))
    driver.tick(SESSION_MS - 1)
    alive = [driver.send(NodeBeat, BrokerHeartbeat(each, 1, driver.now_ms)) for each in others_than(driver, 30)]
    driver.tick(1)
    late = driver.send(NodeBeat, BrokerHeartbeat(30, 1, driver.now_ms))
    assert orders(driver).leader == 30
    driver.commit_held()
    assert {driver.answers[request_id].answer.error_code for request_id in alive} == {ErrorCode.NONE}
    assert late not in driver.answers
    driver.commit_held()
    assert driver.answers[late].answer.error_code is ErrorCode.STALE_BROKER_EPOCH
    assert (orders(driver).leader, driver.held) == (130, deque())


def test_next_controller_logs_a_lost_end_of_a_session():
    driver = driver_with_orders()
    driver.holds_appends = True
    driver.tick(SESSION_MS)
    late = driver.send(NodeBeat, BrokerHeartbeat(30, 1, driver.now_ms))
    driver.lose_held()
    assert driver.answers[late].answer.error_code is ErrorCode.REQUEST_TIMED_OUT, "it may go on"
    assert 30 in driver.image.nodes
    driver.holds_appends = False
    driver.let_time_pass(SESSION_MS, *others_than(driver, 30))
    assert 30 not in driver.image.nodes
    assert orders(driver).leader == 130


def test_session_of_a_new_life_that_the_log_has_lost_is_that_of_the_old_one():
    driver = driver_with_orders()
    driver.holds_appends = True
    driver.register(driver.image.plan[30], 2)
    driver.lose_held()
    assert driver.beat(30, incarnation=2).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert driver.beat(30).error_code is ErrorCode.NONE


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


def test_resignation_that_is_lost_is_repeated():
    driver = driver_led_by_another()
    asked = hand_over(driver)
    driver.holds_appends = True
    request_id = driver.send(NodeBeat, BrokerHeartbeat(130, 1, driver.now_ms, (asked,)))
    assert request_id not in driver.answers
    driver.lose_held()
    assert driver.answers[request_id].answer.error_code is ErrorCode.REQUEST_TIMED_OUT
    assert orders(driver).leader == 130
    driver.send(NodeBeat, BrokerHeartbeat(130, 1, driver.now_ms, (asked,)))
    driver.commit_held()
    assert orders(driver).leader == 30


def test_the_preferred_leaders_lead_again_by_themselves_after_a_while():
    driver = driver_led_by_another(leader_imbalance_check_interval_seconds=10)
    alive = others_than(driver, 30)
    for _ in range(20):
        driver.beat(30, incarnation=2)
        driver.let_time_pass(500, *alive)
    (asked,) = driver.beat(130).resign
    driver.beat(130, asked)
    assert orders(driver).leader == 30


def test_leaders_stay_where_they_are_unless_the_config_wants_them_back():
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


def test_lost_producer_ids_are_given_to_no_producer():
    driver = planned_driver()
    driver.holds_appends = True
    request_id = driver.send(ReserveProducerIds, 1000)
    driver.lose_held()
    assert driver.answers[request_id].error_code.is_retriable
    driver.holds_appends = False
    assert driver.ask(ReserveProducerIds, 1000).first_id == 0
