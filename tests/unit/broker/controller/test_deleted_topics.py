"""The metadata keep the ids of deleted topics for a while, so that nodes that were away learn of them."""

import msgspec

from eagleray.broker.controller.events import DeleteTopics, GrowTopic
from tests.support.controllers import SMALL, ControllerDriver

DAY_MS = 24 * 60 * 60 * 1000


def planned(**configs):
    driver = ControllerDriver(msgspec.structs.replace(SMALL, **configs))
    driver.plan()
    return driver


def delete(driver, name):
    driver.create(name)
    topic_id = driver.image.topic_id(name)
    driver.ask(DeleteTopics, (name,))
    return topic_id


def test_id_of_a_deleted_topic_stays_in_the_metadata_also_after_a_restart():
    driver = planned()
    topic_id = delete(driver, "orders")
    assert driver.image.deleted_topics == {topic_id: driver.time_of_day_ms}
    driver.restart()
    assert driver.image.deleted_topics == {topic_id: driver.time_of_day_ms}
    assert "orders" not in driver.image.topics


def test_ids_are_forgotten_by_the_first_deletion_after_their_time():
    driver = planned()
    delete(driver, "first")
    driver.time_of_day_ms += 30 * DAY_MS
    second = delete(driver, "second")
    assert len(driver.image.deleted_topics) == 2
    driver.time_of_day_ms += 1
    third = delete(driver, "third")
    assert {*driver.image.deleted_topics} == {second, third}


def test_how_long_ids_are_kept_is_a_setting():
    driver = planned(deleted_topics_retention_ms=1000)
    delete(driver, "first")
    driver.time_of_day_ms += 1001
    second = delete(driver, "second")
    assert {*driver.image.deleted_topics} == {second}


def test_clock_that_goes_back_forgets_nothing():
    driver = planned(deleted_topics_retention_ms=1000)
    delete(driver, "first")
    driver.time_of_day_ms -= DAY_MS
    delete(driver, "second")
    assert len(driver.image.deleted_topics) == 2


def test_topic_begins_at_leader_epochs_above_those_of_deleted_ones():
    """What a node still says about the deleted topic of the name is fenced then."""
    driver = planned()
    assert first_epochs(driver, "orders") == {0}
    driver.ask(DeleteTopics, ("orders",))
    driver.restart()
    assert first_epochs(driver, "orders") == {1}
    driver.ask(GrowTopic, "orders", 4)
    assert {each.leader_epoch for each in driver.image.topics["orders"].partitions} == {1}
    driver.ask(DeleteTopics, ("orders",))
    assert first_epochs(driver, "payments") == {2}


def first_epochs(driver, name):
    driver.create(name, 2)
    return {each.leader_epoch for each in driver.image.topics[name].partitions}
