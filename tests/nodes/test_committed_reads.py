"""What is read back right after a commit, while its markers may still be on their way."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from eagleray.pipelines.committed_reads import committed_records
from tests.support.cli_cluster import NodesOnThread


@pytest.fixture
def cluster(tmp_path):
    nodes = NodesOnThread(tmp_path)
    with nodes.blocking_clients() as cluster:
        cluster.admin.create_topic("payments", partitions=2)
        yield cluster
    nodes.close()


def values(cluster, *partitions):
    return sorted(record.value for record in committed_records(cluster, "payments", *partitions))


def test_transaction_that_is_not_yet_visible_is_waited_for(cluster):
    with cluster.producer(transactional_id="till-1") as producer, ThreadPoolExecutor(1) as reader:
        with producer.transaction():
            producer.send("payments", b"first", partition=0).result()
            reading = reader.submit(values, cluster)
            # Without the wait for what is open the reader finds an empty topic, and is done at once.
            assert not wait([reading], timeout=1).done
        assert reading.result(timeout=60) == [b"first"]


def test_aborted_records_are_passed_over_and_partitions_are_chosen(cluster):
    with cluster.producer(transactional_id="till-2") as producer:
        with producer.transaction():
            producer.send("payments", b"kept", partition=0)
            producer.send("payments", b"elsewhere", partition=1)
        producer.begin()
        producer.send("payments", b"given up", partition=0).result()
        producer.abort()
    assert values(cluster, 0) == [b"kept"]
    assert values(cluster) == [b"elsewhere", b"kept"]


def test_standstill_names_the_partition_and_the_command(cluster, monkeypatch):
    monkeypatch.setattr("eagleray.pipelines.committed_reads._STANDSTILL_S", 0.0)
    with cluster.producer(transactional_id="till-3") as producer:
        producer.begin()
        producer.send("payments", b"held", partition=1).result()
        with pytest.raises(TimeoutError, match=r"partition 1 at 0 of 1.*eagleray txn blocking payments"):
            values(cluster)
        producer.abort()
