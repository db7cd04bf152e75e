"""Options of a source: what they mean, which come first, and what is said about those that cannot be followed."""

import pickle

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.options import OptionError, SourceOptions, wants_headers
from eagleray.pipelines.options.positions import Earliest, GlobalTimestamp, Latest, PartitionTimestamps, SpecificOffsets
from eagleray.pipelines.options.topics import Assign, Subscribe, SubscribePattern

FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)


def batch(**options: str) -> SourceOptions:
    return SourceOptions.parse({"subscribe": "orders", **options}, streaming=False)


def streaming(**options: str) -> SourceOptions:
    return SourceOptions.parse({"subscribe": "orders", **options}, streaming=True)


def test_defaults_of_a_batch():
    assert batch() == SourceOptions(
        streaming=False,
        selection=Subscribe(("orders",)),
        start=Earliest(),
        end=Latest(),
        on_no_match="error",
        max_offsets_per_trigger=None,
        min_offsets_per_trigger=None,
        max_trigger_delay_ms=900_000,
        min_partitions=None,
        max_records_per_partition=None,
        fail_on_data_loss=True,
        include_headers=False,
        isolation="read_committed",
        cluster="default",
        address="auto",
        contact=None,
    )


def test_a_stream_starts_at_the_latest():
    assert streaming().start == Latest()
    assert streaming(startingOffsets="earliest").start == Earliest()


def test_options_travel():
    options = streaming(startingOffsets='{"orders": {"0": 23, "1": -2}}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_matched_in_any_case():
    options = SourceOptions.parse({"SUBSCRIBE": "orders", "maxoffsetspertrigger": "10"}, streaming=True)
    assert options.max_offsets_per_trigger == 10


def test_an_error_has_the_documented_spelling():
    with pytest.raises(OptionError, match=r"^maxOffsetsPerTrigger is 'ten'.*a whole number.*such as '100000'"):
        SourceOptions.parse({"subscribe": "orders", "maxoffsetspertrigger": "ten"}, streaming=True)


@pytest.mark.parametrize("name", ["checkpointLocation", "path", "paths", "queryName"])
def test_options_that_spark_adds_are_let_through(name: str):
    assert SourceOptions.parse({"subscribe": "orders", name: "anything"}, streaming=True) == streaming()


# What to read


def test_subscribe_takes_each_topic_once():
    assert SourceOptions.parse({"subscribe": " a, b,,a "}, streaming=False).selection == Subscribe(("a", "b"))


def test_assign_takes_partitions():
    options = SourceOptions.parse({"assign": '{"orders": [1, 0, 1]}'}, streaming=False)
    assert options.selection == Assign((FIRST, SECOND))


def test_a_pattern_stays_a_text():
    assert SourceOptions.parse({"subscribePattern": "o.*"}, streaming=False).selection == SubscribePattern("o.*")


def test_without_topics_the_error_names_the_three_ways():
    with pytest.raises(OptionError, match=r"one of subscribe .* subscribePattern .* assign"):
        SourceOptions.parse({}, streaming=False)


def test_two_ways_to_name_topics_contradict_each_other():
    with pytest.raises(OptionError, match="subscribe and assign are both given"):
        batch(assign='{"orders": [0]}')


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("subscribe", " , ", "at least one topic"),
        ("subscribePattern", "", "not empty"),
        ("subscribePattern", "orders-(", "regular expression .*error"),
        ("assign", "orders", "JSON"),
        ("assign", "{}", "at least one partition"),
        ("assign", '{"orders": []}', "at least one partition"),
        ("assign", '{"orders": [-1]}', "JSON .*>= 0"),
        ("assign", '{"orders": 0}', "JSON .*array"),
    ],
)
def test_topics_that_cannot_be_read(name: str, value: str, said: str):
    with pytest.raises(OptionError, match=f"^{name} is .*{said}.*such as"):
        SourceOptions.parse({name: value}, streaming=False)


# Where to begin and to end


def test_offsets_of_partitions():
    options = batch(startingOffsets='{"orders":{"0":23,"1":-2}}', endingOffsets='{"orders":{"0":50,"1":-1}}')
    assert options.start == SpecificOffsets({FIRST: 23, SECOND: -2})
    assert options.end == SpecificOffsets({FIRST: 50, SECOND: -1})


def test_words_in_any_case():
    assert streaming(startingOffsets=" Earliest ").start == Earliest()


