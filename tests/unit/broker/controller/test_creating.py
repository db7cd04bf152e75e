"""Which topics may be created, and where their partitions are put; Kafka's rules."""

import msgspec
import pytest

from eagleray.broker.controller.events import CreateTopics, DeleteTopics, NewTopic, StartNodes
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.metadata.topics import NO_TOPIC_ID
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import PLAN, SMALL, ControllerDriver, planned_driver


def leaders(driver: ControllerDriver, topic: str) -> list[int]:
    return [partition.leader for partition in driver.image.topics[topic].partitions]


def test_a_new_topic_is_answered_with_its_id_and_partitions():
    driver = planned_driver()
    result = driver.create("orders", 3, retention_ms="1000")
    topic = driver.image.topics["orders"]
    assert (result.error_code, result.topic_id, result.partitions) == (ErrorCode.NONE, topic.topic_id, 3)
    assert topic.configs == {"retention.ms": "1000"}
    assert topic.topic_id != NO_TOPIC_ID
    assert driver.image.topic_with_id(topic.topic_id) is topic
    for partition in topic.partitions:
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.replicas == partition.isr == (partition.leader,)


def test_the_default_number_of_partitions_is_the_clusters():
    driver = planned_driver(msgspec.structs.replace(SMALL, num_partitions=6))
    assert driver.create("orders").partitions == 6
    assert planned_driver().create("orders").partitions == 1


@pytest.mark.parametrize("name", ["a" * 249, "A.b_c-9", "...", "__mine"])
def test_legal_names(name):
    driver = planned_driver()
    assert driver.create(name).error_code is ErrorCode.NONE


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\n", "a:b"])
def test_illegal_names(name):
    driver = planned_driver()
    result = driver.create(name)
    assert result.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.message
    assert name not in driver.image.topics


def test_names_that_differ_in_dots_and_lines_only_collide():
    driver = planned_driver()
    driver.create("a.b_c")
    result = driver.create("a_b.c")
    assert result.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b_c" in result.message


def test_names_of_one_request_collide_too():
    driver = planned_driver()
    answer = driver.ask(CreateTopics, (NewTopic("a.b"), NewTopic("a_b")))
    codes = [result.error_code for result in answer.results]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_topic_that_exists_is_not_created_again():
    driver = planned_driver()
    driver.create("or.ders")
    assert driver.create("or.ders").error_code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_name_given_twice_in_one_request_is_refused_once_and_the_others_are_created():
    driver = planned_driver()
    answer = driver.ask(CreateTopics, (NewTopic("twice"), NewTopic("once"), NewTopic("twice", 2)))
    assert [(result.name, result.error_code) for result in answer.results] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("once", ErrorCode.NONE),
    ]
    assert "twice" not in driver.image.topics


@pytest.mark.parametrize("name", ["__transaction_state", "__consumer_offsets", "__cluster_metadata"])
def test_internal_topics_are_not_for_clients_to_create(name):
    result = planned_driver().create(name)
    assert result.error_code is ErrorCode.INVALID_REQUEST
    assert "the broker's own" in result.message


@pytest.mark.parametrize("partitions", [0, -2])
def test_a_topic_has_at_least_one_partition(partitions):
    assert planned_driver().create("orders", partitions).error_code is ErrorCode.INVALID_PARTITIONS


def test_an_absurd_number_of_partitions_is_refused():
    assert planned_driver().create("orders", 2**31 - 1).error_code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(("factor", "code"), [(1, 0), (-1, 0), (0, 38), (-2, 38), (2, 38), (5, 38)])
def test_there_is_one_replica(factor, code):
    assert planned_driver().create("orders", 1, factor).error_code == code


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({"retention_ms": "soon"}, "retention.ms is 'soon'; expected a whole number"),
        ({"segment_bytes": "1"}, "expected a value from 1024"),
        ({"leader_placment": "dedicated"}, "did you mean leader.placement?"),
        ({"leader_placement": "alone"}, "expected shared or dedicated"),
        ({"min_insync_replicas": "0"}, "expected a whole number from 1"),
        ({"unclean_leader_election_enable": "perhaps"}, "expected true or false"),
        ({"compression_type": "rar"}, "expected producer or"),
        ({"cleanup_policy": "burn"}, "expected delete, compact"),
    ],
)
def test_settings_are_checked_and_the_message_says_what_to_write(configs, text):
    driver = planned_driver()
    result = driver.create("orders", **configs)
    assert result.error_code is ErrorCode.INVALID_CONFIG
    assert text in result.message
    assert "orders" not in driver.image.topics


def test_validation_alone_creates_nothing_and_takes_no_id():
    driver = planned_driver()
    answer = driver.ask(CreateTopics, (NewTopic("orders", 3), NewTopic("orders.", 0)), validate_only=True)
    good, bad = answer.results
    assert (good.error_code, good.topic_id, good.partitions) == (ErrorCode.NONE, NO_TOPIC_ID, 3)
    assert bad.error_code is ErrorCode.INVALID_PARTITIONS
    assert len(driver.batches) == 1


def test_the_topics_of_one_request_are_one_append():
    driver = planned_driver()
    driver.ask(CreateTopics, (NewTopic("a"), NewTopic("b"), NewTopic("c")))
    assert len(driver.batches) == 2


def test_before_there_is_a_plan_clients_are_told_to_try_again():
    result = ControllerDriver().create("orders")
    assert result.error_code.is_retriable


# Placement


