"""Those who follow the metadata: news at once, waiting in between, and the whole image where changes do not do."""

import msgspec

from eagleray.broker.controller.events import CreateTopics, FollowMetadata, GetMetadata, NewTopic
from eagleray.broker.controller.metadata_queries import answer_metadata, follow
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import TopicCreated
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import SMALL, planned_driver


def test_a_follower_that_is_behind_gets_the_changes_since_at_once():
    driver = planned_driver()
    known = driver.image
    driver.create("a")
    driver.create("b")
    answer = driver.ask(FollowMetadata, known.version, 1000)
    assert answer.image is None
    assert [type(change) for change in answer.changes] == [TopicCreated, TopicCreated]
    assert answer.version == driver.image.version == known.version + 2
    assert follow(known, answer) == driver.image


def test_a_follower_that_knows_nothing_gets_everything():
    driver = planned_driver()
    answer = driver.ask(FollowMetadata, 0, 1000)
    assert follow(EMPTY_IMAGE, answer) == driver.image


def test_a_follower_that_is_up_to_date_waits_for_the_next_change():
    driver = planned_driver()
    known = driver.image
    first, second = (driver.send(FollowMetadata, known.version, 1000) for _ in range(2))
    assert first not in driver.answers
    driver.create("orders")
    for request_id in (first, second):
        assert follow(known, driver.answers[request_id]) == driver.image


def test_a_follower_hears_of_a_change_only_when_the_log_has_it():
    driver = planned_driver()
    request_id = driver.send(FollowMetadata, driver.image.version, 1000)
    driver.holds_appends = True
    driver.send(CreateTopics, (NewTopic("orders"),))
    assert request_id not in driver.answers
    driver.commit_held()
    assert request_id in driver.answers


def test_a_wait_ends_with_no_news_when_its_time_is_over():
    driver = planned_driver()
    known = driver.image
    request_id = driver.send(FollowMetadata, known.version, 1000)
    later = driver.send(FollowMetadata, known.version, 2000)
    driver.tick(999)
    assert request_id not in driver.answers
    driver.tick(1)
    answer = driver.answers[request_id]
    assert (answer.error_code, answer.version, answer.changes, answer.image) == (0, known.version, (), None)
    assert follow(known, answer) is known
    assert later not in driver.answers


def test_follower_that_does_not_wait_is_answered_at_once():
    driver = planned_driver()
    assert driver.ask(FollowMetadata, driver.image.version, 0).changes == ()


def test_followers_wait_no_longer_than_the_controller_allows():
    driver = planned_driver(msgspec.structs.replace(SMALL, metadata_max_wait_ms=50))
    request_id = driver.send(FollowMetadata, driver.image.version, 10**9)
    driver.tick(50)
    assert request_id in driver.answers


def test_a_follower_too_far_behind_gets_the_whole_image():
    driver = planned_driver(msgspec.structs.replace(SMALL, metadata_changes_kept=2))
    known = driver.image
    for name in "abc":
        driver.create(name)
    answer = driver.ask(FollowMetadata, known.version, 1000)
    assert (answer.changes, answer.image) == ((), driver.image)
    answer = driver.ask(FollowMetadata, known.version + 1, 1000)
    assert (len(answer.changes), answer.image) == (2, None)


def test_after_a_restart_who_is_behind_gets_the_whole_image_and_who_is_not_waits():
    driver = planned_driver()
    driver.create("a")
    driver.restart()
    version = driver.image.version
    assert driver.ask(FollowMetadata, version - 1, 1000).image == driver.image
    assert driver.ask(FollowMetadata, version, 1000) is None


def test_a_follower_that_is_ahead_of_a_log_that_lost_its_end_is_refused_and_never_waits():
    driver = planned_driver()
    driver.create("a")
    ahead = driver.image
    driver.batches.pop()
    driver.restart()
    answer = driver.ask(FollowMetadata, ahead.version, 1000)
    assert (answer.error_code, answer.image, answer.changes) == (ErrorCode.STALE_CONTROLLER_EPOCH, None, ())


# Metadata for clients


def test_metadata_of_all_topics_is_the_image():
    driver = planned_driver()
    assert driver.ask(GetMetadata).image == driver.image


def test_metadata_of_some_topics_has_those_that_exist():
    driver = planned_driver()
    driver.create("a")
    driver.create("b")
    answer = answer_metadata(driver.image, GetMetadata(7, ("b", "nothing")))
    assert (answer.request_id, answer.error_code) == (7, ErrorCode.NONE)
    assert set(answer.image.topics) == {"b"}
    assert answer.image.plan == driver.image.plan
    assert driver.image.led_by(2) == (TopicPartition("a", 0),)
    assert answer_metadata(driver.image, GetMetadata(7, ("b",))).image.led_by(2) == ()
    assert answer_metadata(driver.image, GetMetadata(7, ())).image.topics == {}
