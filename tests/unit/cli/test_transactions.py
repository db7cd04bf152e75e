"""`eagleray txn`."""

import json

import pytest

from eagleray.broker.identities import TopicPartition
from tests.support.cli_cluster import fail, succeed


@pytest.fixture
def open_id(cluster, topic):
    """A transactional id with a transaction open in the first partition of the topic."""

    async def leave_open(session):
        producer = session.cluster.producer(transactional_id=f"{topic}-id", transaction_timeout_ms=600_000)
        await producer.init()
        producer.begin()
        await producer.send_and_wait(topic, b"undecided", partition=0)

    cluster.run(leave_open)
    return f"{topic}-id"


def listed(*options):
    return {row["transactional_id"]: row for row in json.loads(succeed("txn", "list", *options, "--json").stdout)}


def blocking(topic):
    return json.loads(succeed("txn", "blocking", topic, "--json").stdout)


def test_open_transaction_is_listed_with_its_partitions(open_id, topic):
    found = listed()[open_id]
    assert found["state"] == "Ongoing"
    assert found["partitions"] == [{"topic": topic, "partition": 0}]
    assert found["timeout_ms"] == 600_000
    assert open_id in succeed("txn", "list").stdout


def test_list_is_narrowed_by_state_and_age(open_id, topic):
    succeed("produce", topic, "--transactional-id", "done", stdin="a\n")
    assert open_id in listed("--state", "ongoing")
    assert "done" not in listed("--state", "Ongoing")
    assert open_id not in listed("--state", "CompleteCommit", "--state", "CompleteAbort")
    assert open_id not in listed("--older-than", 3600)
    assert open_id in listed("--older-than", 0)


@pytest.mark.usefixtures("cluster")
def test_unknown_state_says_which_there_are():
    assert "PrepareCommit" in fail("txn", "list", "--state", "Dancing")


def test_description_says_how_to_end_it(open_id, topic):
    result = succeed("txn", "describe", open_id)
    assert f"{topic}-0" in result.stdout
    assert f"eagleray txn abort {open_id}" in result.stderr
    assert json.loads(succeed("txn", "describe", open_id, "--json").stdout)["state"] == "Ongoing"


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("command", ["describe", "abort"])
def test_unknown_transactional_id_says_so(command):
    line = fail("txn", command, "nobody")
    assert "'nobody'" in line
    assert "knows no such transactional id" in line


def test_abort_ends_the_transaction_and_lets_readers_go_on(open_id, topic):
    succeed("produce", topic, "--partition", 0, stdin="behind it\n")
    assert succeed("consume", topic, "--partition", 0, "--timeout", 0.5).stdout == ""
    assert "aborted its transaction" in succeed("txn", "abort", open_id).stderr
    assert succeed("consume", topic, "--partition", 0, "--max", 1).stdout == "behind it\n"
    assert listed()[open_id]["state"] in ("Empty", "PrepareAbort", "CompleteAbort")


def test_aborting_nothing_says_so(topic, cluster):
    succeed("produce", topic, "--transactional-id", f"{topic}-id", stdin="a\n")
    assert "nothing was open" in succeed("txn", "abort", f"{topic}-id").stderr


def test_what_holds_readers_back_is_shown_with_its_owner(open_id, topic):
    (found,) = blocking(topic)
    assert found["transactional_id"] == open_id
    assert (found["partition"], found["open_since_offset"]) == (0, 0)
    assert found["end_with"] == f"eagleray txn abort {open_id}"
    assert open_id in succeed("txn", "blocking", topic).stdout


def test_nothing_is_held_back_when_all_is_decided(topic, cluster):
    succeed("produce", topic, "--transactional-id", f"{topic}-id", stdin="a\n")
    assert blocking(topic) == []
    assert "nothing is held back" in succeed("txn", "blocking", topic).stderr


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("command", ["blocking", "find-hanging"])
def test_unknown_topic_says_so(command):
    assert "there is no topic 'nowhere'" in fail("txn", command, "nowhere")


# Transactions that nobody will end

ORPHAN = 987_654


@pytest.fixture
def hanging(cluster, topic):
    """A record in the second partition of a transaction that no coordinator knows."""
    cluster.leave_hanging(TopicPartition(topic, 1), ORPHAN)
    return topic


def test_transaction_that_nobody_knows_is_found(hanging):
    (found,) = json.loads(succeed("txn", "find-hanging", hanging, "--older-than", 0, "--json").stdout)
    assert (found["partition"], found["producer_id"]) == (1, ORPHAN)
    assert found["end_with"] == f"eagleray txn abort-hanging {hanging} 1 {ORPHAN}"
    assert found["end_with"] in succeed("txn", "find-hanging", hanging, "--older-than", 0).stdout
    assert [row["state"] for row in blocking(hanging)] == ["hanging"]


def test_young_transaction_is_not_yet_said_to_hang(hanging):
    assert json.loads(succeed("txn", "find-hanging", hanging, "--json").stdout) == []


def test_hanging_transaction_is_ended_by_one_command(hanging):
    succeed("txn", "abort-hanging", hanging, 1, ORPHAN)
    assert blocking(hanging) == []


def test_transaction_with_an_owner_is_not_ended_as_hanging(open_id, topic):
    (found,) = blocking(topic)
    line = fail("txn", "abort-hanging", topic, 0, found["producer_id"])
    assert f"eagleray txn abort {open_id}" in line
    assert listed()[open_id]["state"] == "Ongoing"


def test_producer_with_nothing_open_says_so(topic):
    assert "has nothing open" in fail("txn", "abort-hanging", topic, 0, 1)


def test_only_the_named_transaction_is_ended(hanging):
    fail("txn", "abort-hanging", hanging, 1, ORPHAN + 1)
    assert [row["producer_id"] for row in blocking(hanging)] == [ORPHAN]
