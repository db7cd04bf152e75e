"""`eagleray topic`."""

import json

import pytest

from tests.support.cli_cluster import fail, invoke, succeed

pytestmark = pytest.mark.usefixtures("cluster")


def described(topic):
    return json.loads(succeed("topic", "describe", topic, "--json").stdout)


def names():
    return {row["name"]: row["partitions"] for row in json.loads(succeed("topic", "list", "--json").stdout)}


def test_created_topic_is_listed_with_its_partitions():
    succeed("topic", "create", "created", "--partitions", 3)
    assert names()["created"] == 3
    assert "created" in succeed("topic", "list").stdout


def test_topic_without_a_number_gets_the_default_of_the_cluster():
    succeed("topic", "create", "by-default")
    assert names()["by-default"] == 1


def test_settings_of_a_new_topic_count():
    succeed("topic", "create", "set", "--config", "retention.ms=1000", "--config", "segment.ms=2000")
    found = described("set")
    assert found["configs"]["retention.ms"] == "1000"
    assert set(found["explicit"]) == {"retention.ms", "segment.ms"}


def test_creating_a_topic_twice_says_so(topic):
    assert topic in fail("topic", "create", topic)


def test_setting_without_a_value_says_what_was_expected():
    assert "expected KEY=VALUE" in fail("topic", "create", "bad", "--config", "retention.ms")
    assert "bad" not in names()


def test_unknown_setting_is_refused_with_a_hint():
    assert "retention.ms" in fail("topic", "create", "bad", "--config", "retention.m=1")


def test_no_partitions_is_a_usage_error():
    assert invoke("topic", "create", "none", "--partitions", 0).exit_code == 2


def test_internal_topics_are_shown_when_asked_for():
    assert "__transaction_state" not in names()
    assert "__transaction_state" in succeed("topic", "list", "--internal").stdout


def test_description_shows_where_partitions_stand(topic):
    succeed("produce", topic, "--partition", 1, stdin="a\nb\n")
    first, second = described(topic)["partitions"]
    assert (first["high_watermark"], second["high_watermark"]) == (0, 2)
    assert second["undecided"] == 0
    assert "high watermark" in succeed("topic", "describe", topic).stdout


def test_describing_an_unknown_topic_says_so():
    assert "there is no topic 'nowhere'" in fail("topic", "describe", "nowhere")


def test_settings_are_changed_and_taken_back(topic):
    succeed("topic", "alter", topic, "--config", "retention.ms=5000")
    assert described(topic)["configs"]["retention.ms"] == "5000"
    succeed("topic", "alter", topic, "--delete-config", "retention.ms")
    assert described(topic)["explicit"] == []


def test_topic_grows(topic):
    succeed("topic", "alter", topic, "--partitions", 5)
    assert names()[topic] == 5


def test_topic_does_not_shrink(topic):
    fail("topic", "alter", topic, "--partitions", 1)
    assert names()[topic] == 2


def test_changing_nothing_says_what_was_expected(topic):
    assert "--config KEY=VALUE" in fail("topic", "alter", topic)


def test_changing_an_unknown_topic_says_so():
    assert "there is no topic 'nowhere'" in fail("topic", "alter", "nowhere", "--partitions", 2)


def test_topic_is_deleted_after_a_yes(topic):
    succeed("topic", "delete", topic, stdin="y\n")
    assert topic not in names()


def test_topic_is_kept_after_a_no(topic):
    assert invoke("topic", "delete", topic, stdin="n\n").exit_code == 1
    assert topic in names()


def test_topic_is_kept_where_the_prompt_is_not_answered(topic):
    assert invoke("topic", "delete", topic, stdin="").exit_code == 1
    assert topic in names()


def test_yes_asks_nothing(topic):
    succeed("topic", "delete", topic, "--yes")
    assert topic not in names()


def test_deleting_an_unknown_topic_says_so():
    assert "there is no topic 'nowhere'" in fail("topic", "delete", "nowhere", "--yes")


@pytest.mark.parametrize(
    "change", [("--config", "retention.m=1"), ("--config", "retention.ms=soon"), ("--delete-config", "retention.m")]
)
def test_change_that_cannot_be_says_what_to_write(topic, change):
    assert "retention.ms" in fail("topic", "alter", topic, *change)


@pytest.mark.parametrize("count", ["99999999999999999999", str(2**31)])
def test_count_of_partitions_that_no_message_can_hold_is_one_line(count):
    assert count in fail("topic", "create", "too-many", "--partitions", count)
    assert "too-many" not in names()