def test_partitions_go_round_the_leaders_and_begin_where_there_are_fewest():
    driver = ControllerDriver()
    driver.plan((*PLAN, PlannedNode(4, ("leader",))))
    driver.create("a", 4)
    driver.create("b", 3)
    assert leaders(driver, "a") == [2, 3, 4, 2]
    assert leaders(driver, "b") == [3, 4, 2]


def test_replicas_that_a_request_has_placed_count_for_its_next_topic():
    driver = planned_driver()
    driver.ask(CreateTopics, (NewTopic("a"), NewTopic("b"), NewTopic("c")))
    assert [leaders(driver, name) for name in "abc"] == [[2], [3], [2]]


def test_dedicated_partitions_get_nodes_of_their_own_planned_in_the_same_append_and_started():
    driver = planned_driver()
    driver.create("orders", 2, leader_placement="dedicated")
    nodes = tuple(PlannedNode(1000 + number, ("leader",), TopicPartition("orders", number)) for number in range(2))
    assert leaders(driver, "orders") == [1000, 1001]
    assert driver.supervision == [StartNodes(nodes)]
    assert len(driver.batches) == 2
    assert driver.register(nodes[0]).error_code is ErrorCode.NONE


def test_a_validated_dedicated_topic_starts_nothing():
    driver = planned_driver()
    driver.ask(CreateTopics, (NewTopic("orders", 2, -1, {"leader.placement": "dedicated"}),), validate_only=True)
    assert driver.supervision == []


def test_there_is_a_limit_to_dedicated_nodes():
    driver = planned_driver(msgspec.structs.replace(SMALL, dedicated_nodes_limit=3))
    assert driver.create("a", 2, leader_placement="dedicated").error_code is ErrorCode.NONE
    assert driver.create("b", 2, leader_placement="dedicated").error_code is ErrorCode.POLICY_VIOLATION
    assert driver.create("c", 1, leader_placement="dedicated").error_code is ErrorCode.NONE


def test_the_topics_of_one_request_share_the_limit_of_dedicated_nodes():
    driver = planned_driver(msgspec.structs.replace(SMALL, dedicated_nodes_limit=3))
    dedicated = {"leader.placement": "dedicated"}
    answer = driver.ask(CreateTopics, (NewTopic("a", 2, -1, dedicated), NewTopic("b", 2, -1, dedicated)))
    assert [result.error_code for result in answer.results] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


# Where somebody wants the partitions


def assigned(driver: ControllerDriver, *replicas: tuple[int, ...], partitions: int = -1, **configs: str):
    settings = {key.replace("_", "."): text for key, text in configs.items()}
    topic = NewTopic("orders", partitions, -1, settings, replicas)
    return driver.ask(CreateTopics, (topic,)).results[0]


def test_partitions_are_put_where_their_creator_wants_them():
    driver = planned_driver()
    result = assigned(driver, (3,), (3,), (2,))
    assert (result.error_code, result.partitions) == (ErrorCode.NONE, 3)
    assert leaders(driver, "orders") == [3, 3, 2]


def test_partitions_that_a_client_has_placed_count_for_those_placed_later():
    driver = planned_driver()
    assigned(driver, (2,), (2,))
    driver.create("payments", 1)
    assert leaders(driver, "payments") == [3]


@pytest.mark.parametrize("replicas", [(), (2, 3), (1,), (99,)])
def test_a_partition_cannot_be_put_where_there_is_no_one_leader_for_it(replicas):
    driver = planned_driver()
    result = assigned(driver, (2,), replicas)
    assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.message
    assert "orders" not in driver.image.topics


def test_dedicated_partitions_cannot_be_put_anywhere():
    result = assigned(planned_driver(), (2,), leader_placement="dedicated")
    assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_request_that_chooses_the_places_names_no_numbers():
    assert assigned(planned_driver(), (2,), partitions=1).error_code is ErrorCode.INVALID_REQUEST


def test_topics_beyond_what_a_cluster_may_have_are_refused_each_on_its_own():
    driver = planned_driver(msgspec.structs.replace(SMALL, max_topics_per_cluster=3))
    driver.create("a")
    answer = driver.ask(CreateTopics, (NewTopic("b"), NewTopic("a"), NewTopic("c"), NewTopic("d")))
    codes = {result.name: result.error_code for result in answer.results}
    assert codes == {
        "b": ErrorCode.NONE,
        "a": ErrorCode.TOPIC_ALREADY_EXISTS,
        "c": ErrorCode.NONE,
        "d": ErrorCode.POLICY_VIOLATION,
    }
    refused = driver.create("e")
    assert "expected at most 3, by max.topics.per.cluster" in refused.message
    driver.ask(DeleteTopics, ("a",))
    assert driver.create("e").error_code is ErrorCode.NONE, "one that is deleted makes room"


def test_partitions_beyond_what_a_cluster_may_have_are_refused():
    driver = planned_driver(msgspec.structs.replace(SMALL, max_partitions_per_cluster=5))
    answer = driver.ask(CreateTopics, (NewTopic("a", 4), NewTopic("b", 2), NewTopic("c", 1)))
    codes = [result.error_code for result in answer.results]
    assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]
    refused = driver.create("d", 1)
    assert refused.error_code is ErrorCode.POLICY_VIOLATION
    assert "has 5; expected at most 5 in all, by max.partitions.per.cluster" in refused.message


def test_cluster_that_has_more_than_it_may_keeps_all_of_it():
    driver = planned_driver()
    driver.create("a", 4)
    driver.restart(msgspec.structs.replace(SMALL, max_topics_per_cluster=1, max_partitions_per_cluster=1))
    assert len(driver.image.topics["a"].partitions) == 4
    assert driver.create("b").error_code is ErrorCode.POLICY_VIOLATION
