"""How tests of the data source read, write and run queries, in few words."""

from collections import Counter
from pathlib import Path

from eagleray import TopicPartition
from tests.support.clusters import until

SPECULATION = {
    # A second attempt at a task that takes longer than the others: only tests that wait on purpose are as slow.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "3s",
}


def rows_of(spark, *topics, **options):
    """A batch read."""
    selected = {"subscribe": ",".join(topics)} if topics else {}
    return spark.read.format("eagleray").options(**selected, **options).load()


def write(frame, topic=None, **options):
    """A batch write."""
    selected = {} if topic is None else {"topic": topic}
    frame.write.format("eagleray").options(**selected, **options).mode("append").save()


def values(frame):
    """The values of a read, and how often each is there."""
    return Counter(row.value.decode() for row in frame.select("value").collect())


def values_in(cluster, *topics, isolation="read_committed"):
    """The values of topics as a consumer sees them, and how often each is there; once all is decided, if need be."""
    if isolation == "read_committed":
        for topic in topics:
            until(lambda topic=topic: undecided(cluster, topic) == 0, f"all transactions in {topic} are decided")
    with cluster.consumer(*topics, isolation=isolation, auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(*consumer.assignment())
        found = []

        def is_at_end():
            found.extend(record.value.decode() for record in consumer.poll(50))
            return all(consumer.position(partition) >= end for partition, end in ends.items())

        until(is_at_end, f"{topics} are read to their ends, {ends}")
    return Counter(found)


def undecided(cluster, topic):
    """How many offsets of a topic are held back by open transactions."""
    return sum(partition.undecided for partition in cluster.admin.describe_topic(topic).partitions)


def open_transactions(cluster):
    """The transactional ids that have something open."""
    listed = cluster.admin.list_transactions(states=["Ongoing", "PrepareCommit", "PrepareAbort"])
    return [transaction.transactional_id for transaction in listed]


def produce(cluster, topic, records, **options):
    """Write values, outside of Spark."""
    with cluster.producer() as producer:
        for value in records:
            producer.send(topic, value, **options)


def ends_of(cluster, topic, isolation="read_committed"):
    """Where the partitions of a topic end."""
    with cluster.consumer(topic, isolation=isolation) as consumer:
        return consumer.end_offsets(*consumer.assignment())


def numbered(start, end):
    """Values that tell themselves apart."""
    return [f"{number}" for number in range(start, end)]


def names(topic, partitions=4):
    return [TopicPartition(topic, number) for number in range(partitions)]


class Copy:
    """A streaming query that copies topics to another one; it can be run many times, from one checkpoint."""

    def __init__(self, spark, checkpoint, target, source=(), sink=()):
        self._spark = spark
        self.checkpoint = str(checkpoint)
        self._target = target
        self._source = {"startingOffsets": "earliest", **dict(source)}
        self._sink = dict(sink)

    def start(self, change=lambda frame: frame, output_mode="append", **trigger):
        frame = self._spark.readStream.format("eagleray").options(**self._source).load()
        writer = change(frame.select("key", "value")).writeStream.format("eagleray").outputMode(output_mode)
        options = {"topic": self._target, "checkpointLocation": self.checkpoint, **self._sink}
        return writer.options(**options).trigger(**trigger).start()

    def run(self, **options):
        """Run to the end of what there is, and return the number of rows that each micro-batch has read."""
        query = self.start(**options, availableNow=True)
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return [progress["numInputRows"] for progress in query.recentProgress]


def forget_last_commit(checkpoint):
    """Leave a checkpoint as a crash does that comes between the sink's commit and Spark's note of it."""
    commits = Path(checkpoint, "commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    return last


def noting_attempts(folder, *, fails=None):
    """A step for `mapInArrow` that lets rows through and notes each attempt at a task as a file `task-attempt`.

    The attempt `fails` at the second task fails behind its last row.
    """
    place = str(folder)

    def step(batches):
        import pathlib

        from pyspark import TaskContext

        context = TaskContext.get()
        pathlib.Path(place, f"{context.partitionId()}-{context.attemptNumber()}").touch()
        yield from batches
        attempt = context.attemptNumber() if context.partitionId() == 1 else -1
        if attempt == fails:
            raise RuntimeError("this attempt was to fail")

    return step


def attempts(folder):
    """Which attempts at the second task there were."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("1-"))
