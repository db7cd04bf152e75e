"""What a batch read does where there is nothing to read."""

from pyspark.sql.datasource import InputPartition

from eagleray.pipelines.options import SourceOptions
from eagleray.pipelines.source.batch_reader import BatchReader


def test_a_topic_without_records_has_no_tasks_but_sparks_own(here):
    """Spark makes up a partition where there is none, and has it read."""
    reader = BatchReader(SourceOptions.parse({"subscribe": "orders"}, streaming=False), here)
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_tasks_read_what_they_were_given(here):
    with here.cluster.producer() as producer:
        for number in range(6):
            producer.send("orders", f"{number}", partition=number % 2)
    options = {"subscribe": "orders", "minPartitions": "3"}
    reader = BatchReader(SourceOptions.parse(options, streaming=False), here)
    tasks = reader.partitions()
    assert len(tasks) == 3
    found = [value for task in tasks for rows in reader.read(task) for value in rows.column("value").to_pylist()]
    assert sorted(found) == [b"%d" % number for number in range(6)]
