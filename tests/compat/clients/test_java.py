"""Apache Kafka's own Java clients: transactions of version 2, both group protocols, Admin."""

import pytest

from tests.compat.java.java_client import JavaError
from tests.support.clusters import fresh, until

SECONDS = 120


@pytest.fixture
def producing(java):
    """Open producers; they are closed with the test."""
    names = []

    def open_producer(**config):
        name = fresh("producer")
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        java.do("open_producer", name=name, config=dotted)
        names.append(name)
        return name

    yield open_producer
    for name in names:
        java.do("close_producer", name=name)


@pytest.fixture
def consuming(java):
    """Open consumers; those that are still open are closed with the test."""
    names = set()

    def open_consumer(topic, **config):
        name = fresh("consumer")
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        java.do("open_consumer", name=name, topic=topic, config=dotted)
        names.add(name)
        return name

    def close(name):
        names.remove(name)
        java.do("close_consumer", name=name)

    open_consumer.close = close
    yield open_consumer
    for name in list(names):
        close(name)


def committed_values(java, consuming, topic):
    name = consuming(topic, isolation_level="read_committed")
    return java.do("read_to_end", name=name)


def read_count(java, consumer, count):
    found = []
    until(lambda: found.extend(java.do("poll", name=consumer, ms=100)) or len(found) >= count, "the records", SECONDS)
    return found


def test_plain_and_idempotent_producers(java, producing, consuming, make_topic):
    topic = make_topic("produced")
    plain, idempotent = producing(enable_idempotence="false", acks="1"), producing()
    assert java.do("send", name=plain, topic=topic, values=["0", "1"]) == [0, 1]
    assert java.do("send", name=idempotent, topic=topic, values=["2", "3"]) == [2, 3]
    assert committed_values(java, consuming, topic) == ["0", "1", "2", "3"]


def test_transactions_of_version_two(java, producing, consuming, make_topic):
    topic, transactional_id = make_topic("transactions"), fresh("id")
    assert java.do("finalized_features")["transaction.version"] == 2
    producer = producing(transactional_id=transactional_id)
    epochs = []
    for number in range(4):
        java.do("begin", name=producer)
        java.do("send", name=producer, topic=topic, values=[f"{number}"])
        java.do("abort" if number % 2 else "commit", name=producer)
        epochs.append(java.do("describe_transaction", transactional_id=transactional_id)["epoch"])
    # Each transaction ends with a new epoch: this is what version 2 is about.
    assert sorted(set(epochs)) == epochs
    assert committed_values(java, consuming, topic) == ["0", "2"]


def test_read_committed_stops_at_the_last_stable_offset(java, consuming, history):
    everything = consuming(history.topic, isolation_level="read_uncommitted")
    assert java.do("read_to_end", name=everything) == [value.decode() for value in history.everything]
    committed = consuming(history.topic, isolation_level="read_committed")
    assert java.do("read_to_end", name=committed) == [value.decode() for value in history.stable]
    history.finish()
    assert read_count(java, committed, 2) == [value.decode() for value in history.rest]


def test_the_older_of_two_producers_is_fenced(java, producing, consuming, make_topic):
    topic, transactional_id = make_topic("fenced"), fresh("id")
    older = producing(transactional_id=transactional_id)
    java.do("begin", name=older)
    java.do("send", name=older, topic=topic, values=["older"])
    newer = producing(transactional_id=transactional_id)
    java.do("begin", name=newer)
    java.do("send", name=newer, topic=topic, values=["newer"])
    java.do("commit", name=newer)
    with pytest.raises(JavaError) as raised:
        java.do("commit", name=older)
    assert raised.value.name in {"ProducerFencedException", "InvalidProducerEpochException"}
    assert committed_values(java, consuming, topic) == ["newer"]


