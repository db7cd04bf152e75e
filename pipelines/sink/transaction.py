"""What the driver does: commits the branches of the tasks that counted, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eagleray.client.errors import FatalError, RefusedError, TransactionAborted
from eagleray.client.producer.branches import SealedBranch
from eagleray.client.producer.sync_branches import Transaction
from eagleray.client.sync_cluster import SyncCluster
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
) -> bool:
    """Commit what these tasks have written; return whether it had to be done, for it may have been done before.

    Repeating it changes nothing, whoever repeats it.
    """
    name = written[0].name
    try:
        transaction = cluster.begin(name.transactional_id, tag=name.tag, timeout_ms=timeout_ms, shared=True)
        if transaction.already_committed:
            return False
        transaction.commit(_branches(transaction, written), offsets=offsets or None, group=group)
    except (FatalError, TransactionAborted, RefusedError):
        # Another driver may have committed the same batch in this moment; then all is well.
        if _is_committed(cluster, name, timeout_ms):
            return False
        raise
    return True


def _branches(transaction: Transaction, written: Sequence[TaskWritten]) -> list[SealedBranch]:
    """Return the branches to commit; all of them have to be of the transaction that is open."""
    took_part = [task for task in written if task.owner is not None]
    branches = [task.branch for task in took_part if task.branch is not None and task.owner == transaction.owner]
    if len(branches) < len(took_part):
        transaction.abort()
        name = written[0].name
        raise TransactionLost(
            f"the transaction of {name.transactional_id!r} for {name.tag!r} was aborted, perhaps by timeout."
        )
    return branches


def _is_committed(cluster: SyncCluster, name: TransactionName, timeout_ms: int) -> bool:
    return cluster.begin(name.transactional_id, tag=name.tag, timeout_ms=timeout_ms, shared=True).already_committed


def abort(cluster: SyncCluster, name: TransactionName, timeout_ms: int) -> None:
    """Abort whatever is open under this name, and nothing else."""
    transaction = cluster.begin(name.transactional_id, tag=name.tag, timeout_ms=timeout_ms, shared=True)
    if not transaction.already_committed:
        transaction.abort()


def commit_nothing(cluster: SyncCluster, name: TransactionName, timeout_ms: int) -> None:
    """Abort whatever is open under this name, for good: who comes later finds that there is nothing left to do.

    A task may come late, when its job has failed. It would begin the transaction anew after a plain abort, and nobody
    would end that before its timeout.
    """
    cluster.begin(name.transactional_id, tag=name.tag, timeout_ms=timeout_ms, shared=True).commit()


def tasks_of(messages: Iterable[object]) -> list[TaskWritten]:
    """Return what the tasks have told; a task that has failed told nothing."""
    return [message for message in messages if isinstance(message, TaskWritten)]
