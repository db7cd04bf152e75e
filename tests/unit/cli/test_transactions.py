"""`eagleray txn`."""

import json
import os

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.cli import transactions, watching
from eagleray.client.producer.resolver import Resolver
from tests.support.cli_cluster import fail, invoke, succeed


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


def test_commands_that_are_shown_quote_the_name_of_a_transaction(cluster, topic):
    name = f"{topic} of mine"

    async def leave_open(session):
        producer = session.cluster.producer(transactional_id=name, transaction_timeout_ms=600_000)
        await producer.init()
        producer.begin()
        await producer.send_and_wait(topic, b"undecided", partition=0)

    cluster.run(leave_open)
    assert f"eagleray txn abort '{name}'" in succeed("txn", "describe", name).stderr
    assert f"eagleray txn commit '{name}' --producer" in fail("txn", "commit", name)
    assert "aborted its transaction" in succeed("txn", "abort", name).stderr


# Pools


def leave_pool(cluster, topic, *, prepares=(), opens=()):
    """A pool of three slots whose program is gone, with transactions that it has left."""

    async def leave(session):
        pool = session.cluster.transactions(f"{topic}-pool", concurrency=3, transaction_timeout_ms=600_000)
        await pool.take_over()
        transactions = [await pool.begin().__aenter__() for _ in range(3)]
        for number, txn in enumerate(transactions):
            await txn.send(topic, b"slot %d" % number, partition=0)
            await txn.producer.flush()
            if number in prepares:
                await txn.prepare(context=b"order 42")
            elif number not in opens:
                await txn.commit()

    cluster.run(leave)
    return f"{topic}-pool"


def test_abort_of_a_pool_says_what_became_of_its_slots(cluster, topic):
    pool = leave_pool(cluster, topic, prepares=[1], opens=[0, 2])
    said = succeed("txn", "abort", pool).stderr
    assert f"{pool}: fenced the pool with its 3 slots; aborted 2 open transactions; " in said
    assert f"left prepared: {pool}.__slot-1; `eagleray txn describe ID` shows" in said
    assert "nothing was open" not in said
    assert [listed()[f"{pool}.__slot-{number}"]["state"] for number in (0, 2)] == ["CompleteAbort"] * 2
    again = succeed("txn", "abort", pool).stderr
    assert f"fenced the pool with its 3 slots; nothing was open in its slots; left prepared: {pool}.__slot-1" in again
    result = succeed("txn", "describe", f"{pool}.__slot-1").stderr
    command = result.split("if it has not, and will not: ")[1].split()[1:]
    assert succeed(*command).stderr.startswith(f"{pool}.__slot-1: aborted the transaction of producer")
    assert "nothing was open in its slots\n" in succeed("txn", "abort", pool).stderr
    assert read(topic) == ""


def test_abort_of_a_producer_that_has_taken_a_pool_over_says_both(cluster, topic):
    pool = leave_pool(cluster, topic)

    async def leave_open(session):
        producer = session.cluster.producer(transactional_id=pool, transaction_timeout_ms=600_000)
        await producer.init()
        producer.begin()
        await producer.send_and_wait(topic, b"undecided", partition=0)

    cluster.run(leave_open)
    said = succeed("txn", "abort", pool).stderr
    assert "fenced the pool with its 3 slots; aborted the transaction of its own name; nothing was open in its" in said
    assert read(topic) == "slot 0\nslot 1\nslot 2\n"


def test_abort_of_one_slot_leaves_the_others_alone(cluster, topic):
    pool = leave_pool(cluster, topic, opens=[0, 2])
    said = succeed("txn", "abort", f"{pool}.__slot-0").stderr
    assert f"{pool}.__slot-0: aborted its transaction, and its producer is fenced" in said
    assert listed()[f"{pool}.__slot-2"]["state"] == "Ongoing"
    assert "with its 3 slots; aborted 1 open transaction\n" in succeed("txn", "abort", pool).stderr
    assert read(topic) == "slot 1\n"


# Prepared transactions


