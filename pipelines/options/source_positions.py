"""Where the options of a source say to begin and to end."""

from __future__ import annotations

from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.options import values
from eagleray.pipelines.options.errors import OptionError
from eagleray.pipelines.options.given import Given
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
from eagleray.pipelines.options.table import Option

_WORDS: Final[dict[str, Position]] = {"earliest": Earliest(), "latest": Latest()}
_REFUSED: Final = {
    LATEST: ("latest", "A batch query cannot begin there: write 'earliest', or -2 or an offset for each partition"),
    EARLIEST: ("earliest", "A batch query cannot end there: write 'latest', or -1 or an offset for each partition"),
}
_STRATEGY: Final = "startingOffsetsByTimestampStrategy"


def starting_position(given: Given) -> Position:
    """Return where to begin; of several options the one with the highest precedence, as in Spark's Kafka source."""
    position = _position(given, "starting")
    if not given.streaming:
        _refuse_place("startingOffsets", position, LATEST)
    has_time = given.has("startingTimestamp") or given.has("startingOffsetsByTimestamp")
    if given.has(_STRATEGY) and not has_time:
        raise OptionError(
            f"{_STRATEGY} is given without a time to begin at: give startingTimestamp or startingOffsetsByTimestamp as "
            "well, or leave it out."
        )
    return position


def ending_position(given: Given) -> Position:
    """Return where a batch query ends."""
    position = _position(given, "ending")
    _refuse_place("endingOffsets", position, EARLIEST)
    return position


def check_order(start: Position, end: Position) -> None:
    """Raise OptionError for an end that lies before its start as the options have them."""
    match start, end:
        case SpecificOffsets(starts), SpecificOffsets(ends):
            _check_each("startingOffsets", starts, "endingOffsets", ends)
        case PartitionTimestamps(starts), PartitionTimestamps(ends):
            _check_each("startingOffsetsByTimestamp", starts, "endingOffsetsByTimestamp", ends)
        case GlobalTimestamp(start_ms), GlobalTimestamp(end_ms) if start_ms > end_ms:
            raise OptionError(f"startingTimestamp is {start_ms}, which is after endingTimestamp, {end_ms}: swap them.")


def _position(given: Given, side: str) -> Position:
    # All of them are parsed, so that an error in one that is not followed does not stay hidden.
    timestamp = given.optional(f"{side}Timestamp", values.milliseconds)
    timestamps = given.optional(f"{side}OffsetsByTimestamp", values.partition_timestamps)
    offsets = given.optional(f"{side}Offsets", _offsets)
    if timestamp is not None:
        return GlobalTimestamp(timestamp)
    if timestamps is not None:
        return PartitionTimestamps(timestamps)
    assert offsets is not None, f"the table has no default for {side}Offsets"
    return offsets


def _offsets(option: Option, text: str) -> Position:
    word = text.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    if not word.startswith("{"):
        values.refuse(option, text, "earliest, latest or JSON with an offset for each partition")
    return SpecificOffsets(values.partition_offsets(option, text))


def _refuse_place(name: str, position: Position, number: int) -> None:
    """Refuse a place for all partitions, or the number that stands for it for one of them."""
    word, reason = _REFUSED[number]
    if position == _WORDS[word]:
        raise OptionError(f"{name} is {word!r}. {reason}.")
    named = position.offsets if isinstance(position, SpecificOffsets) else {}
    refused = sorted(partition for partition, offset in named.items() if offset == number)
    if refused:
        raise OptionError(f"{name} has {number}, for {word}, for {refused[0]}. {reason}.")


def _check_each(
    start_name: str, starts: dict[TopicPartition, int], end_name: str, ends: dict[TopicPartition, int]
) -> None:
    different = sorted(starts.keys() ^ ends.keys())
    if different:
        raise OptionError(
            f"{start_name} and {end_name} have to name the same partitions, but only one of them has "
            f"{', '.join(str(partition) for partition in different)}."
        )
    for partition, start in sorted(starts.items()):
        # Numbers below zero stand for the earliest and the latest offset, which are unknown here.
        if start > ends[partition] >= 0:
            raise OptionError(
                f"{start_name} has {start} for {partition}, which is after {end_name}, {ends[partition]}: swap them."
            )
