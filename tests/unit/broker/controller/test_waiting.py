"""One append at a time: who comes meanwhile waits and sees its outcome, and a lost append leaves no trace."""

import msgspec
import pytest

from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    CreateTopics,
    DeleteTopics,
    DescribeConfigs,
    FollowMetadata,
    GetMetadata,
    GrowTopic,
    NewTopic,
    PlanNodes,
    RegisterNode,
)
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import PLAN, SMALL, planned_driver, registration


@pytest.fixture
def driver():
    driver = planned_driver()
    driver.create("old")
    driver.holds_appends = True
    return driver


def code_of(driver, request_id: int) -> ErrorCode:
    answer = driver.answers[request_id]
    return answer.results[0].error_code if hasattr(answer, "results") else answer.error_code


def test_nothing_is_answered_or_changed_before_the_log_has_it(driver):
    before = driver.image
    request_id = driver.send(CreateTopics, (NewTopic("new", 1, -1, {"leader.placement": "dedicated"}),))
    assert request_id not in driver.answers
    assert driver.image is before
    assert driver.supervision == []
    driver.log_held()
    assert code_of(driver, request_id) is ErrorCode.NONE
    assert "new" in driver.image.topics
    assert len(driver.supervision) == 1


def test_who_comes_during_an_append_is_decided_upon_after_it_in_order(driver):
    requests = [
        driver.send(CreateTopics, (NewTopic("new"),)),
        driver.send(CreateTopics, (NewTopic("new"),)),
        driver.send(GrowTopic, "new", 3),
        driver.send(DeleteTopics, ("new",)),
        driver.send(DeleteTopics, ("new",)),
    ]
    for _ in range(3):
        driver.log_held()
    assert driver.held is None
    assert [code_of(driver, request_id) for request_id in requests] == [
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_questions_do_not_wait_and_see_what_the_log_has(driver):
    driver.send(DeleteTopics, ("old",))
    assert "old" in driver.ask(GetMetadata).image.topics
    assert driver.ask(DescribeConfigs, "old").error_code is ErrorCode.NONE
    assert driver.ask(FollowMetadata, 0, 0).version == driver.image.version


def test_a_lost_append_changes_nothing_and_everybody_who_waits_is_told_to_try_again(driver):
    before = driver.image
    requests = [
        driver.send(CreateTopics, (NewTopic("new"), NewTopic("newer"))),
        driver.send(DeleteTopics, ("old",)),
        driver.send(GrowTopic, "old", 3),
        driver.send(AlterTopicConfigs, "old", {"retention.ms": "1"}),
        driver.send(RegisterNode, registration(PLAN[2])),
        driver.send(PlanNodes, PLAN[:3]),
    ]
    driver.lose_held(ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.image is before
    assert driver.held is None
    assert [code_of(driver, request_id) for request_id in requests] == [ErrorCode.KAFKA_STORAGE_ERROR] * 6
    assert [result.name for result in driver.answers[requests[0]].results] == ["new", "newer"]
    assert driver.supervision == []


def test_what_the_log_says_to_a_loss_is_turned_into_something_to_retry(driver):
    request_id = driver.send(DeleteTopics, ("old",))
    driver.lose_held(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert code_of(driver, request_id).is_retriable


def test_life_goes_on_after_a_loss(driver):
    driver.send(CreateTopics, (NewTopic("new", 1, -1, {"leader.placement": "dedicated"}),))
    driver.send(DeleteTopics, ("old",))
    driver.lose_held()
    request_id = driver.send(CreateTopics, (NewTopic("new", 1, -1, {"leader.placement": "dedicated"}),))
    driver.log_held()
    assert code_of(driver, request_id) is ErrorCode.NONE
    assert driver.image.leader_of(TopicPartition("new", 0)) == 1000
    assert driver.held is None
    assert "old" in driver.image.topics


def test_followers_wait_on_through_a_loss(driver):
    request_id = driver.send(FollowMetadata, driver.image.version, 1000)
    driver.send(DeleteTopics, ("old",))
    driver.lose_held()
    assert request_id not in driver.answers


def test_the_queue_is_bounded():
    driver = planned_driver(msgspec.structs.replace(SMALL, queued_requests_limit=1))
    driver.holds_appends = True
    driver.send(CreateTopics, (NewTopic("a"),))
    waits = driver.send(CreateTopics, (NewTopic("b"),))
    refused = driver.send(CreateTopics, (NewTopic("c"),))
    assert waits not in driver.answers
    assert code_of(driver, refused).is_retriable
    assert driver.answers[refused].results[0].message


def test_a_controller_that_dies_during_an_append_knows_what_the_log_knows(driver):
    driver.send(DeleteTopics, ("old",))
    driver.restart()
    assert "old" in driver.image.topics
    assert driver.ask(GetMetadata).image == driver.replayed()
