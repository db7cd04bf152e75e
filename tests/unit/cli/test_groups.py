"""`eagleray group`."""

import json

import pytest

from tests.support.cli_cluster import fail, invoke, succeed


@pytest.fixture
def group(topic):
    """A group that has read two of three records of the topic's first partition."""
    succeed("produce", topic, "--partition", 0, stdin="a\nb\nc\n")
    succeed("consume", topic, "--partition", 0, "--group", f"{topic}-g", "--max", 2)
    return f"{topic}-g"


def groups():
    return [row["group"] for row in json.loads(succeed("group", "list", "--json").stdout)]


def test_group_with_offsets_is_listed(group):
    assert group in groups()
    assert group in succeed("group", "list").stdout


def test_description_shows_the_lag(group, topic):
    found = json.loads(succeed("group", "describe", group, "--json").stdout)
    assert found["lag"] == 1
    (row,) = found["partitions"]
    assert (row["topic"], row["partition"], row["offset"], row["log_end_offset"]) == (topic, 0, 2, 3)
    assert topic in succeed("group", "describe", group).stdout


def test_deleted_group_is_forgotten(group):
    succeed("group", "delete", group, "--yes")
    assert group not in groups()


def test_deletion_is_asked_about(group):
    refused = invoke("group", "delete", group, stdin="n\n")
    assert refused.exit_code == 1
    assert f"Delete group {group} with its offsets in 1 partition?" in refused.stderr
    assert group in groups()
    assert f"deleted group {group}" in succeed("group", "delete", group, stdin="y\n").stderr
    assert group not in groups()


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("command", ["describe", "delete"])
def test_unknown_group_says_so(command):
    assert "there is no group 'nobody'" in fail("group", command, "nobody")
