"""Exactly once, end to end: a streaming query over real processes, each of which is killed in its turn."""

from collections import Counter

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.columnar import RecordColumns, decode
from tests.pipelines.streaming_driver import AFTER_COMMIT, BEFORE_COMMIT, DriverPlan
from tests.support.clusters import fresh, kill, nodes_with, until, until_back
from tests.support.spark import undecided
from tests.support.spark_drivers import Driver, kill_executor, kill_python_worker, until_no_executor

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.own_spark]

ROWS = 200_000
ROWS_PER_BATCH = 5_000
PARTITIONS = 4
LEAST_BATCHES = 36


@pytest.fixture(scope="module")
def separate(ray_here):
    """A cluster with a process for each role, so that each can be killed by itself."""
    with ray_here.start("separate", leaders=2, coordinators=1) as cluster:
        yield cluster


@pytest.fixture
def source(separate):
    """A topic of numbered rows, with a transaction that was aborted in it."""
    return filled(separate, ROWS)


@pytest.fixture
def drive(separate, ray_here, tmp_path):
    """Start drivers of one query, one after the other; ends those that are left."""
    sink = fresh("sink")
    separate.admin.create_topic(sink, partitions=PARTITIONS)
    drivers = []

    def start(source, **options):
        if drivers:
            # Ray has cores for one driver's executors.
            until_no_executor()
        names = {"address": ray_here.address, "cluster": separate.name, "source": source, "sink": sink}
        checkpoint = str(tmp_path / "checkpoint")
        mark = str(tmp_path / f"crashed-{len(drivers)}")
        options = {"rows_per_batch": ROWS_PER_BATCH, "crash_mark": mark, **options}
        driver = Driver(DriverPlan(checkpoint=checkpoint, **names, **options), tmp_path / "scratch")
        drivers.append(driver)
        return driver

    start.sink = sink
    yield start
    for driver in drivers:
        driver.close()


def filled(cluster, rows):
    topic = fresh("source")
    cluster.admin.create_topic(topic, partitions=PARTITIONS)
    with cluster.producer(transactional_id=topic, linger_ms=5) as producer:
        for commit, numbers in ((True, range(rows // 2)), (False, range(1000)), (True, range(rows // 2, rows))):
            producer.begin()
            for number in numbers:
                producer.send(topic, key=str(number), value=f"row-{number}")
            producer.commit() if commit else producer.abort()
    return topic


def values_of(cluster, topic):
    """All committed values of a topic, by the number of times that they are there."""
    found = Counter()
    with cluster.consumer() as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        for partition, end in consumer.end_offsets(*partitions).items():
            columns = RecordColumns(topic, partition.partition, 0, end, names=("value",))
            for batches in cluster.scan(partition, 0, end):
                found.update(decode(batches, columns).column("value").to_pylist())
    return found


def expected(rows):
    return Counter(f"row-{number}-done".encode() for number in range(rows))


def assert_exactly_once(cluster, sink, rows=ROWS):
    until(lambda: undecided(cluster, sink) == 0, "every transaction in the sink is decided")
    found, wanted = values_of(cluster, sink), expected(rows)
    missing, surplus = wanted - found, found - wanted
    assert (missing.total(), surplus.total()) == (0, 0), (list(missing)[:5], list(surplus)[:5])


def test_every_process_is_killed_in_its_turn_and_each_row_is_there_once(separate, source, drive):
    first = drive(source, group="audit")
    victims = {
        1: kill_executor,
        4: kill_python_worker,
        6: lambda: kill_node(separate, "leader"),
        8: lambda: kill_node(separate, "coordinator"),
        10: lambda: kill_node(separate, "markers"),
    }
    for batch, kill_one in victims.items():
        first.until_batch(batch)
        kill_one()
    first.until_batch(12)
    first.kill()
    assert first.batches[-1] < LEAST_BATCHES - 6, "the query was nearly over before everybody was killed"

    second = crashed(drive, source, BEFORE_COMMIT, first.batches[-1] + 2)
    third = crashed(drive, source, AFTER_COMMIT, first.batches[-1] + 4)
    last = drive(source, group="audit")
    assert last.until_end() == 0

    batches = {*first.batches, *second.batches, *third.batches, *last.batches}
    assert len(batches) >= LEAST_BATCHES
    assert_exactly_once(separate, drive.sink)
    assert group_has_all(separate, "audit", source)


def test_without_tags_the_same_crash_leaves_duplicates(separate, drive):
    """The proof that the test above can fail: Spark runs the batch again, and nobody knows that it was committed."""
    source = filled(separate, 4000)
    # No executor is killed here, so that none is needed.
    untagged = {"rows_per_batch": 1000, "exactly_once": False, "is_without_executors": True}
    crashed(drive, source, AFTER_COMMIT, 0, **untagged)
    until(lambda: undecided(separate, drive.sink) == 0, "the batch before the crash is decided")
    first_batch = values_of(separate, drive.sink)
    assert first_batch.total() >= 900
    assert drive(source, **untagged).until_end() == 0

    until(lambda: undecided(separate, drive.sink) == 0, "every transaction in the sink is decided")
    found = values_of(separate, drive.sink)
    assert set(found) == set(expected(4000))
    assert found - expected(4000) == first_batch, "a whole batch is there twice"


def crashed(drive, source, point, batch, **options):
    """A driver that ended itself at this point of this batch, or of one soon after."""
    group = None if "exactly_once" in options else "audit"
    driver = drive(source, group=group, crash_point=point, crash_batch=batch, **options)
    assert driver.until_end() == -9
    assert driver.has_ended_itself, "the driver was to end itself and did not"
    return driver


def kill_node(cluster, role):
    (node, *_) = nodes_with(cluster, role)
    kill(node)
    until_back(cluster, [node])


def group_has_all(cluster, group, topic):
    """Whether the group's offsets, which were committed with the batches, are those of everything in the topic."""
    described = {each.partition: each.offset for each in cluster.admin.describe_group(group)}
    with cluster.consumer() as consumer:
        ends = consumer.end_offsets(*(TopicPartition(topic, number) for number in range(PARTITIONS)))
    return described == ends
