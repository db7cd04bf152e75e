"""Micro-batches that fail, are run again, or come too late: the output has each record once."""

import json
import shutil
from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException

from eagleray.pipelines.connection import ClusterLocation
from eagleray.pipelines.options import SinkOptions
from eagleray.pipelines.sink.task import TaskWritten
from eagleray.pipelines.sink.transaction_name import name_in_stream
from eagleray.pipelines.sink.writers import StreamWriter
from tests.support.clusters import fresh
from tests.support.spark import (
    Copy,
    attempts,
    forget_last_commit,
    noting_attempts,
    numbered,
    open_transactions,
    produce,
    undecided,
    values_in,
)

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def source(cluster):
    """A topic of two partitions with ten records in each."""
    name = fresh("source")
    cluster.admin.create_topic(name, partitions=2)
    for partition in range(2):
        produce(cluster, name, numbered(partition * 10, partition * 10 + 10), partition=partition)
    return name


def test_a_batch_that_is_run_again_changes_nothing(spark, cluster, source, target, tmp_path):
    """Spark does not know that the last batch was committed, and runs it again with the same offsets."""
    group = fresh("group")
    copy = Copy(spark, tmp_path, target, {"subscribe": source, "maxOffsetsPerTrigger": "10"}, {"group": group})
    copy.run()
    before = values_in(cluster, target, isolation="read_uncommitted")
    assert before == Counter(numbered(0, 20))
    assert forget_last_commit(tmp_path) == 1
    produce(cluster, source, numbered(20, 25))
    assert copy.run() == [10, 5]
    assert values_in(cluster, target) == Counter(numbered(0, 25))
    assert sum(each.offset for each in cluster.admin.describe_group(group)) == 25


def test_without_exactly_once_a_batch_that_is_run_again_is_there_twice(spark, cluster, source, target, tmp_path):
    """At least once, as other sinks do: this shows that the test before it can fail."""
    sink = {"exactlyOnce": "false"}
    copy = Copy(spark, tmp_path, target, {"subscribe": source, "maxOffsetsPerTrigger": "10"}, sink)
    copy.run()
    assert values_in(cluster, target) == Counter(numbered(0, 20))
    forget_last_commit(tmp_path)
    copy.run()
    found = values_in(cluster, target)
    assert found.keys() == set(numbered(0, 20))
    assert sorted(found.values()) == [1] * 10 + [2] * 10


def test_the_first_batch_is_run_again_after_its_topic_has_grown(spark, cluster, source, target, tmp_path):
    """Where the first batch begins is not in the checkpoint: the partitions are those of now, the end is not."""
    copy = Copy(spark, tmp_path, target, {"subscribe": source})
    copy.run()
    assert forget_last_commit(tmp_path) == 0
    cluster.admin.grow_topic(source, 4)
    produce(cluster, source, ["new"], partition=3)
    copy.run()
    assert values_in(cluster, target) == Counter([*numbered(0, 20), "new"])


def test_a_batch_that_fails_leaves_nothing_and_is_run_again(spark, cluster, source, target, tmp_path):
    """With two cores the third task begins when another one is done, and fails; the query comes back corrected."""
    cluster.admin.grow_topic(source, 3)
    produce(cluster, source, ["wrong"], partition=2)
    copy = Copy(spark, tmp_path, target, {"subscribe": source, "minPartitions": "3"})
    failing = "if(value = 'wrong', raise_error('no such order'), value) value"
    with pytest.raises(StreamingQueryException, match="no such order"):
        copy.run(change=lambda frame: frame.selectExpr("key", failing))
    assert open_transactions(cluster) == []
    assert undecided(cluster, target) == 0
    assert values_in(cluster, target, isolation="read_uncommitted").total() >= 10
    assert values_in(cluster, target) == Counter()
    copy.run(change=lambda frame: frame.where("value != 'wrong'"))
    assert values_in(cluster, target) == Counter(numbered(0, 20))


