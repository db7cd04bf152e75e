"""docs/configuration.md is what the code would write, and each of its rows says all that a user wants to know."""

import pytest

from eagleray.actors.common.settings import ALIASES, CLUSTER_KEYS, check_settings, described_cluster_settings
from eagleray.broker.log import InvalidConfig
from eagleray.broker.metadata.topic_configs import (
    TOPIC_CONFIG_KEYS,
    TopicConfig,
    described_topic_settings,
    text_of,
)
from eagleray.broker.settings import NOT_IN_KAFKA, SAME
from tests.support.scripts import check_document, load_script

SHORTEST_SENTENCE_WORDS = 6


@pytest.fixture(scope="module")
def script():
    return load_script("configuration_tables")


@pytest.fixture(scope="module")
def rows(script):
    return [*script.cluster_rows(), *script.topic_rows(), *script.producer_rows(), *script.consumer_rows()]


def test_document_is_up_to_date():
    check_document("configuration_tables")


def test_every_setting_has_a_row(script):
    assert {row[0].strip("`") for row in script.cluster_rows()} == CLUSTER_KEYS
    assert {row[0].strip("`") for row in script.topic_rows()} == TOPIC_CONFIG_KEYS
    assert all(f"`{older}`" in script.CLUSTER for older in ALIASES)


def test_no_cell_is_empty_or_breaks_the_table(rows):
    for row in rows:
        assert all(cell.strip() and "|" not in cell and "\n" not in cell for cell in row), row


def test_meanings_are_sentences_that_stand_alone(rows):
    for key, meaning, *_ in rows:
        assert meaning[0].isupper(), key
        assert meaning.endswith("."), key
        assert len(meaning.split()) >= SHORTEST_SENTENCE_WORDS, (key, meaning)
        words = meaning.replace(";", "").replace(".", "").split()
        assert not {"Ours", "Accepted"} & set(words), (key, meaning)
        assert not meaning.startswith(("How many of them", "The same", "The most that this", "The least that")), key


def test_units_are_those_of_the_names(rows):
    for key, _, unit, *_ in rows:
        name = key.strip("`")
        for suffix in ("ms", "bytes", "minutes", "seconds"):
            if name.endswith(f".{suffix}") and name != "offset.metadata.max.bytes":
                assert unit == suffix, key


def test_difference_from_kafka_is_a_difference(rows):
    for key, _, _, _, default, kafka, *_ in rows:
        assert kafka in (SAME, NOT_IN_KAFKA) or kafka != default, key


NUMBERS = [each for each in described_cluster_settings().values() if each.kind in (int, float)]
TOPIC_NUMBERS = [each for each in described_topic_settings().values() if each.kind in (int, float)]


def refusal(check, key, value):
    """What is said of a value that is refused; empty for one that is taken."""
    try:
        check({key: f"{value}"})
    except InvalidConfig as error:
        return str(error)
    return ""


def refuses(check, key, value):
    """Whether a value is refused for its own sake, with what was expected.

    Others may have to move with it; those name it in their ranges.
    """
    said = refusal(check, key, value)
    return said.startswith(f"{key} is ") and "expected" in said


def refuses_cluster(key, value):
    return refuses(check_settings, key, value)


@pytest.mark.parametrize("each", NUMBERS, ids=lambda each: each.key)
def test_ranges_of_cluster_settings_are_enforced_as_shown(each):
    setting = each.setting
    assert refuses_cluster(each.key, setting.least - 1)
    assert refuses_cluster(each.key, setting.most + 1)
    assert not refuses_cluster(each.key, each.default)
    if not setting.also:
        assert not refuses_cluster(each.key, setting.least)
        assert not refuses_cluster(each.key, setting.most)


@pytest.mark.parametrize("each", TOPIC_NUMBERS, ids=lambda each: each.key)
def test_ranges_of_topic_settings_are_enforced_as_shown(each):
    setting = each.setting
    assert refuses(TopicConfig.parse, each.key, setting.least - 1)
    assert refuses(TopicConfig.parse, each.key, setting.most + 1)
    if not setting.also:
        assert not refuses(TopicConfig.parse, each.key, setting.least)
        assert not refuses(TopicConfig.parse, each.key, setting.most)


@pytest.mark.parametrize("each", described_topic_settings().values(), ids=lambda each: each.key)
def test_defaults_shown_are_those_that_topics_have(each):
    assert TopicConfig().as_text()[each.key] == text_of(each.default)


@pytest.mark.parametrize("key", ["min.insync.replicas", "unclean.leader.election.enable"])
def test_settings_of_replicas_are_not_said_to_be_without_effect(key):
    meaning = described_topic_settings()[key].setting.meaning
    assert "in sync" in meaning
    assert key != "unclean.leader.election.enable" or "can be lost" in meaning