@pytest.fixture
def prepared(cluster, topic):
    """A transaction that a producer has left prepared, and how --producer names it."""
    tokens = []

    async def leave_prepared(session):
        producer = session.cluster.producer(
            transactional_id=f"{topic}-id", transaction_two_phase_commit_enable=True, transaction_timeout_ms=600_000
        )
        async with producer:
            producer.begin()
            await producer.send(topic, b"undecided", partition=0)
            tokens.append(await producer.prepare(context=b"order 42"))

    cluster.run(leave_prepared)
    return f"{topic}-id", f"{tokens[0].producer.producer_id}:{tokens[0].producer.epoch}"


def read(topic):
    return succeed("consume", topic, "--partition", 0, "--timeout", 0.5).stdout


def test_prepared_transaction_is_shown_with_its_context_and_how_to_end_it(prepared):
    name, producer = prepared
    result = succeed("txn", "describe", name)
    assert "order 42" in result.stdout
    assert f"eagleray txn commit {name} --producer {producer}" in result.stderr
    assert f"eagleray txn abort {name} --producer {producer}" in result.stderr
    found = listed()[name]
    assert (found["state"], found["context"]) == ("Ongoing", "order 42")
    assert found["prepared_ms"] >= found["start_ms"]
    assert "order 42" in succeed("txn", "list", "--state", "ongoing").stdout


def test_resolver_is_shown_with_its_questions_and_when_it_is_asked_next(cluster, topic):
    actor = Resolver.actor("orders", namespace="shop", first_after_ms=3_600_000)

    async def leave_prepared(session):
        for name, resolver in (("actor", actor), ("topic", Resolver.topic("questions", exhausted="abort"))):
            async with session.cluster.producer(transactional_id=f"{topic}-{name}") as producer:
                producer.begin(resolver=resolver)
                await producer.send(topic, b"undecided", partition=0)
                await producer.prepare()

    cluster.run(leave_prepared)
    shown = succeed("txn", "describe", f"{topic}-actor").stdout
    assert "'resolve' of actor 'orders' in namespace 'shop'" in shown
    assert "in 59 min" in shown
    found = listed()[f"{topic}-actor"]
    assert (found["resolver"]["kind"], found["resolver"]["method"], found["questions"]) == ("actor", "resolve", 0)
    assert found["next_question_ms"] == found["prepared_ms"] + 3_600_000
    assert listed()[f"{topic}-topic"]["resolver"] == {
        "kind": "topic",
        "name": "questions",
        "first_after_ms": 60_000,
        "interval_ms": 60_000,
        "attempts": 15,
        "exhausted": "abort",
    }
    assert "next question" in succeed("txn", "list").stdout


def test_open_transaction_is_not_shown_as_prepared(open_id):
    assert listed()[open_id]["prepared_ms"] is None


@pytest.mark.parametrize("command", ["commit", "abort"])
def test_prepared_transaction_is_ended_by_its_producer_and_not_by_its_name(prepared, topic, command):
    name, producer = prepared
    line = fail("txn", command, name)
    assert "has been prepared for" in line
    assert f"eagleray txn {command} {name} --producer {producer}`" in line
    for _ in range(2):
        assert f"the transaction of producer {producer}" in succeed("txn", command, name, "--producer", producer).stderr
    assert read(topic) == ("undecided\n" if command == "commit" else "")
    another = {"commit": "abort", "abort": "commit"}[command]
    assert "before and cannot be" in fail("txn", another, name, "--producer", producer)


def test_open_transaction_is_committed_as_it_is_only_where_that_is_asked_for(open_id, topic):
    producer = ":".join(str(listed()[open_id][field]) for field in ("producer_id", "epoch"))
    for arguments in (("commit", open_id), ("commit", open_id, "--producer", producer)):
        line = fail("txn", *arguments)
        assert "records of it may be missing" in line
        assert f"eagleray txn commit {open_id} --producer {producer} --unprepared" in line
    assert "--unprepared needs --producer" in fail("txn", "commit", open_id, "--unprepared")
    succeed("txn", "commit", open_id, "--producer", producer, "--unprepared")
    assert read(topic) == "undecided\n"


def test_open_transaction_with_many_writers_is_never_committed_as_it_is(cluster, topic):
    name = f"{topic}-id"

    async def begin(session):
        transaction = await session.cluster.begin(name, tag="one", timeout_ms=600_000)
        async with await session.cluster.join(transaction.branch()) as writer:
            await writer.send_and_wait(topic, b"undecided", partition=0)

    cluster.run(begin)
    producer = ":".join(str(listed()[name][field]) for field in ("producer_id", "epoch"))
    assert "can only be aborted" in fail("txn", "commit", name, "--producer", producer, "--unprepared")
    succeed("txn", "abort", name, "--producer", producer, "--unprepared")
    assert read(topic) == ""


