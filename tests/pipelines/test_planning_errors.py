"""What cannot be done is said before anything is done, in words that say what to do instead."""

import pytest

from eagleray import TopicPartition
from tests.support.clusters import fresh
from tests.support.spark import open_transactions, rows_of, write

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def known(started_cluster):
    """A topic that nobody writes to, with a name of which others are misspellings."""
    name = fresh("payments")
    started_cluster.admin.create_topic(name, partitions=1)
    return name


def refusal(action):
    """The text of what Spark raises."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark has its own exception for each place
        action()
    return str(raised.value)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["'x' key"], "The sink needs a column value (string or binary)"),
        (["1 value"], "The column value is int, but has to be string or binary: use CAST(value AS string)."),
        (["'x' value", "1L partition"], "The column partition is bigint, but has to be int"),
        (["'x' value", "'y' valeu"], "Did you mean value by valeu?"),
        (["struct(1) value"], "use to_json(value) AS value"),
    ],
)
def test_columns_that_the_sink_cannot_write(spark, known, columns, said):
    assert said in refusal(lambda: write(spark.range(1).selectExpr(*columns), known))


def test_a_sink_without_a_topic(spark):
    assert "set the option topic, or add a column topic" in refusal(lambda: write(spark.sql("select 'x' value")))


def test_topics_that_do_not_exist(spark, known):
    said = f"names {known}s, which the cluster does not have. Did you mean {known} by {known}s?"
    assert f"subscribe {said}" in refusal(lambda: rows_of(spark, f"{known}s").collect())
    assert f"topic {said}" in refusal(lambda: write(spark.sql("select 'x' value"), f"{known}s"))
    assigned = f'{{"{known}": [0, 3]}}'
    assert f"assign names {known}-3, which the cluster" in refusal(lambda: rows_of(spark, assign=assigned).collect())


def test_options_that_do_not_exist(spark, known):
    reading = refusal(lambda: rows_of(spark, known, minPartition="3").collect())
    assert "'minpartition' is not an option of the source. Did you mean minPartitions?" in reading
    writing = refusal(lambda: write(spark.sql("select 'x' value"), known, compresion="lz4"))
    assert "is not an option of the sink. Did you mean compression?" in writing
    foreign = refusal(lambda: rows_of(spark, known, **{"kafka.bootstrap.servers": "localhost:9092"}).collect())
    assert "kafka.bootstrap.servers is an option of Spark's Kafka connector" in foreign


def test_options_of_another_kind_of_query(spark, known):
    said = "maxOffsetsPerTrigger is an option of streaming queries (readStream), but this is a batch query (read)"
    assert said in refusal(lambda: rows_of(spark, known, maxOffsetsPerTrigger="5").collect())
    said = "group is an option of streaming queries (writeStream), but this is a batch query (write)"
    assert said in refusal(lambda: write(spark.sql("select 'x' value"), known, group="audit"))


def test_values_that_cannot_be_used(spark, known):
    assert "minPartitions is 'many', but has to be" in refusal(
        lambda: rows_of(spark, known, minPartitions="many").collect()
    )
    assert "the partitions that the query reads" in refusal(
        lambda: rows_of(spark, known, startingOffsets=f'{{"{known}": {{"4": 0}}}}').collect()
    )


def test_topics_are_not_overwritten(spark, known):
    writer = spark.sql("select 'x' value").write.format("eagleray").option("topic", known).mode("overwrite")
    assert "Topics can only be added to" in refusal(writer.save)


def test_a_schema_of_ones_own(spark, known):
    reader = spark.read.format("eagleray").option("subscribe", known).schema("id int")
    assert "Leave out .schema(...)" in refusal(lambda: reader.load().collect())


def test_a_cluster_that_is_not_there(spark, known, ray_here):
    elsewhere = {"cluster": "elsewhere", "address": ray_here.address}
    said = refusal(lambda: rows_of(spark, known, **elsewhere).collect())
    assert "elsewhere" in said
    assert "name it with the option `cluster`" in said
    assert "name it with the option `cluster`" in refusal(
        lambda: write(spark.sql("select 'x' value"), known, **elsewhere)
    )


def test_a_contact_file_that_is_not_there(spark, known):
    said = refusal(lambda: rows_of(spark, known, contact="/no/such/contact").collect())
    assert "the contact file '/no/such/contact' cannot be read" in said
    assert "`eagleray contact FILE` writes" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is an option of batch queries (read)"),
        ({"subscribe": "no-such-topic"}, "subscribe names no-such-topic, which the cluster does not have"),
    ],
)
def test_streams_are_checked_when_they_start(spark, known, tmp_path, options, said):
    stream = spark.readStream.format("eagleray").options(**{"subscribe": known, **options}).load()
    writer = stream.select("value").writeStream.format("eagleray").option("topic", known)
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert said in refusal(lambda: writer.start().awaitTermination())


def test_a_group_needs_a_checkpoint_that_it_is_told(spark, known, tmp_path):
    """Spark also takes the location from its settings, of which a sink does not know."""
    stream = spark.readStream.format("eagleray").option("subscribe", known).load().select("value")
    writer = stream.writeStream.format("eagleray").option("topic", known).option("group", "audit")
    writer = writer.trigger(availableNow=True)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        assert "group is given without checkpointLocation" in refusal(lambda: writer.start().awaitTermination())
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_nothing_was_begun(started_cluster, known):
    """Whatever was refused in this module was refused before there was a transaction or a record."""
    assert open_transactions(started_cluster) == []
    with started_cluster.consumer(known, isolation="read_uncommitted") as consumer:
        assert consumer.end_offsets(TopicPartition(known, 0)) == {TopicPartition(known, 0): 0}