def test_one_time_goes_before_times_go_before_offsets():
    offsets = {"startingOffsets": '{"orders":{"0":1}}', "endingOffsets": '{"orders":{"0":2}}'}
    times = {"startingOffsetsByTimestamp": '{"orders":{"0":3}}', "endingOffsetsByTimestamp": '{"orders":{"0":4}}'}
    time = {"startingTimestamp": "5", "endingTimestamp": "6"}

    assert (batch(**offsets).start, batch(**offsets).end) == (SpecificOffsets({FIRST: 1}), SpecificOffsets({FIRST: 2}))
    options = batch(**offsets, **times)
    assert (options.start, options.end) == (PartitionTimestamps({FIRST: 3}), PartitionTimestamps({FIRST: 4}))
    options = batch(**offsets, **times, **time)
    assert (options.start, options.end) == (GlobalTimestamp(5), GlobalTimestamp(6))


def test_an_option_that_is_not_followed_may_name_a_place_but_not_nonsense():
    assert batch(startingTimestamp="5", startingOffsets="latest").start == GlobalTimestamp(5)
    with pytest.raises(OptionError, match=r"^startingOffsets is 'nonsense'"):
        batch(startingTimestamp="5", startingOffsets="nonsense")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "^startingOffsets is 'latest'.*cannot begin there.*'earliest'"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "^startingOffsets has -1, for latest, for orders-0"),
        ({"endingOffsets": "earliest"}, "^endingOffsets is 'earliest'.*cannot end there.*'latest'"),
        ({"endingOffsets": '{"orders":{"0":0,"1":-2}}'}, "^endingOffsets has -2, for earliest, for orders-1"),
    ],
)
def test_places_where_a_batch_cannot_begin_or_end(options: dict[str, str], said: str):
    with pytest.raises(OptionError, match=said):
        batch(**options)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("startingOffsets", "first", "earliest, latest or JSON"),
        ("startingOffsets", '{"orders":{"0":-3}}', "JSON"),
        ("startingOffsets", '{"orders":{"x":1}}', "JSON"),
        ("startingOffsets", '{"orders":{"0":1.5}}', "JSON"),
        ("startingOffsets", '{"orders":{"0":9223372036854775808}}', "JSON"),
        ("startingOffsets", '{"orders":{"0":1}', "JSON"),
        ("startingOffsets", "{}", "at least one partition"),
        ("endingOffsets", '{"orders":[1]}', "JSON"),
        ("startingTimestamp", "yesterday", "a whole number"),
        ("endingTimestamp", "-1", "a whole number"),
        ("startingOffsetsByTimestamp", '{"orders":{"0":-1}}', "JSON"),
        ("endingOffsetsByTimestamp", "latest", "JSON"),
    ],
)
def test_places_that_are_none(name: str, value: str, said: str):
    with pytest.raises(OptionError, match=f"^{name} is .*{said}.*such as"):
        batch(**{name: value})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"startingOffsets": '{"orders":{"0":2}}', "endingOffsets": '{"orders":{"0":1}}'},
            "startingOffsets has 2 for orders-0, which is after endingOffsets, 1",
        ),
        (
            {"startingOffsets": '{"orders":{"0":2}}', "endingOffsets": '{"orders":{"1":3}}'},
            "same partitions.*orders-0, orders-1",
        ),
        (
            {"startingOffsetsByTimestamp": '{"orders":{"0":2}}', "endingOffsetsByTimestamp": '{"orders":{"0":1}}'},
            "startingOffsetsByTimestamp has 2",
        ),
        (
            {"startingTimestamp": "2", "endingTimestamp": "1"},
            "startingTimestamp is 2, which is after endingTimestamp, 1",
        ),
    ],
)
def test_an_end_before_its_start(options: dict[str, str], said: str):
    with pytest.raises(OptionError, match=said):
        batch(**options)


def test_unknown_positions_are_not_compared():
    batch(startingOffsets='{"orders":{"0":2,"1":-2}}', endingOffsets='{"orders":{"0":-1,"1":0}}')


def test_the_strategy_needs_a_time():
    assert streaming(startingTimestamp="1", startingOffsetsByTimestampStrategy="LATEST").on_no_match == "latest"
    with pytest.raises(OptionError, match="without a time"):
        streaming(startingOffsetsByTimestampStrategy="latest")
    with pytest.raises(OptionError, match="error or latest"):
        streaming(startingTimestamp="1", startingOffsetsByTimestampStrategy="earliest")


# How much at once


def test_limits():
    options = streaming(maxOffsetsPerTrigger="20", minOffsetsPerTrigger="10", maxTriggerDelay="90s", minPartitions="3")
    assert options.max_offsets_per_trigger == 20
    assert options.min_offsets_per_trigger == 10
    assert options.max_trigger_delay_ms == 90_000
    assert options.min_partitions == 3


