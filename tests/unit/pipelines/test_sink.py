"""What tasks write and drivers commit, once, whoever repeats it and whoever comes too late."""

import pytest
from msgspec.structs import replace
from pyspark import TaskContext

from eagleray.broker.groups.events import CommitTransactionOffsets
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.partitions.events import Produce
from eagleray.broker.transactions.events import BeginBranched, EndBranched
from eagleray.broker.transactions.origin import Origin
from eagleray.pipelines.options import SinkOptions
from eagleray.pipelines.sink import transaction
from eagleray.pipelines.sink.task import TaskWritten, write_branch
from eagleray.pipelines.sink.transaction_name import (
    BATCH_ID,
    QUERY_ID,
    NotInAQuery,
    TransactionName,
    name_in_stream,
    name_of_this_task,
    origin_in,
)
from eagleray.pipelines.sink.writers import BatchWriter
from tests.support.clusters import until
from tests.support.lanes_in_memory import Fate
from tests.support.pipelines_world import rows, sink_options

TIMEOUT_MS = 60_000


def batch(number):
    return name_in_stream("spark", "query", number)


def task(here, name, number, *values):
    return write_branch(rows(*values), name, number, sink_options(), here)


def commit(here, written, **options):
    transaction.commit(here.cluster, written, timeout_ms=TIMEOUT_MS, **options)


def questions_of(here, act, *fields, **options):
    """What is asked while something is done."""
    asked = len(here.world.requests)
    act(here, *fields, **options)
    return [type(request) for request in here.world.requests[asked:]]


def until_committed(here, *values):
    until(lambda: here.committed("copy") == sorted(values), f"{values} are visible", 20)


def open_transactions(here):
    return [each.transactional_id for each in here.cluster.admin.list_transactions(states=["Ongoing"])]


# Names


def test_the_batches_of_a_query_share_an_id_and_are_a_series():
    assert batch(7) == TransactionName("spark-query", "batch#7")
    assert batch(7).transactional_id == batch(8).transactional_id


def test_a_task_outside_of_a_query_says_so():
    with pytest.raises(NotInAQuery, match=r"no property 'sql.streaming.queryId'.*df.writeStream"):
        name_of_this_task("spark", exactly_once=True)
    with pytest.raises(NotInAQuery, match=r"no property 'spark.jobGroup.id'"):
        name_of_this_task("spark", exactly_once=False)


class Task:
    """What Spark tells a task of a query."""

    def getLocalProperty(self, name):  # noqa: N802 - Spark's name
        return {QUERY_ID: "7ab2", BATCH_ID: "12"}[name]


def test_a_task_says_which_query_and_batch_it_works_for(monkeypatch):
    monkeypatch.setattr(TaskContext, "get", Task)
    assert origin_in("app-1") == Origin(spark_application="app-1", spark_query="7ab2", spark_batch=12)


def test_transaction_is_known_by_the_application_query_and_batch_of_its_task(here):
    origin = Origin(spark_application="app-1", spark_query="7ab2", spark_batch=12)
    write_branch(rows("a"), batch(0), 0, sink_options(), here, origin=origin)
    (found,) = here.cluster.admin.list_transactions(states=["Ongoing"])
    assert replace(found.origin, client_id="", client_address="") == origin
    assert found.origin.client_id.startswith("eagleray-")


# Committing


def test_records_of_all_tasks_become_visible_at_once(here):
    written = [task(here, batch(0), 0, "a", "b"), task(here, batch(0), 1, "c")]
    assert here.committed("copy") == []
    assert [each.rows for each in written] == [2, 1]
    commit(here, written)
    until_committed(here, "a", "b", "c")


def test_task_and_its_commit_ask_three_questions(here):
    commit(here, [task(here, batch(0), 0, "a")])
    asked = questions_of(here, task, batch(1), 0, "b")
    assert asked == [BeginBranched, Produce]
    written = [task(here, batch(1), 0, "b"), task(here, batch(1), 1, "c"), task(here, batch(1), 2)]
    assert questions_of(here, commit, written) == [EndBranched]
    until_committed(here, "a", "b", "c")


def test_a_commit_that_is_repeated_changes_nothing(here):
    written = [task(here, batch(0), 0, "a")]
    commit(here, written)
    assert questions_of(here, commit, written) == [EndBranched]
    again = task(here, batch(0), 0, "a")
    assert again.branch is None
    assert again.rows == 1
    assert questions_of(here, commit, [again]) == []
    commit(here, [task(here, batch(1), 0, "b")])
    commit(here, written)
    until_committed(here, "a", "b")


def test_of_two_drivers_of_a_batch_one_commits(here):
    """Both ran its tasks, in one transaction; the second finds out by being refused."""
    mine, of_another = [task(here, batch(0), 0, "a")], [task(here, batch(0), 0, "a")]
    commit(here, mine)
    assert questions_of(here, commit, of_another) == [EndBranched, BeginBranched]
    until_committed(here, "a")


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED])
def test_a_commit_holds_when_its_request_or_answer_is_lost(here, fate):
    written = [task(here, batch(0), 0, "a")]
    here.on_loop(here.world.network.plan, EndBranched, fate)
    commit(here, written)
    commit(here, [task(here, batch(1), 0, "b")])
    until_committed(here, "a", "b")


