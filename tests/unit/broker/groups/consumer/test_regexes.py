"""How members subscribe to regular expressions, and what they get by them."""

from eagleray.protocol.errors import ErrorCode
from tests.support.consumer_groups import Consumer, GroupWorld, parts, settle


def test_a_member_gets_the_topics_that_its_pattern_describes():
    world = GroupWorld({"orders-eu": 1, "orders-us": 1, "payments": 1})
    consumer = Consumer(world, "a", subscribed_topic_names=None, subscribed_topic_regex="orders-.*")
    settle(consumer)
    assert consumer.owned == parts("orders-eu", 0) | parts("orders-us", 0)
    assert world.state.regexes == {"orders-.*": {"orders-eu", "orders-us"}}


def test_new_topics_that_it_describes_are_an_epoch():
    world = GroupWorld({"orders-eu": 1})
    consumer = Consumer(world, "a", subscribed_topic_names=None, subscribed_topic_regex="orders-.*")
    settle(consumer)
    world.set_topics({"orders-eu": 1, "orders-us": 1, "payments": 1})
    settle(consumer)
    assert (consumer.epoch, consumer.owned) == (2, parts("orders-eu", 0) | parts("orders-us", 0))
    world.set_topics({"orders-us": 1})
    settle(consumer)
    assert (consumer.epoch, consumer.owned) == (3, parts("orders-us", 0))


def test_a_pattern_that_comes_to_describe_what_others_name_is_an_epoch():
    world = GroupWorld({"orders-eu": 1})
    first = Consumer(world, "a", "orders-eu", "orders-us")
    second = Consumer(world, "b", subscribed_topic_names=None, subscribed_topic_regex="orders-us")
    world.set_topics({"orders-eu": 1, "orders-us": 1})
    settle(first, second)
    assert (first.owned, second.owned) == (parts("orders-eu", 0), parts("orders-us", 0))


def test_names_and_a_pattern_add_up():
    world = GroupWorld({"orders-eu": 1, "payments": 1})
    consumer = Consumer(world, "a", "payments", subscribed_topic_regex="orders-.*")
    settle(consumer)
    assert consumer.owned == parts("orders-eu", 0) | parts("payments", 0)


def test_an_empty_pattern_ends_the_subscription_and_is_forgotten():
    world = GroupWorld({"orders-eu": 1, "payments": 1})
    consumer = Consumer(world, "a", "payments", subscribed_topic_regex="orders-.*")
    settle(consumer)
    consumer.subscribe(subscribed_topic_regex="")
    settle(consumer)
    assert world.member("a").topic_regex is None
    assert world.state.regexes == {}
    assert consumer.owned == parts("payments", 0)


def test_a_pattern_is_forgotten_with_its_last_subscriber():
    world = GroupWorld({"orders-eu": 2})
    first, second = (
        Consumer(world, name, subscribed_topic_names=None, subscribed_topic_regex="orders-.*") for name in "ab"
    )
    settle(first, second)
    first.leave()
    assert set(world.state.regexes) == {"orders-.*"}
    second.leave()
    assert world.state.regexes == {}


def test_the_refusal_says_what_is_wrong():
    response = GroupWorld().join("a", subscribed_topic_regex="(?=a)b")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "(?=a)b" in response.error_message
    assert "invalid perl operator: (?=" in response.error_message
