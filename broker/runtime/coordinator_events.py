"""What every coordinator is told of its partitions and their logs, and what it wants appended."""

from __future__ import annotations

from typing import Any, TypeAlias

from eagleray.broker.messages import Message


class PartitionAssigned(Message, frozen=True, tag=True):
    """This coordinator is to lead a partition of its log, at an epoch that none has had before it.

    Until the partition is loaded, clients are told to try again.
    """

    log_partition: int
    coordinator_epoch: int


class PartitionLoaded(Message, frozen=True, tag=True):
    """A partition of the log has been read to its end; the coordinator owns what that has come to."""

    log_partition: int
    coordinator_epoch: int
    state: Any


class PartitionResigned(Message, frozen=True, tag=True):
    """Another coordinator leads a partition of the log from now on."""

    log_partition: int
    coordinator_epoch: int


class Committed(Message, frozen=True, tag=True):
    """The log of a partition is committed up to a position that `AppendRecords` has named: it is replicated."""

    log_partition: int
    coordinator_epoch: int
    position: int


class AppendFailed(Message, frozen=True, tag=True):
    """The log of a partition has not taken the records of a turn, so what is known of it here is ahead of it.

    The coordinator throws that away; `PartitionLoaded` has to follow, at the same epoch, once all that the log does
    hold is replicated.
    """

    log_partition: int
    coordinator_epoch: int


class TimeSet(Message, frozen=True, tag=True):
    """The time of day, which the log keeps, is ahead by so much of the time by which the coordinator counts."""

    by_ms: int


LogEvent: TypeAlias = PartitionAssigned | PartitionLoaded | PartitionResigned | Committed | AppendFailed


class AppendRecords(Message, frozen=True, tag=True):
    """Append the records of a turn to a partition of a coordinator's log, in their order.

    `Committed` with the same position follows when they are replicated; `AppendFailed` follows in the same turn, before
    anything else, when the log does not take all of them.
    """

    log_partition: int
    coordinator_epoch: int
    position: int
    records: list[tuple[Any, Any]]
    """Keys and values, as the coordinator gave them to its runtime; of one key there may be several."""
