"""From the start and end that options name to the offsets of each partition.

    questions = timestamps_to_look_up(position, bounds)     # what to ask the leaders
    answers = ...                                            # the offset for each, None where no record is as late
    resolved = resolve_start(position, bounds, answers, ...)

Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.options.errors import OptionError
from eagleray.pipelines.options.positions import (
    EARLIEST,
    LATEST,
    Earliest,
    GlobalTimestamp,
    Latest,
    PartitionTimestamps,
    Position,
    SpecificOffsets,
)
from eagleray.pipelines.source.data_loss import Losses, Resolved
from eagleray.pipelines.source.offsets import Bounds, OffsetRange, Offsets

Side = Literal["starting", "ending"]
Answers = Mapping[TopicPartition, int | None]


def timestamps_to_look_up(position: Position, partitions: Collection[TopicPartition]) -> Offsets:
    """Return the time in milliseconds for which to look up an offset, of each partition that needs one."""
    match position:
        case GlobalTimestamp(timestamp_ms):
            return dict.fromkeys(partitions, timestamp_ms)
        case PartitionTimestamps(timestamps_ms):
            return {partition: timestamps_ms[partition] for partition in partitions if partition in timestamps_ms}
        case _:
            return {}


def resolve_start(
    position: Position,
    bounds: Mapping[TopicPartition, Bounds],
    answers: Answers,
    *,
    on_no_match: Literal["error", "latest"] = "error",
    fail_on_data_loss: bool = True,
) -> Resolved:
    """Return where to begin in each partition of `bounds`.

    Raises OptionError where the option does not fit the partitions or a time has no record, and DataLossError where
    an offset lies outside of its log.
    """

    def unmatched(partition: TopicPartition) -> int:
        if on_no_match == "error":
            raise _no_match(position, partition)
        return LATEST

    return _resolve("starting", position, bounds, answers, unmatched, fail_on_data_loss=fail_on_data_loss)


def resolve_end(
    position: Position,
    bounds: Mapping[TopicPartition, Bounds],
    answers: Answers,
    *,
    fail_on_data_loss: bool = True,
) -> Resolved:
    """Return where to end in each partition of `bounds`: at the latest where no record is as late as a time."""
    return _resolve("ending", position, bounds, answers, lambda _: LATEST, fail_on_data_loss=fail_on_data_loss)


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """Return the ranges of a batch query, in the order of partitions; none may end before it begins."""
    for partition in sorted(end):
        if start[partition] > end[partition]:
            raise OptionError(
                f"The options ask to read {partition} from offset {start[partition]} to {end[partition]}, which is "
                "before it. Set the starting options to an earlier place or the ending options to a later one."
            )
    return [OffsetRange(each.topic, each.partition, start[each], end[each]) for each in sorted(end)]


def _resolve(
    side: Side,
    position: Position,
    bounds: Mapping[TopicPartition, Bounds],
    answers: Answers,
    unmatched: Callable[[TopicPartition], int],
    *,
    fail_on_data_loss: bool,
) -> Resolved:
    _check_partitions(side, position, bounds.keys())
    losses = Losses()
    offsets = {}
    for partition, each in bounds.items():
        wanted = _wanted(position, partition, answers, unmatched)
        inside = _inside(wanted, each)
        # A time is not a promise that the log still has it; an offset is one.
        if isinstance(position, SpecificOffsets) and wanted >= 0 and inside != wanted:
            losses.add(
                f"{side}Offsets has {wanted} for {partition}, whose log has {each.earliest} to {each.latest} to read."
            )
        offsets[partition] = inside
    return Resolved(offsets, losses.settle(fail_on_data_loss=fail_on_data_loss))


def _wanted(
    position: Position, partition: TopicPartition, answers: Answers, unmatched: Callable[[TopicPartition], int]
) -> int:
    match position:
        case Earliest():
            return EARLIEST
        case Latest():
            return LATEST
        case SpecificOffsets(offsets):
            return offsets[partition]
        case GlobalTimestamp() | PartitionTimestamps():
            found = answers[partition]
            return unmatched(partition) if found is None else found


def _inside(wanted: int, bounds: Bounds) -> int:
    if wanted == EARLIEST:
        return bounds.earliest
    if wanted == LATEST:
        return bounds.latest
    return max(bounds.earliest, min(wanted, bounds.latest))


def _check_partitions(side: Side, position: Position, partitions: Collection[TopicPartition]) -> None:
    """Raise OptionError unless an option that names partitions names exactly those that the query reads."""
    match position:
        case SpecificOffsets(named):
            name, hint = f"{side}Offsets", " Use -1 for the latest offset and -2 for the earliest."
        case PartitionTimestamps(named):
            name, hint = f"{side}OffsetsByTimestamp", f" Use {side}Timestamp for one time for all."
        case _:
            return
    missing = sorted(set(partitions) - named.keys())
    unknown = sorted(named.keys() - set(partitions))
    if missing or unknown:
        raise OptionError(
            f"{name} has to name all the partitions that the query reads and no others: "
            f"{_listed('missing are', missing)}{' and ' if missing and unknown else ''}"
            f"{_listed('not read are', unknown)}.{hint}"
        )


def _listed(what: str, partitions: list[TopicPartition]) -> str:
    return f"{what} {', '.join(str(partition) for partition in partitions)}" if partitions else ""


def _no_match(position: Position, partition: TopicPartition) -> OptionError:
    match position:
        case PartitionTimestamps(timestamps_ms):
            name, timestamp_ms = "startingOffsetsByTimestamp", timestamps_ms[partition]
        case GlobalTimestamp(timestamp_ms):
            name = "startingTimestamp"
        case _:
            raise AssertionError(f"{position} has no time")
    return OptionError(
        f"{name} is {timestamp_ms}, but {partition} has no record that is as late. Choose an earlier time, or set "
        "startingOffsetsByTimestampStrategy to latest to begin at the end of such partitions."
    )