def test_attempts_that_the_driver_does_not_name_are_aborted(here):
    """One was retried, one is of a task that Spark has killed and that comes back to an ended transaction."""
    failed, good = task(here, batch(0), 0, "x"), task(here, batch(0), 0, "a")
    assert failed.branch != good.branch
    commit(here, [good])
    until_committed(here, "a")


def test_a_batch_of_the_past_is_settled_by_the_one_after_it(here):
    """A driver that was taken for dead goes on with batch 0 when another one has done batches 0 and 1."""
    zombie = [task(here, batch(0), 0, "a")]
    for number, value in enumerate("ab"):
        commit(here, [task(here, batch(number), 0, value)])
    commit(here, zombie)
    assert task(here, batch(0), 0, "a").branch is None
    transaction.abort(here.cluster, batch(0), TIMEOUT_MS)
    until_committed(here, "a", "b")


def test_a_transaction_that_was_aborted_meanwhile_is_not_committed_in_part(here):
    """By its timeout, say: what some tasks have written is gone, and others have begun anew."""
    lost = task(here, batch(0), 0, "a")
    transaction.abort(here.cluster, batch(0), TIMEOUT_MS)
    begun_anew = task(here, batch(0), 1, "b")
    with pytest.raises(transaction.TransactionLost, match=r"spark-query.*batch#0.*aborted.*transactionTimeout"):
        commit(here, [lost, begun_anew])
    assert here.committed("copy") == []
    commit(here, [task(here, batch(0), 0, "a"), task(here, batch(0), 1, "b")])
    until_committed(here, "a", "b")


def test_driver_whose_transaction_was_aborted_leaves_that_of_its_successor_alone(here):
    lost = task(here, batch(0), 0, "x")
    transaction.abort(here.cluster, batch(0), TIMEOUT_MS)
    of_successor = task(here, batch(0), 0, "a")
    with pytest.raises(transaction.TransactionLost):
        commit(here, [lost])
    commit(here, [of_successor])
    until_committed(here, "a")


def test_driver_of_a_transaction_that_no_coordinator_knows_commits_nothing(here):
    """Its records may be lost, or forgotten when they had expired."""
    written = task(here, batch(0), 0, "x")
    unknown = name_in_stream("spark", "unknown", 0)
    sealed = replace(written.branch, transactional_id=unknown.transactional_id)
    with pytest.raises(transaction.TransactionLost):
        commit(here, [TaskWritten(unknown, written.owner, sealed, 1)])
    assert here.committed("copy") == []


def test_offsets_of_a_group_are_committed_with_the_batch(here):
    offsets = {TopicPartition("orders", 1): 5}
    written = [task(here, batch(0), 0, "a")]
    commit(here, written, offsets=offsets, group="audit")
    commit(here, written, offsets={TopicPartition("orders", 1): 1}, group="audit")

    def described():
        return {each.partition: each.offset for each in here.cluster.admin.describe_group("audit")}

    until(lambda: described() == offsets, "the group has the offsets", 20)


def test_a_task_without_rows_takes_no_part(here):
    idle = task(here, batch(0), 1)
    assert (idle.owner, idle.branch, idle.rows) == (None, None, 0)
    assert open_transactions(here) == []
    commit(here, [task(here, batch(0), 0, "a"), idle])
    until_committed(here, "a")


def test_a_batch_without_rows_commits_its_offsets(here):
    """A query may have left out everything that it has read; it has read it nevertheless."""
    offsets = {TopicPartition("orders", 1): 5}
    idle = [task(here, batch(0), 0)]
    asked = questions_of(here, commit, idle, offsets=offsets, group="audit")
    assert asked == [BeginBranched, CommitTransactionOffsets, EndBranched]
    assert questions_of(here, commit, idle, offsets=offsets, group="audit") == [BeginBranched]
    described = here.cluster.admin.describe_group("audit")
    assert {each.partition: each.offset for each in described} == offsets


# Aborting


def test_an_aborted_batch_can_be_done_again(here):
    task(here, batch(0), 0, "a")
    transaction.abort(here.cluster, batch(0), TIMEOUT_MS)
    commit(here, [task(here, batch(0), 0, "b")])
    until_committed(here, "b")


def test_an_abort_leaves_a_committed_batch_alone(here):
    commit(here, [task(here, batch(0), 0, "a")])
    transaction.abort(here.cluster, batch(0), TIMEOUT_MS)
    until_committed(here, "a")


def test_a_task_that_comes_after_its_job_has_failed_begins_nothing(here):
    """Spark ends the tasks of a failed job, but one may just have started; its rows must not hold up readers."""
    writer = BatchWriter(SinkOptions.parse({"topic": "copy"}, streaming=False), here)
    writer.write(rows("a"))
    writer.abort([None, None])
    late = writer.write(rows("b"))
    assert isinstance(late, TaskWritten)
    assert late.branch is None
    assert open_transactions(here) == []
    assert here.committed("copy") == []


# Topics


def test_worker_asks_for_a_topic_that_it_does_not_know(here):
    commit(here, [task(here, batch(0), 0, "a")])
    here.on_loop(here.world.create, "later", 1)
    written = write_branch(rows("b"), batch(1), 0, sink_options(topic="later"), here)
    commit(here, [written])
    until(lambda: here.committed("later") == ["b"], "it is visible", 20)


def test_messages_that_are_not_ours_do_not_count():
    written = TaskWritten(batch(0), ProducerIdentity(1, 0), None, 3)
    assert transaction.tasks_of([None, written, "noise"]) == [written]
