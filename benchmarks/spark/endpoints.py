"""What is measured: a format of Spark's, and the broker that it reads and writes."""

import time
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from msgspec import Struct
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter, StreamingQuery

OURS = "eagleray"
PEER_ON_OURS = "Spark's on our broker"
PEER_ON_KAFKA = "Spark's on Kafka"
TARGETS = (OURS, PEER_ON_OURS, PEER_ON_KAFKA)
PARTITIONS = 8
LEADERS_SECONDS = 30

WithOptions = TypeVar("WithOptions", DataFrameReader, DataStreamReader, DataFrameWriter, DataStreamWriter)


class Endpoint(Struct, frozen=True):
    """One format on one broker."""

    name: str
    format: str
    bootstrap_servers: str

    def _with_broker(self, side: WithOptions) -> WithOptions:
        """Say which format and, where it asks for an address, which broker."""
        chosen = side.format(self.format)
        return chosen.option("kafka.bootstrap.servers", self.bootstrap_servers) if self.format == "kafka" else chosen

    def read(self, spark: SparkSession, topic: str) -> DataFrame:
        return self._with_broker(spark.read).option("subscribe", topic).load()

    def read_stream(self, spark: SparkSession, topics: list[str], **options: str) -> DataFrame:
        side = self._with_broker(spark.readStream).option("subscribe", ",".join(topics))
        return side.option("startingOffsets", "earliest").options(**options).load()

    def write(self, rows: DataFrame, topic: str) -> None:
        self._with_broker(rows.write).option("topic", topic).mode("append").save()

    def write_stream(self, rows: DataFrame, checkpoint: Path, *, topic: str | None) -> DataStreamWriter:
        """Rows that go to one topic, or each to that of its column `topic`."""
        side = self._with_broker(rows.writeStream).option("checkpointLocation", str(checkpoint))
        return side.option("topic", topic) if topic else side

    def create_topic(self, topic: str, partitions: int = PARTITIONS) -> str:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(topic, partitions, 1)], operation_timeout=30)[topic].result(30)
        wait_for_leaders(admin, topic, partitions)
        return topic

    def count(self, spark: SparkSession, topic: str) -> int:
        """How many committed rows a topic has, by Spark's own connector, whichever side wrote them."""
        witness = spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap_servers)
        return witness.option("kafka.isolation.level", "read_committed").option("subscribe", topic).load().count()


def wait_for_leaders(admin: AdminClient, topic: str, partitions: int) -> None:
    """Wait until each partition of a new topic has a leader that answers for it.

    Kafka says that a topic is created before its broker leads it. A producer that is quicker has its first batch
    refused and the ones behind it accepted, which cannot be put in order again: it gives up after two minutes, Spark
    runs the task again, and the rows are there twice. That is nothing that a comparison of speed should measure.
    """
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    deadline = time.monotonic() + LEADERS_SECONDS
    while True:
        try:
            for offset in admin.list_offsets(wanted, request_timeout=10).values():
                offset.result(LEADERS_SECONDS)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def endpoints(ours: str, kafka: str) -> list[Endpoint]:
    """The three of the comparison, by the addresses of the brokers."""
    return [
        Endpoint(OURS, "eagleray", ours),
        Endpoint(PEER_ON_OURS, "kafka", ours),
        Endpoint(PEER_ON_KAFKA, "kafka", kafka),
    ]


def run_to_the_end(writer: DataStreamWriter) -> StreamingQuery:
    """Let a query take all that is there now."""
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query
