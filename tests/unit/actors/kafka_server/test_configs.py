"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs on the wire."""

import pytest

from eagleray.actors.common.settings import CLUSTER_KEYS
from eagleray.actors.kafka_server.config_resources import ResourceType
from eagleray.broker.controller.events import AlterTopicConfigs
from eagleray.broker.metadata.topic_configs import TOPIC_CONFIG_KEYS
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import alter_configs as alter
from eagleray.protocol.messages import incremental_alter_configs as incremental
from eagleray.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.support.cluster_in_memory import LEADER_A, entered
from tests.support.kafka_requests import KafkaCluster
from tests.support.lanes_in_memory import Fate

pytestmark = pytest.mark.usefixtures("virtual_time")

TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
SET, DELETE, APPEND, SUBTRACT = range(4)


async def describe(kind, name, *, keys=None, version=-1, settings=None, **options):
    """Describe one resource; the topic orders keeps records for a second."""
    async with entered(KafkaCluster, settings=settings) as world:
        await world.ask_node_for(0, AlterTopicConfigs, "orders", {"retention.ms": "1000"})
        request = DescribeConfigsRequest((DescribeConfigsResource(kind, name, keys),), **options)
        response = await world.request(request, version=version)
    (result,) = response.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_setting_of_a_topic_is_described(version):
    result = await describe(TOPIC, "orders", version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert {config.name for config in result.configs} == TOPIC_CONFIG_KEYS
    configs = {config.name: config for config in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
    assert (configs["segment.ms"].value, configs["segment.ms"].config_source) == ("604800000", 5)
    assert not any(config.read_only or config.is_sensitive or config.synonyms for config in result.configs)


@pytest.mark.parametrize("keys", [("retention.ms", "flush"), ("retention.ms", "flush", "nonsense")])
async def test_only_the_settings_that_were_asked_for_are_described(keys):
    assert {config.name for config in (await describe(TOPIC, "orders", keys=keys)).configs} == {"retention.ms", "flush"}


async def test_synonyms_say_who_has_given_a_value_in_order():
    options = {"include_synonyms": True, "settings": {"retention.ms": "77", "segment.ms": "88"}}
    result = await describe(TOPIC, "orders", keys=("retention.ms", "segment.ms", "flush"), **options)
    synonyms = {config.name: [(each.value, each.source) for each in config.synonyms] for config in result.configs}
    assert synonyms == {
        "retention.ms": [("1000", 1), ("77", 4), ("604800000", 5)],
        "segment.ms": [("88", 4), ("604800000", 5)],
        "flush": [("os", 5)],
    }
    assert {config.name: config.config_source for config in result.configs}["segment.ms"] == 4


async def test_types_and_documentation_are_told_to_whom_they_are_of_use():
    result = await describe(TOPIC, "orders", include_documentation=True)
    types = {config.name: config.config_type for config in result.configs}
    boolean, string, integer, long, double, text_list = 1, 2, 3, 5, 6, 7
    assert types["unclean.leader.election.enable"] == boolean
    assert types["compression.type"] == string
    assert types["segment.bytes"] == integer
    assert types["retention.ms"] == types["max.compaction.lag.ms"] == long
    assert types["min.cleanable.dirty.ratio"] == double
    assert types["cleanup.policy"] == text_list
    assert all(config.documentation for config in result.configs)
    assert not any(config.documentation for config in (await describe(TOPIC, "orders")).configs)


async def test_a_node_has_the_settings_of_the_cluster_and_none_can_be_changed():
    result = await describe(BROKER, str(LEADER_A), settings={"retention.ms": "77"})
    configs = {config.name: config for config in result.configs}
    assert configs.keys() > CLUSTER_KEYS
    assert all(config.read_only for config in result.configs)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("77", 4)
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == ("1", 5)
    assert (configs["broker.id"].value, configs["broker.id"].config_source) == (str(LEADER_A), 4)
    assert configs["advertised.listeners"].value == f"PLAINTEXT://localhost:{9000 + LEADER_A}"
    assert configs["default.replication.factor"].value == "1"
    assert (configs["group.consumer.assignors"].value, configs["group.consumer.assignors"].config_type) == (
        "uniform,range",
        7,
    )


async def test_nothing_is_set_for_all_nodes_while_they_run():
    result = await describe(BROKER, "")
    assert (result.error_code, result.configs) == (ErrorCode.NONE, ())


async def test_a_group_has_no_settings_of_its_own():
    result = await describe(GROUP, "audit", settings={"group.consumer.heartbeat.interval.ms": "6000"})
    assert result.error_code == ErrorCode.NONE
    assert all(config.read_only for config in result.configs)
    assert {config.name: config.value for config in result.configs} == {
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.session.timeout.ms": "45000",
    }


@pytest.mark.parametrize(
    ("kind", "name", "error_code"),
    [
        (TOPIC, "nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "99", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        pytest.param(BROKER, "9" * 5000, ErrorCode.INVALID_REQUEST, id="many digits"),
        (GROUP, "", ErrorCode.INVALID_GROUP_ID),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "x", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_resource_without_settings_is_refused(kind, name, error_code):
    result = await describe(kind, name)
    assert result.error_code == error_code
    assert result.error_message
    assert not result.configs


# Changing


async def change(*resources, messages=incremental, version=-1, **options):
    """Change settings; return the codes, and those of the topic orders after it, which had one."""
    async with entered(KafkaCluster) as world:
        await world.ask_node_for(0, AlterTopicConfigs, "orders", {"retention.ms": "1000"})
        wanted = tuple(messages.AlterConfigsResource(kind, name, configs) for kind, name, configs in resources)
        kind = getattr(messages, "AlterConfigsRequest", None) or messages.IncrementalAlterConfigsRequest
        response = await world.request(kind(wanted, **options), version=version)
        for resource, result in zip(wanted, response.responses, strict=True):
            assert (result.resource_type, result.resource_name) == (resource.resource_type, resource.resource_name)
            assert bool(result.error_message) == (result.error_code != ErrorCode.NONE)
        return [result.error_code for result in response.responses], world.image.topics["orders"].configs


async def replace(*resources, **options):
    return await change(*resources, messages=alter, **options)


def operations(*changes):
    return tuple(incremental.AlterableConfig(name, operation, value) for name, operation, value in changes)


def values(**configs):
    return tuple(alter.AlterableConfig(key.replace("_", "."), value) for key, value in configs.items())


@pytest.mark.parametrize("version", range(3))
async def test_settings_that_are_not_named_go_back_to_their_defaults(version):
    codes, configs = await replace((TOPIC, "orders", values(segment_ms="5")), version=version)
    assert codes == [ErrorCode.NONE]
    assert configs == {"segment.ms": "5"}


async def test_settings_are_replaced_only_for_good():
    codes, configs = await replace((TOPIC, "orders", values(segment_ms="5")), validate_only=True)
    assert codes == [ErrorCode.NONE]
    assert configs == {"retention.ms": "1000"}


@pytest.mark.parametrize(
    ("settings", "error_code"),
    [
        (values(segment_ms="x"), ErrorCode.INVALID_CONFIG),
        (values(nonsense="x"), ErrorCode.INVALID_CONFIG),
        (values(segment_ms=None), ErrorCode.INVALID_REQUEST),
        (values(segment_ms="5") * 2, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_wrong_settings_replace_none(settings, error_code):
    codes, configs = await replace((TOPIC, "orders", settings))
    assert codes == [error_code]
    assert configs == {"retention.ms": "1000"}


@pytest.mark.parametrize("version", range(2))
async def test_single_settings_are_set_and_taken_back(version):
    changes = operations(
        ("segment.ms", SET, "5"), ("retention.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")
    )
    codes, configs = await change((TOPIC, "orders", changes), version=version)
    assert codes == [ErrorCode.NONE]
    assert configs == {"segment.ms": "5", "cleanup.policy": "delete,compact"}


async def test_limits_of_moves_may_be_taken_back_though_there_are_none():
    rate, replicas = "leader.replication.throttled.rate", "follower.replication.throttled.replicas"
    taken_back = operations((rate, DELETE, None), (replicas, DELETE, None))
    codes, configs = await change(
        (BROKER, "3", taken_back),
        (TOPIC, "orders", (*taken_back, *operations(("segment.ms", SET, "5")))),
        (BROKER, "4", (*taken_back, *operations(("segment.ms", DELETE, None)))),
        (BROKER, "2", operations((rate, SET, "1000"))),
        (TOPIC, "invoices", operations((replicas, SET, "0:1"))),
        (TOPIC, "nothing", taken_back),
    )
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert configs == {"retention.ms": "1000", "segment.ms": "5"}


async def test_validation_alone_changes_nothing():
    codes, configs = await change((TOPIC, "orders", operations(("segment.ms", SET, "5"))), validate_only=True)
    assert codes == [ErrorCode.NONE]
    assert configs == {"retention.ms": "1000"}


@pytest.mark.parametrize(
    ("changes", "error_code"),
    [
        ([("segment.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", SUBTRACT, "delete")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ([("nonsense", DELETE, None)], ErrorCode.INVALID_CONFIG),
        ([("segment.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("segment.ms", 4, "5")], ErrorCode.INVALID_REQUEST),
        ([("segment.ms", SET, "5"), ("segment.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_one_wrong_change_and_none_is_made(changes, error_code):
    codes, configs = await change((TOPIC, "orders", operations(("flush", SET, "commit"), *changes)))
    assert codes == [error_code]
    assert configs == {"retention.ms": "1000"}


@pytest.mark.parametrize("alters", [change, replace])
@pytest.mark.parametrize(
    ("kind", "name", "error_code"),
    [
        (TOPIC, "nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "__consumer_offsets", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (GROUP, "audit", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_setting_that_cannot_be_changed_is_refused_beside_one_that_can(alters, kind, name, error_code):
    codes, _ = await alters((kind, name, ()), (TOPIC, "invoices", ()))
    assert codes == [error_code, ErrorCode.NONE]


@pytest.mark.parametrize("alters", [change, replace])
async def test_a_topic_that_is_named_twice_is_not_changed(alters):
    codes, configs = await alters((TOPIC, "orders", ()), (TOPIC, "orders", ()))
    assert codes == [ErrorCode.INVALID_REQUEST] * 2
    assert configs == {"retention.ms": "1000"}


async def test_a_change_without_an_answer_is_a_timeout(world):
    world.network.plan(AlterTopicConfigs, Fate.REPLY_LOST)
    resource = incremental.AlterConfigsResource(TOPIC, "orders", operations(("segment.ms", SET, "5")))
    request = incremental.IncrementalAlterConfigsRequest((resource,))
    response = await world.request(request)
    assert response.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