def test_committing_nothing_says_so(topic, cluster):
    succeed("produce", topic, "--transactional-id", f"{topic}-id", stdin="a\n")
    assert "has no open transaction (" in fail("txn", "commit", f"{topic}-id")
    found = listed()[f"{topic}-id"]
    assert "has nothing open" in fail(
        "txn", "commit", f"{topic}-id", "--producer", f"{found['producer_id']}:{found['epoch']}"
    )
    assert "no transaction that is open or remembered" in fail("txn", "commit", f"{topic}-id", "--producer", "99:0")


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("producer", ["42", "42:", "a:b", "42:40000", "-1:0"])
def test_producer_that_is_none_says_what_was_expected(producer):
    assert "expected PRODUCER-ID:EPOCH" in fail("txn", "commit", "billing-1", f"--producer={producer}")


def test_blocking_transaction_is_shown_with_its_owner(open_id, topic):
    (found,) = blocking(topic)
    assert found["transactional_id"] == open_id
    assert (found["partition"], found["open_since_offset"]) == (0, 0)
    assert found["end_with"] == f"eagleray txn abort {open_id}"
    assert open_id in succeed("txn", "blocking", topic).stdout


def test_nothing_is_held_back_when_all_is_decided(topic, cluster):
    succeed("produce", topic, "--transactional-id", f"{topic}-id", stdin="a\n")
    assert blocking(topic) == []
    assert "nothing is held back" in succeed("txn", "blocking", topic).stderr


def test_blocking_transaction_is_shown_with_its_origin(open_id, topic):
    (found,) = blocking(topic)
    assert (found["client_address"], found["client_id"]) == ("127.0.0.1", f"eagleray-{os.getpid()}")
    assert found["ends_by_ms"] == found["started_ms"] + 600_000
    line = succeed("txn", "blocking", topic).stdout
    assert f"127.0.0.1, client eagleray-{os.getpid()}" in line
    assert "9 min" in line
    description = json.loads(succeed("txn", "describe", open_id, "--json").stdout)
    assert description["origin"]["client_address"] == "127.0.0.1"


@pytest.mark.usefixtures("open_id")
def test_one_partition_is_asked_about(topic):
    assert len(json.loads(succeed("txn", "blocking", topic, "--partition", 0, "--json").stdout)) == 1
    assert json.loads(succeed("txn", "blocking", topic, "--partition", 1, "--json").stdout) == []
    assert "expected one topic" in fail("txn", "blocking", "--partition", 1)
    assert "--partition is 7" in fail("txn", "blocking", topic, "--partition", 7)


def test_group_is_asked_about(open_id, topic, cluster):
    async def commit(session):
        await session.cluster.admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 0})

    cluster.run(commit)
    (found,) = json.loads(succeed("txn", "blocking", "--group", topic, "--json").stdout)
    assert found["transactional_id"] == open_id
    assert "the one or the other" in fail("txn", "blocking", topic, "--group", topic)
    assert "there is no group 'nobody'" in fail("txn", "blocking", "--group", "nobody")


@pytest.mark.parametrize("options", [("--watch",), ("--watch", "0.2"), ("--watch", "--json")])
def test_watch_shows_it_until_it_is_interrupted(open_id, topic, monkeypatch, options):
    shown = []

    def show(found, *, json):
        shown.append(found[0].transactional_id)
        if len(shown) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(transactions, "print_blocking", show)
    monkeypatch.setattr(watching, "_EVERY_S", "0.1")
    invoke("txn", "blocking", *options, topic)
    assert shown == [open_id, open_id]


@pytest.mark.usefixtures("cluster")
def test_watch_is_refused_a_time_that_is_none(topic):
    refused = invoke("txn", "blocking", topic, "--watch", "0")
    assert refused.exit_code == 2
    assert "Invalid value for '--watch'" in refused.stderr


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


def test_transaction_that_no_coordinator_knows_is_found(hanging):
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
