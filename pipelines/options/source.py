"""The options of a source, parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self, cast

import msgspec

from eagleray.pipelines.options import values
from eagleray.pipelines.options.errors import OptionError
from eagleray.pipelines.options.given import Given
from eagleray.pipelines.options.positions import Latest, Position
from eagleray.pipelines.options.source_positions import check_order, ending_position, starting_position
from eagleray.pipelines.options.topics import Assign, Selection, Subscribe, SubscribePattern

Isolation = Literal["read_committed", "read_uncommitted"]
OnNoMatch = Literal["error", "latest"]


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, from where to where, how much at once, and of which cluster."""

    streaming: bool
    selection: Selection
    start: Position
    end: Position
    on_no_match: OnNoMatch
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    include_headers: bool
    isolation: Isolation
    cluster: str
    address: str
    contact: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> Self:
        """Parse the options of a `read` or `readStream`; raises OptionError for what cannot be followed."""
        given = Given(options, side="source", streaming=streaming)
        start = starting_position(given)
        end = Latest() if streaming else ending_position(given)
        check_order(start, end)
        _check_limits(given)
        return cls(
            streaming=streaming,
            selection=_selection(given),
            start=start,
            end=end,
            on_no_match=cast(
                OnNoMatch, given.required("startingOffsetsByTimestampStrategy", values.one_of("error", "latest"))
            ),
            max_offsets_per_trigger=given.optional("maxOffsetsPerTrigger", values.positive),
            min_offsets_per_trigger=given.optional("minOffsetsPerTrigger", values.positive),
            max_trigger_delay_ms=given.required("maxTriggerDelay", values.duration_ms),
            min_partitions=given.optional("minPartitions", values.positive_integer),
            max_records_per_partition=given.optional("maxRecordsPerPartition", values.positive),
            fail_on_data_loss=given.required("failOnDataLoss", values.boolean),
            include_headers=given.required("includeHeaders", values.boolean),
            isolation=cast(Isolation, given.required("isolation", values.one_of("read_committed", "read_uncommitted"))),
            cluster=given.required("cluster", values.name),
            address=given.required("address", values.name),
            contact=given.optional("contact", values.name),
        )


def wants_headers(options: Mapping[str, str]) -> bool:
    """Return whether rows have headers, for their schema: Spark asks for that before it says which kind of query it is.

    No other option is looked at; `parse` does that when the query is known.
    """
    name = "includeHeaders"
    given = {key: text for key, text in options.items() if key.lower() == name.lower()}
    return Given(given, side="source", streaming=False).required(name, values.boolean)


def _selection(given: Given) -> Selection:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if given.has(name)]
    if not names:
        raise OptionError(
            "The source does not know what to read: give one of subscribe ('orders,payments'), subscribePattern "
            "('orders-.*') and assign ('{\"orders\": [0, 1]}')."
        )
    if len(names) > 1:
        raise OptionError(f"{' and '.join(names)} are both given, but only one of them may be: leave the others out.")
    topics = given.optional("subscribe", values.topic_names)
    if topics is not None:
        return Subscribe(topics)
    pattern = given.optional("subscribePattern", values.pattern)
    return SubscribePattern(pattern) if pattern is not None else Assign(given.required("assign", values.partition_list))


def _check_limits(given: Given) -> None:
    least = given.optional("minOffsetsPerTrigger", values.positive)
    most = given.optional("maxOffsetsPerTrigger", values.positive)
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger is {least}, which is above maxOffsetsPerTrigger, {most}: swap them.")
    if given.has("maxTriggerDelay") and least is None:
        raise OptionError("maxTriggerDelay is given without minOffsetsPerTrigger, which it limits: give both or none.")
