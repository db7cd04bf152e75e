"""Regular expressions: which are taken, what they stand for, and how members subscribe to them."""

import pytest

from eagleray.broker.patterns import BadPattern, compile_pattern, matching
from eagleray.protocol.errors import ErrorCode
from tests.support.consumer_groups import Consumer, GroupWorld, parts, settle


@pytest.mark.parametrize(
    "pattern",
    [
        "orders",
        "orders-.*",
        "(orders|payments)-[0-9]+",
        "(?i)ORDERS",
        "(?:eu|us)-(?P<what>.+)",
        r"a\.b\(\*\+",
        "[(*+?=!]+",
        "[]a]+",
        r"[\]+]+x",
        "(a+b)?",
        "(a+){1,3}",
        r"x{2,}",
        "^orders$",
        "a*?b+?",
    ],
)
def test_patterns_that_are_taken(pattern: str):
    compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "*",
        "a{3,2}",
        r"\pL+",
        r"\Qa\E",
        "[[:alpha:]]+",
        r"(a)\1",
        "(?=a)b",
        "(?!a)b",
        "(?<=a)b",
        "(?<!a)b",
        "(?>a)b",
        "(?P<x>a)(?P=x)",
        "(a)?(?(1)b|c)",
        "a*+",
        "a++",
        "(a+)+",
        "(a*)*b",
        "((a+)b)*",
        "((ab){2,}c){1,}",
        r"(\d+[*])+",
        "x" * 2000,
    ],
)
def test_patterns_that_are_refused(pattern: str):
    with pytest.raises(BadPattern, match=r"."):
        compile_pattern(pattern)


def test_a_pattern_describes_a_name_from_beginning_to_end():
    assert matching("orders.*|pay", ["orders", "orders-eu", "my-orders", "payments", "pay"]) == {
        "orders",
        "orders-eu",
        "pay",
    }


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
    response = GroupWorld().join("a", subscribed_topic_regex="(a+)+")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "(a+)+" in response.error_message
    assert "repeat" in response.error_message