def test_a_task_that_fails_once_writes_its_rows_once(spark, cluster, source, target, tmp_path):
    (notes := tmp_path / "notes").mkdir()
    copy = Copy(spark, tmp_path / "checkpoint", target, {"subscribe": source, "minPartitions": "2"})
    step = noting_attempts(notes, fails=0)
    copy.run(change=lambda frame: frame.mapInArrow(step, "key binary, value binary"))
    assert attempts(notes) == ["1-0", "1-1"]
    assert values_in(cluster, target) == Counter(numbered(0, 20))


def test_a_driver_that_comes_too_late_changes_nothing(spark, cluster, source, target, tmp_path):
    """It was taken for dead: another one has done its batch and the next. Its tasks and its commit come after that."""
    copy = Copy(spark, tmp_path, target, {"subscribe": source, "maxOffsetsPerTrigger": "10"})
    query = copy.start(availableNow=True)
    query.awaitTermination()
    before = values_in(cluster, target, isolation="read_uncommitted")
    assert before == Counter(numbered(0, 20))

    options = SinkOptions.parse({"topic": target, "checkpointlocation": str(tmp_path)}, streaming=True)
    writer = StreamWriter(options, ClusterLocation("default", "auto"))
    late = name_in_stream("spark", query.id, 0)
    transaction = cluster.begin(late.transactional_id, tag=late.tag, shared=True)
    assert transaction.already_committed
    writer.commit([TaskWritten(late, transaction.owner, None, 10)], 0)
    writer.abort([], 0)
    assert values_in(cluster, target, isolation="read_uncommitted") == before
    assert open_transactions(cluster) == []


def test_a_checkpoint_that_was_set_back_stops_the_query(spark, cluster, source, target, tmp_path):
    """Its batches were committed, and others came after them; only the option has them written once more."""
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"
    copy = Copy(spark, checkpoint, target, {"subscribe": source})
    copy.run()
    shutil.copytree(checkpoint, backup)
    for value in ("first", "second"):
        produce(cluster, source, [value], partition=0)
        copy.run()
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    with pytest.raises(StreamingQueryException, match=r"Batch 1 comes after batch 2 .* the checkpoint was set back"):
        copy.run()
    before = Counter([*numbered(0, 20), "first", "second"])
    assert values_in(cluster, target) == before
    assert open_transactions(cluster) == []

    follows = Copy(spark, checkpoint, target, {"subscribe": source}, {"failOnCheckpointMismatch": "false"})
    follows.run()
    produce(cluster, source, ["third"], partition=0)
    assert copy.run() == [1]
    assert values_in(cluster, target) == before + Counter(["first", "second", "third"])


def test_a_batch_that_could_have_been_forgotten_stops_the_query(spark, cluster, source, target, tmp_path):
    """By another prefix the cluster knows nothing of the query, as it does a week after the last batch."""
    Copy(spark, tmp_path, target, {"subscribe": source}).run()
    assert forget_last_commit(tmp_path) == 0
    plan_long_ago(tmp_path, 0)
    unknown = {"transactionalIdPrefix": fresh("prefix")}
    with pytest.raises(StreamingQueryException, match=r"batch 0 was planned .* may have been committed and forgotten"):
        Copy(spark, tmp_path, target, {"subscribe": source}, unknown).run()
    assert values_in(cluster, target) == Counter(numbered(0, 20))
    assert open_transactions(cluster) == []

    follows = Copy(spark, tmp_path, target, {"subscribe": source}, unknown | {"failOnCheckpointMismatch": "false"})
    follows.run()
    produce(cluster, source, ["next"], partition=0)
    assert Copy(spark, tmp_path, target, {"subscribe": source}, unknown).run() == [1]
    assert values_in(cluster, target) == Counter([*numbered(0, 20), *numbered(0, 20), "next"])


def plan_long_ago(checkpoint, batch_id):
    """Make a batch one that Spark has planned in 2020."""
    planned = checkpoint / "offsets" / str(batch_id)
    version, about, *sources = planned.read_text().splitlines()
    planned.write_text(
        "\n".join([version, json.dumps(json.loads(about) | {"batchTimestampMs": 1577836800000}), *sources])
    )
    (checkpoint / "offsets" / f".{batch_id}.crc").unlink(missing_ok=True)