def test_a_fenced_producer_that_produces(java, producing, make_topic):
    topic, transactional_id = make_topic("fenced"), fresh("id")
    older = producing(transactional_id=transactional_id)
    java.do("fence_producers", transactional_id=transactional_id)
    java.do("begin", name=older)
    with pytest.raises(JavaError) as raised:
        java.do("send", name=older, topic=topic, values=["older"])
    assert raised.value.name in {"ProducerFencedException", "InvalidProducerEpochException"}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_in_transactions(java, producing, consuming, make_topic, protocol):
    source, target, group = make_topic("source"), make_topic("target"), fresh("group")
    java.do("send", name=producing(), topic=source, values=[f"{number}" for number in range(6)])
    worker = producing(transactional_id=fresh("id"))

    def transform(count, end):
        consumer = consuming(source, group_id=group, group_protocol=protocol, max_poll_records="3")
        values = read_count(java, consumer, 3)[:3]
        java.do("begin", name=worker)
        java.do("send", name=worker, topic=target, values=values)
        java.do("send_offsets", name=worker, topic=source, partition=0, offset=count, consumer=consumer)
        java.do(end, name=worker)
        consuming.close(consumer)
        return values

    assert transform(3, "abort") == ["0", "1", "2"]
    assert transform(3, "commit") == ["0", "1", "2"]
    assert transform(6, "commit") == ["3", "4", "5"]
    assert committed_values(java, consuming, target) == [f"{number}" for number in range(6)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group(java, consuming, make_topic, protocol):
    topic, group = make_topic("shared", partitions=4), fresh("group")
    config = {"group_id": group, "group_protocol": protocol}
    if protocol == "classic":
        config |= {"heartbeat_interval_ms": "200", "session_timeout_ms": "6000"}

    def owned(*consumers):
        for consumer in consumers:
            java.do("poll", name=consumer, ms=100)
        return sorted(partition for each in consumers for partition in java.do("assignment", name=each))

    staying = consuming(topic, **config)
    until(lambda: owned(staying) == [0, 1, 2, 3], "the first has all", SECONDS)
    leaving = consuming(topic, **config)
    until(
        lambda: owned(staying, leaving) == [0, 1, 2, 3] and len(java.do("assignment", name=leaving)) == 2,
        "two share",
        SECONDS,
    )
    described = java.do("describe_group", group=group)
    assert (described["state"], described["assigned"]) == ("Stable", [2, 2])
    assert described["type"].lower() == java.do("list_groups")[group].lower() == protocol
    java.do("commit_sync", name=staying)
    consuming.close(leaving)
    until(lambda: owned(staying) == [0, 1, 2, 3], "the first has all again", SECONDS)


def test_admin_of_transactions(java, producing, consuming, make_topic, is_kafka):
    topic, transactional_id = make_topic("hanging"), fresh("id")
    producer = producing(transactional_id=transactional_id)
    java.do("begin", name=producer)
    java.do("send", name=producer, topic=topic, values=["hanging"])
    assert java.do("list_transactions")[transactional_id] == "Ongoing"
    described = java.do("describe_transaction", transactional_id=transactional_id)
    assert (described["state"], described["partitions"]) == ("Ongoing", 1)
    (active,) = java.do("describe_producers", topic=topic)
    assert (active["producer_id"], active["open_from"]) == (described["producer_id"], 0)

    asked = {key: active[key] for key in ("producer_id", "epoch", "coordinator_epoch")}
    if is_kafka:
        java.do("abort_transaction", topic=topic, **asked)
    else:
        # Such an abort is for what no coordinator knows (test_hanging_transactions.py), and here a coordinator does.
        with pytest.raises(JavaError, match="ClusterAuthorizationException"):
            java.do("abort_transaction", topic=topic, **asked)
        java.do("abort", name=producer)
    until(lambda: java.do("describe_producers", topic=topic)[0]["open_from"] == -1, "it is aborted", SECONDS)
    java.do("send", name=producing(), topic=topic, values=["plain"])
    assert committed_values(java, consuming, topic) == ["plain"]


def test_admin(java):
    topic = fresh("administered")
    java.do("create_topic", topic=topic, partitions=3)
    until(lambda: describes(java, topic), "the topic is known", SECONDS)
    java.do("alter_config", topic=topic, key="retention.ms", value="60000")
    until(lambda: java.do("describe_config", topic=topic, key="retention.ms") == "60000", "it has changed", SECONDS)
    cluster = java.do("describe_cluster")
    assert cluster["controller"] in cluster["nodes"]
    with pytest.raises(JavaError) as raised:
        java.do("create_topic", topic=topic, partitions=3)
    assert raised.value.name == "TopicExistsException"
    java.do("delete_topic", topic=topic)
    until(lambda: not describes(java, topic), "the topic is gone", SECONDS)


def describes(java, topic):
    try:
        return java.do("describe_topic", topic=topic)["partitions"] == 3
    except JavaError as error:
        if error.name != "UnknownTopicOrPartitionException":
            raise
        return False
