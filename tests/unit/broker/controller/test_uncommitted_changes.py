"""A change counts when it is decided, is spoken of when it is committed, and leaves no trace if it is lost."""

import msgspec
import pytest

from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    ChangesCommitted,
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
from eagleray.broker.controller.replica_events import ListReassignments
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


def test_nothing_is_said_of_a_change_before_the_log_has_it_for_good(driver):
    before = driver.image
    request_id = driver.send(CreateTopics, (NewTopic("new", 1, -1, {"leader.placement": "dedicated"}),))
    assert request_id not in driver.answers
    assert driver.image is before
    assert driver.supervision == []
    driver.commit_held()
    assert code_of(driver, request_id) is ErrorCode.NONE
    assert "new" in driver.image.topics
    assert len(driver.supervision) == 1


def test_next_request_is_decided_upon_what_is_not_committed_yet(driver):
    requests = [
        driver.send(CreateTopics, (NewTopic("new"),)),
        driver.send(CreateTopics, (NewTopic("new"),)),
        driver.send(GrowTopic, "new", 3),
        driver.send(DeleteTopics, ("new",)),
        driver.send(DeleteTopics, ("new",)),
    ]
    assert len(driver.held) == 3
    answered = []
    while driver.held:
        driver.commit_held()
        answered.append([request_id for request_id in requests if request_id in driver.answers])
    assert answered == [requests[:2], requests[:3], requests]
    assert [code_of(driver, request_id) for request_id in requests] == [
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_changes_of_a_turn_are_one_append_and_followers_are_told_once(driver):
    follows = driver.send(FollowMetadata, driver.image.version, 1000)
    events = [CreateTopics(101, (NewTopic("new"),)), GrowTopic(102, "new", 3), DeleteTopics(103, ("old",))]
    driver.tell_all(events)
    (append,) = driver.held
    assert len(append.changes) == 3
    assert driver.answers.keys().isdisjoint({101, 102, 103, follows})
    driver.commit_held()
    assert [code_of(driver, request_id) for request_id in (101, 102, 103)] == [ErrorCode.NONE] * 3
    assert driver.answers[follows].changes == append.changes


def test_one_commit_tells_of_all_appends_before_it(driver):
    requests = [driver.send(CreateTopics, (NewTopic(name),)) for name in "abc"]
    driver.tell(ChangesCommitted(driver.held[1].position))
    assert [request_id in driver.answers for request_id in requests] == [True, True, False]
    assert {"a", "b"} < driver.image.topics.keys()
    assert "c" not in driver.image.topics


def test_questions_do_not_wait_and_see_what_is_committed(driver):
    driver.send(DeleteTopics, ("old",))
    assert "old" in driver.ask(GetMetadata).image.topics
    assert driver.ask(DescribeConfigs, "old").error_code is ErrorCode.NONE
    assert driver.ask(FollowMetadata, 0, 0).version == driver.image.version
    assert driver.ask(ListReassignments).error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("error_code", "code_of_changes"),
    [
        (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_controller_that_resigns_refuses_all_who_wait(driver, error_code, code_of_changes):
    """Those whose changes may come to be are not told NOT_CONTROLLER, which says that nothing has been done."""
    follows = driver.send(FollowMetadata, driver.image.version, 1000)
    requests = [
        driver.send(CreateTopics, (NewTopic("new", 1, -1, {"leader.placement": "dedicated"}), NewTopic("newer"))),
        driver.send(DeleteTopics, ("old",)),
        driver.send(GrowTopic, "new", 3),
        driver.send(AlterTopicConfigs, "newer", {"retention.ms": "1"}),
        driver.send(RegisterNode, registration(PLAN[2])),
        driver.send(PlanNodes, PLAN[:3]),
    ]
    driver.lose_held(error_code)
    assert [code_of(driver, request_id) for request_id in requests] == [code_of_changes] * 6
    assert code_of(driver, follows) is error_code
    assert [result.name for result in driver.answers[requests[0]].results] == ["new", "newer"]
    assert driver.answers[follows].version == driver.image.version
    assert driver.supervision == []
    assert "old" in driver.image.topics


def test_next_controller_goes_on_from_what_is_committed(driver):
    driver.send(CreateTopics, (NewTopic("new", 1, -1, {"leader.placement": "dedicated"}),))
    driver.send(DeleteTopics, ("old",))
    driver.lose_held()
    request_id = driver.send(CreateTopics, (NewTopic("new", 1, -1, {"leader.placement": "dedicated"}),))
    driver.commit_held()
    assert code_of(driver, request_id) is ErrorCode.NONE
    assert driver.image.leader_of(TopicPartition("new", 0)) == 1000
    assert not driver.held
    assert "old" in driver.image.topics


def test_appends_under_way_are_bounded():
    driver = planned_driver(msgspec.structs.replace(SMALL, queued_requests_limit=1))
    driver.holds_appends = True
    driver.send(CreateTopics, (NewTopic("a"),))
    waits = driver.send(CreateTopics, (NewTopic("b"),))
    refused = driver.send(CreateTopics, (NewTopic("c"),))
    assert waits not in driver.answers
    assert code_of(driver, refused) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert driver.answers[refused].results[0].message
    driver.commit_held()
    assert driver.send(CreateTopics, (NewTopic("c"),)) not in driver.answers


def test_controller_that_dies_during_an_append_is_followed_by_one_that_knows_what_the_log_has(driver):
    driver.send(DeleteTopics, ("old",))
    driver.restart()
    assert "old" in driver.image.topics
    assert driver.ask(GetMetadata).image == driver.replayed()
