"""What the driver does: commits the branches of the tasks that counted, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eagleray.broker.identities import ProducerIdentity
from eagleray.client.errors import FatalError, ProducerFenced, RefusedError, TransactionAborted
from eagleray.client.producer.sync_branches import Transaction
from eagleray.client.sync_cluster import SyncCluster
from eagleray.pipelines.sink.checkpoint_check import CheckpointCheck
from eagleray.pipelines.sink.task import TaskWritten
from eagleray.pipelines.sink.transaction_name import TransactionName
from eagleray.pipelines.source.offsets import Offsets


class TransactionLost(TransactionAborted):
    """What the tasks have written was aborted before the driver could commit it."""

    advice = (
        "Nothing of it is visible. Run it again: Spark does so for a batch of a stream when the query is started. "
        "Where batches take longer than the transaction may, raise the option transactionTimeout."
    )


def commit(
    cluster: SyncCluster,
    written: Sequence[TaskWritten],
    *,
    timeout_ms: int,
    offsets: Offsets | None = None,
    group: str | None = None,
    check: CheckpointCheck | None = None,
    begins_anew: bool = False,
) -> None:
    """Commit what these tasks have written; raise TransactionLost where it was aborted before.

    One question decides it, besides that about the offsets. Where the batch was committed before, by any driver,
    nothing changes. CheckpointMismatch where the batch does not pass the check.
    """
    took_part = [task for task in written if task.owner is not None]
    if check is not None:
        for task in took_part:
            check.require(task.name, task.remembered)
    branches = [task.branch for task in took_part if task.branch is not None]
    if len(branches) < len(took_part):
        # A task has found the batch committed.
        return
    name, owners = written[0].name, {task.owner for task in took_part}
    try:
        transaction = _transaction_of(cluster, name, owners, timeout_ms, begins_anew=begins_anew)
        if check is not None:
            check.require(name, transaction.remembered)
        transaction.commit(branches, offsets=offsets or None, group=group)
    except (FatalError, TransactionAborted, RefusedError) as error:
        # Another driver may have committed the same batch; then all is well.
        found = _begin(cluster, name, timeout_ms)
        if found.already_committed:
            return
        if found.owner in owners:
            found.abort()
        if isinstance(error, (ProducerFenced, TransactionAborted)):
            raise TransactionLost(
                f"the transaction of {name.transactional_id!r} for {name.tag!r} was aborted, perhaps by timeout."
            ) from error
        raise


def _transaction_of(
    cluster: SyncCluster,
    name: TransactionName,
    owners: set[ProducerIdentity | None],
    timeout_ms: int,
    *,
    begins_anew: bool,
) -> Transaction:
    """Return the transaction that tasks have begun, or begin it where none had rows; raise where it is not one."""
    owner, *others = owners or {None}
    if others:
        raise TransactionAborted("some tasks have written in a transaction, others in one that came after it.")
    if owner is None:
        return _begin(cluster, name, timeout_ms, begins_anew=begins_anew)
    return cluster.resume(name.transactional_id, tag=name.tag, owner=owner)


def _begin(cluster: SyncCluster, name: TransactionName, timeout_ms: int, *, begins_anew: bool = False) -> Transaction:
    return cluster.begin(
        name.transactional_id, tag=name.tag, timeout_ms=timeout_ms, shared=True, begins_anew=begins_anew
    )


def abort(cluster: SyncCluster, name: TransactionName, timeout_ms: int) -> None:
    """Abort whatever is open under this name, and nothing else."""
    transaction = _begin(cluster, name, timeout_ms)
    if not transaction.already_committed:
        transaction.abort()


def commit_nothing(cluster: SyncCluster, name: TransactionName, timeout_ms: int) -> None:
    """Abort the transaction that is open under this name, for good: a later task finds nothing left to do.

    A task may come late, when its job has failed. It would begin the transaction anew after a plain abort, and only
    the timeout would end that.
    """
    _begin(cluster, name, timeout_ms).commit()


def tasks_of(messages: Iterable[object]) -> list[TaskWritten]:
    """Return what the tasks have told; a task that has failed told nothing."""
    return [message for message in messages if isinstance(message, TaskWritten)]
