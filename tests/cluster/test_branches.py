"""Transactions with many writers: workers in Ray tasks that die or run twice, and drivers that die."""

import os
import pickle
import signal

import pytest
import ray

import eagleray
from eagleray import TopicPartition
from tests.support.cluster_process import ClientProcess, by_address
from tests.support.clusters import admin_of, check, client_of, fresh, group_offset, values_in, within_deadline

pytestmark = pytest.mark.slow

DELAYS_S = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.02)


def writing_task(**options):
    """A Ray task that writes into a branch: made here, so that workers need not have the tests at hand."""

    @ray.remote(num_cpus=0, **options)
    def write(cluster_name, token, topic, values, dies_once_at=None):
        import os
        import signal

        import eagleray

        with eagleray.connect(cluster_name) as cluster, cluster.join(token) as writer:
            for value in values:
                writer.send(topic, value)
            if dies_once_at is not None and not os.path.exists(dies_once_at):
                writer.flush()
                with open(dies_once_at, "w"):
                    os.kill(os.getpid(), signal.SIGKILL)
            return writer.seal()

    return write


def topic_in(cluster):
    topic = fresh("branched")
    admin_of(cluster).create_topic(topic, partitions=2)
    return topic


def test_branches_are_written_by_ray_tasks_and_committed_together(cluster):
    """Tokens travel to Ray tasks and sealed branches back; the group's offsets are committed with them."""
    topic, group, task = topic_in(cluster), fresh("group"), writing_task()
    with cluster.begin(fresh("job"), tag="batch-1") as transaction:
        tokens = [transaction.branch() for _ in range(3)]
        assert pickle.loads(pickle.dumps(tokens)) == tokens
        work = [task.remote(cluster.name, token, topic, [b"%d" % token.branch]) for token in tokens]
        sealed = ray.get(work)
        transaction.commit(sealed[:2], offsets={TopicPartition(topic, 1): 7}, group=group)
    check(cluster, topic, [b"0", b"1"])

    async def look():
        async with client_of(cluster) as client:
            assert await group_offset(client, group, TopicPartition(topic, 1)) == 7

    within_deadline(look())


def test_worker_that_dies_while_it_writes_is_retried_by_ray(separate, tmp_path):
    """The first attempt ends by kill -9 with its records in the log; only those of the second are seen."""
    topic, task, died = topic_in(separate), writing_task(max_retries=2), tmp_path / "died"
    with separate.begin(fresh("job"), tag="batch-1") as transaction:
        values = [b"%d" % number for number in range(10)]
        sealed = ray.get(task.remote(separate.name, transaction.branch(), topic, values, str(died)))
        transaction.commit([sealed])
    assert died.exists()
    check(separate, topic, values)

    async def raw():
        async with client_of(separate) as client:
            assert len(await values_in(client, topic, "read_uncommitted")) == 20

    within_deadline(raw())


def test_of_two_sealed_attempts_at_one_branch_one_is_seen(cluster):
    """A worker is retried though its first attempt was whole, and both are sealed."""
    topic = topic_in(cluster)
    with cluster.begin(fresh("job"), tag="batch-1") as transaction:
        token, other = transaction.branch(), transaction.branch()
        sealed = []
        for attempt, branch in ((1, token), (2, token), (1, other)):
            with cluster.join(branch) as writer:
                writer.send(topic, b"branch %d attempt %d" % (branch.branch, attempt))
                sealed.append(writer.seal())
        assert sealed[0].producer != sealed[1].producer
        transaction.commit(sealed)
    check(cluster, topic, [b"branch 0 attempt 1", b"branch 1 attempt 1"])


def drive(cluster, **options):
    return ClientProcess("drive", **by_address(cluster), branches=4, **options)


def run_again(cluster, topic, transactional_id, tag):
    """What a driver does that comes back after a crash; whether the commit had been decided before."""
    with cluster.begin(transactional_id, tag=tag) as transaction:
        if transaction.already_committed:
            return True
        sealed = []
        for branch in range(4):
            with cluster.join(transaction.branch()) as writer:
                writer.send(topic, b"%d" % branch, partition=branch % 2)
                sealed.append(writer.seal())
        transaction.commit(sealed)
    return False


@pytest.mark.parametrize(("ends", "is_committed"), [("before", False), ("after", True)])
def test_driver_dies_before_or_after_its_commit_and_the_tag_commits_once(cluster, ends, is_committed):
    topic, transactional_id = topic_in(cluster), fresh("job")
    options = {"topic": topic, "transactional_id": transactional_id, "tag": "batch-1"}
    with drive(cluster, **options, ends=ends) as driver:
        assert driver.wait() == -signal.SIGKILL
    assert run_again(cluster, topic, transactional_id, "batch-1") is is_committed
    check(cluster, topic, [b"0", b"1", b"2", b"3"])
    # Once more changes nothing; the next tag is another transaction.
    assert run_again(cluster, topic, transactional_id, "batch-1") is True
    assert run_again(cluster, topic, transactional_id, "batch-2") is False
    check(cluster, topic, [b"0", b"1", b"2", b"3"] * 2)


def test_driver_dies_during_its_commit_and_the_tag_commits_once(cluster):
    """Kill -9 right after the commit was sent, after one delay or another: decided or not, it is there once."""
    topic = topic_in(cluster)
    for turn, delay_s in enumerate(DELAYS_S, 1):
        options = {"topic": topic, "transactional_id": fresh("job"), "tag": "batch-1"}
        with drive(cluster, **options, ends="during", delay_s=delay_s) as driver:
            assert driver.wait() == -signal.SIGKILL
        run_again(cluster, topic, options["transactional_id"], "batch-1")
        check(cluster, topic, [b"0", b"1", b"2", b"3"] * turn)


def test_coordinator_dies_while_branches_are_open(separate):
    """Branches that were opened before the kill are written, sealed and committed after it."""
    topic = topic_in(separate)
    with separate.begin(fresh("job"), tag="batch-1") as transaction:
        writers = [separate.join(transaction.branch()) for _ in range(3)]
        for number, writer in enumerate(writers):
            writer.send(topic, b"before %d" % number)
            writer.flush()
        for coordinator in [node for node in separate.nodes() if node["roles"] == ["coordinator"]]:
            os.kill(coordinator["pid"], signal.SIGKILL)
        for number, writer in enumerate(writers):
            writer.send(topic, b"after %d" % number)
        sealed = [writer.seal() for writer in writers]
        transaction.commit(sealed[:2])
        for writer in writers:
            writer.close()
    check(separate, topic, [b"before 0", b"before 1", b"after 0", b"after 1"])


def test_token_of_another_cluster_is_refused(separate, colocated):
    with separate.begin(fresh("job"), tag="batch-1") as transaction:
        token = transaction.branch()
        transaction.abort()
    with pytest.raises(eagleray.errors.RefusedError, match="belongs to cluster"):
        colocated.join(token)
