"""Whether a query's checkpoint and the cluster agree about what was committed: failOnCheckpointMismatch.

After a restart Spark may run its last batch again, and no earlier one. The cluster knows the last batch that it has
committed of a query, and so whether that one is there already, until it forgets the query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from eagleray.broker.transactions.branches.tags import steps_behind
from eagleray.client.producer.branches import Remembered
from eagleray.pipelines.sink.transaction_name import TransactionName

_MARGIN: Final = 10
"""The part of the memory that is not relied on, because the clocks of a driver and of a broker may differ."""


class CheckpointMismatch(RuntimeError):
    """A batch may have been written before, and the cluster cannot tell."""


class CheckpointCheck(msgspec.Struct, frozen=True):
    """Decides for one batch from what the coordinator remembered when the batch's transaction began."""

    batch_id: int
    planned_ms: Callable[[], int | None]
    """When Spark planned the batch, as the checkpoint has it; None where that cannot be read."""

    now_ms: int

    def require(self, name: TransactionName, remembered: Remembered | None) -> None:
        """Raise CheckpointMismatch where the batch may not be taken for one that is new, or run again as it was."""
        if remembered is None:
            return
        steps = steps_behind(name.tag, remembered.committed_tag)
        if steps is None:
            self._require_recent(name, remembered.memory_ms)
        elif steps > 0:
            raise CheckpointMismatch(
                f"Batch {self.batch_id} comes after batch {self.batch_id + steps} of the same query was committed "
                f"(transactional id {name.transactional_id!r}): the checkpoint was set back, or it was copied and is "
                "used by two queries. Nothing of it is visible. Restore the newest checkpoint; or give the query a new "
                "checkpointLocation and say where it begins (startingOffsets); or set the option "
                "failOnCheckpointMismatch to false, to write this batch and those after it again, although their "
                "records are in the output already."
            )

    def _require_recent(self, name: TransactionName, memory_ms: int) -> None:
        """Raise where an earlier run of the batch could have been committed, and forgotten since."""
        planned_ms = self.planned_ms()
        if planned_ms is None:
            is_recent, age = self.batch_id == 0, "may be of any age, because its checkpoint cannot be read here"
        else:
            is_recent = self.now_ms - planned_ms < memory_ms - memory_ms // _MARGIN
            age = f"was planned {(self.now_ms - planned_ms) // 3_600_000} hours ago"
        if not is_recent:
            raise CheckpointMismatch(
                f"The cluster knows of no batch of this query (transactional id {name.transactional_id!r}), and batch "
                f"{self.batch_id} {age}: it may have been committed and forgotten, which a cluster does "
                f"{memory_ms // 3_600_000} hours after the last batch (transactional.id.expiration.ms). Nothing of "
                "this run is visible. Look whether the output has the records of this batch already. Where it has "
                "not, set the option failOnCheckpointMismatch to false until the batch is written; where it has, give "
                "the query a new checkpointLocation and say where it begins (startingOffsets)."
            )