@pytest.mark.parametrize("name", ["minPartitions", "maxRecordsPerPartition"])
@pytest.mark.parametrize("value", ["0", "-1", "", "1.5", "1_000", "٣", "9223372036854775808"])
def test_numbers_that_are_none(name: str, value: str):
    with pytest.raises(OptionError, match=f"^{name} is .*a whole number from 1 to"):
        batch(**{name: value})


def test_limits_that_contradict_each_other():
    with pytest.raises(OptionError, match="minOffsetsPerTrigger is 20, which is above maxOffsetsPerTrigger, 10"):
        streaming(maxOffsetsPerTrigger="10", minOffsetsPerTrigger="20")
    with pytest.raises(OptionError, match="maxTriggerDelay is given without minOffsetsPerTrigger"):
        streaming(maxTriggerDelay="10s")


# What belongs elsewhere


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"])
def test_options_of_streams_in_a_batch(name: str):
    with pytest.raises(
        OptionError, match=rf"^{name} is an option of streaming queries \(readStream\).*batch query \(read\)"
    ):
        batch(**{name: "1"})


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_options_of_batches_in_a_stream(name: str):
    with pytest.raises(
        OptionError, match=rf"^{name} is an option of batch queries \(read\).*streaming query \(readStream\)"
    ):
        streaming(**{name: "latest"})


def test_an_option_of_the_sink():
    with pytest.raises(
        OptionError, match=r"^transactionTimeout is an option of the sink.*options of a batch source are"
    ):
        batch(transactiontimeout="1m")


def test_an_unknown_option_names_the_nearest_and_all():
    with pytest.raises(
        OptionError, match=r"^'startingOffset' .*Did you mean startingOffsets\?.* are subscribe, .*contact\."
    ):
        batch(startingOffset="earliest")
    with pytest.raises(OptionError, match=r"^'zzz' is not an option of the source. The options"):
        batch(zzz="1")


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("kafka.bootstrap.servers", "use cluster, address or contact"),
        ("kafka.auto.offset.reset", "use startingOffsets"),
        ("kafka.group.id", "the sink's option group"),
        ("kafka.fetch.max.bytes", "leave it out"),
        ("kafkaConsumer.pollTimeoutMs", "leave it out"),
        ("fetchOffset.numRetries", "leave it out"),
        ("groupIdPrefix", "the sink's option group"),
    ],
)
def test_options_of_the_kafka_connector_say_what_to_use(name: str, instead: str):
    with pytest.raises(OptionError, match=rf"^{name} is an option of Spark's Kafka connector.*{instead}"):
        batch(**{name: "1"})
    with pytest.raises(OptionError, match=rf"(?i)^{name} is an option of Spark's Kafka connector"):
        batch(**{name.lower(): "1"})


# The rest


def test_isolation_has_kafkas_name_too():
    assert batch(isolation="read_uncommitted") == batch(**{"kafka.isolation.level": "read_uncommitted"})
    with pytest.raises(OptionError, match=r"isolation and kafka.isolation.level are one option"):
        batch(isolation="read_committed", **{"kafka.isolation.level": "read_uncommitted"})
    with pytest.raises(OptionError, match=r"^isolation is 'serializable'.*read_committed or read_uncommitted"):
        batch(isolation="serializable")


def test_a_group_is_for_the_sink():
    with pytest.raises(OptionError, match=r"^group is an option of the sink"):
        streaming(group="g")


@pytest.mark.parametrize("name", ["failOnDataLoss", "includeHeaders"])
def test_booleans(name: str):
    assert batch(**{name: "TRUE"}) == batch(**{name: "true"}) != batch(**{name: "false"})
    with pytest.raises(OptionError, match=f"^{name} is 'yes', but has to be true or false"):
        batch(**{name: "yes"})


def test_headers_can_be_asked_for_before_the_kind_of_query_is_known():
    assert not wants_headers({"subscribe": "orders"})
    assert wants_headers({"includeheaders": "true", "maxOffsetsPerTrigger": "5", "endingOffsets": "latest"})
    with pytest.raises(OptionError, match=r"^includeHeaders is 'yes'"):
        wants_headers({"INCLUDEHEADERS": "yes"})


@pytest.mark.parametrize("name", ["cluster", "address", "contact"])
def test_texts_are_not_empty(name: str):
    with pytest.raises(OptionError, match=f"^{name} is ' ', but has to be a text that is not empty"):
        batch(**{name: " "})
