"""librdkafka's admin client."""

import time

import pytest
from confluent_kafka import ConsumerGroupState, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import ConsumerGroupTopicPartitions as GroupOffsets
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.compat.clients.librdkafka import SECONDS, consuming, plain_producer, read_count, read_to_end, values
from tests.support.clusters import fresh, until

# Recent enough that no retention takes the records away.
BEGAN_MS = int(time.time() * 1000) - 60_000


def only(futures):
    """The result of a request for one thing."""
    (future,) = futures.values()
    return future.result(SECONDS)


def error_of(futures):
    with pytest.raises(KafkaException) as raised:
        only(futures)
    return raised.value.args[0].code()


def fill(bootstrap_servers, topic, count):
    producer = plain_producer(bootstrap_servers)
    for number in range(count):
        producer.produce(topic, b"%d" % number, timestamp=BEGAN_MS + number, partition=0)
    assert producer.flush(20) == 0


def test_topics_come_and_go(admin):
    topic = fresh("admin")
    only(admin.create_topics([NewTopic(topic, 2, 1)], operation_timeout=SECONDS))
    described = only(admin.describe_topics(TopicCollection([topic])))
    assert [partition.id for partition in described.partitions] == [0, 1]
    assert all(partition.leader.id == partition.isr[0].id for partition in described.partitions)
    assert str(described.topic_id) != "AAAAAAAAAAAAAAAAAAAAAA"
    only(admin.create_partitions([NewPartitions(topic, 5)], operation_timeout=SECONDS))
    until(lambda: len(admin.list_topics(timeout=SECONDS).topics[topic].partitions) == 5, "five partitions")
    only(admin.delete_topics([topic], operation_timeout=SECONDS))
    until(lambda: topic not in admin.list_topics(timeout=SECONDS).topics, "the topic is gone")


def test_refusals(admin, make_topic):
    topic = make_topic("refusals", partitions=2)
    assert error_of(admin.create_topics([NewTopic(topic, 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    assert error_of(admin.create_topics([NewTopic("no/slash", 1, 1)])) == KafkaError.TOPIC_EXCEPTION
    assert error_of(admin.create_topics([NewTopic(fresh("none"), 0, 1)])) == KafkaError.INVALID_PARTITIONS
    assert error_of(admin.create_topics([NewTopic(fresh("many"), 1, 30)])) == KafkaError.INVALID_REPLICATION_FACTOR
    wrong = NewTopic(fresh("wrong"), 1, 1, config={"retention.ms": "soon"})
    assert error_of(admin.create_topics([wrong])) == KafkaError.INVALID_CONFIG
    assert error_of(admin.create_partitions([NewPartitions(topic, 1)])) == KafkaError.INVALID_PARTITIONS
    assert error_of(admin.delete_topics([fresh("nowhere")])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_that_is_only_checked_is_not_made(admin):
    topic = fresh("checked")
    only(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=SECONDS).topics


def test_configs(admin, make_topic):
    topic = make_topic("configs", retention_ms="60000")
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def current():
        return {name: entry.value for name, entry in only(admin.describe_configs([resource])).items()}

    assert current()["retention.ms"] == "60000"
    change = [
        ConfigEntry("retention.ms", "120000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=change)]))
    until(lambda: current()["retention.ms"] == "120000", "the setting has changed")
    assert set(current()["cleanup.policy"].split(",")) == {"delete", "compact"}
    back = [ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)]
    only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=back)]))
    until(lambda: current()["retention.ms"] == "604800000", "the setting is the default again")


def test_cluster(admin):
    cluster = admin.describe_cluster(request_timeout=SECONDS).result(SECONDS)
    assert cluster.cluster_id
    assert cluster.controller.id in {node.id for node in cluster.nodes}


def test_list_offsets(admin, bootstrap_servers, history, make_topic):
    topic = make_topic("offsets")
    fill(bootstrap_servers, topic, 10)
    partition = Partition(topic, 0)

    def offset(spec, where=partition, **options):
        return only(admin.list_offsets({where: spec}, **options)).offset

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 10
    assert offset(OffsetSpec.for_timestamp(BEGAN_MS + 4)) == 4
    assert offset(OffsetSpec.max_timestamp()) == 9
    # The end that a reader of committed records may see is the beginning of the open transaction.
    where = Partition(history.topic, 0)
    committed_end = offset(OffsetSpec.latest(), where, isolation_level=IsolationLevel.READ_COMMITTED)
    assert committed_end < offset(OffsetSpec.latest(), where)


def test_delete_records(admin, bootstrap_servers, make_topic):
    topic = make_topic("deleted")
    fill(bootstrap_servers, topic, 10)
    assert only(admin.delete_records([Partition(topic, 0, 6)])).low_watermark == 6
    with consuming(bootstrap_servers, fresh("reader")) as consumer:
        assert consumer.get_watermark_offsets(Partition(topic, 0), SECONDS) == (6, 10)
        assert values(read_to_end(consumer, topic)) == [b"6", b"7", b"8", b"9"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups(admin, bootstrap_servers, make_topic, protocol):
    topic, group = make_topic("groups"), fresh("group")
    fill(bootstrap_servers, topic, 3)
    with consuming(bootstrap_servers, group, group_protocol=protocol, client_id="me") as consumer:
        consumer.subscribe([topic])
        read_count(consumer, 3)
        consumer.commit(asynchronous=False)
        listed = admin.list_consumer_groups(request_timeout=SECONDS).result(SECONDS).valid
        assert group in {each.group_id for each in listed}
        described = only(admin.describe_consumer_groups([group], request_timeout=SECONDS))
        (member,) = described.members
        assert described.state == ConsumerGroupState.STABLE
        assert (member.client_id, member.assignment.topic_partitions) == ("me", [Partition(topic, 0)])
        assert error_of(admin.delete_consumer_groups([group])) == KafkaError.NON_EMPTY_GROUP
    until(lambda: state(admin, group) == ConsumerGroupState.EMPTY, "the group is empty")
    assert offsets(admin, group) == {(topic, 0): 3}
    only(admin.alter_consumer_group_offsets([GroupOffsets(group, [Partition(topic, 0, 1)])]))
    assert offsets(admin, group) == {(topic, 0): 1}
    only(admin.delete_consumer_groups([group], request_timeout=SECONDS))
    listed = admin.list_consumer_groups(request_timeout=SECONDS).result(SECONDS).valid
    assert group not in {each.group_id for each in listed}


def state(admin, group):
    return only(admin.describe_consumer_groups([group], request_timeout=SECONDS)).state


def offsets(admin, group):
    found = only(admin.list_consumer_group_offsets([GroupOffsets(group)], request_timeout=SECONDS))
    return {(each.topic, each.partition): each.offset for each in found.topic_partitions}
