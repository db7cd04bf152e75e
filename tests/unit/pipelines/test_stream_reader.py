"""Where a stream begins, how far each of its batches goes, and what a batch reads."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from eagleray.pipelines.options import OptionError, SourceOptions
from eagleray.pipelines.source.data_loss import DataLossError
from eagleray.pipelines.source.stream_reader import StreamReader

ALL = ReadAllAvailable()


def reader(here, **options):
    given = {"subscribe": "orders", "startingOffsets": "earliest", **options}
    return StreamReader(SourceOptions.parse(given, streaming=True), here)


def send(here, *values, partition=0):
    with here.cluster.producer() as producer:
        for value in values:
            producer.send("orders", value, partition=partition)


def at(*offsets):
    return {"orders": {str(partition): offset for partition, offset in enumerate(offsets)}}


def read(stream, start, end):
    return sorted(
        value.decode()
        for task in stream.partitions(start, end)
        for rows in stream.read(task)
        for value in rows.column("value").to_pylist()
    )


def test_a_batch_takes_what_there_is(here):
    stream = reader(here)
    assert stream.initialOffset() == at(0, 0, 0)
    send(here, "a", "b")
    send(here, "c", partition=2)
    assert stream.latestOffset(at(0, 0, 0), ALL) == at(2, 0, 1)
    assert stream.latestOffset(at(2, 0, 1), ALL) == at(2, 0, 1)
    assert read(stream, at(0, 0, 0), at(2, 0, 1)) == ["a", "b", "c"]
    assert read(stream, at(1, 0, 0), at(2, 0, 1)) == ["b", "c"]
    assert stream.reportLatestOffset() == at(2, 0, 1)


def test_a_batch_is_limited(here):
    send(here, *"abcdef")
    stream = reader(here, maxOffsetsPerTrigger="4")
    assert stream.getDefaultReadLimit() == ReadMaxRows(4)
    assert reader(here).getDefaultReadLimit() == ALL
    assert stream.latestOffset(at(0, 0, 0), ReadMaxRows(4)) == at(4, 0, 0)


def test_a_stream_that_begins_at_the_end_keeps_that_place_before_it_reads(here):
    """Its first batch has no records, whatever has come since; so it can be run again, and begins at another end."""
    send(here, "before")
    stream = reader(here, startingOffsets="latest")
    initial = stream.initialOffset()
    assert initial == at(1, 0, 0)
    send(here, "first")
    assert stream.latestOffset(initial, ALL) == initial
    again = reader(here, startingOffsets="latest")
    begun_later = again.initialOffset()
    assert begun_later == at(2, 0, 0)
    assert read(again, begun_later, initial) == []
    end = stream.latestOffset(initial, ALL)
    assert read(stream, initial, end) == ["first"]


def test_records_after_available_now_began_are_left(here):
    send(here, "a")
    stream = reader(here)
    stream.prepareForTriggerAvailableNow()
    send(here, "b")
    assert stream.latestOffset(stream.initialOffset(), ALL) == at(1, 0, 0)


def test_available_now_at_the_end_of_topics_that_are_written_to(here):
    """What came before the query had a beginning is not taken for lost."""
    stream = reader(here, startingOffsets="latest")
    stream.prepareForTriggerAvailableNow()
    send(here, "a")
    initial = stream.initialOffset()
    assert initial == at(1, 0, 0)
    assert stream.latestOffset(initial, ALL) == initial
    assert stream.latestOffset(initial, ALL) == initial


def test_partitions_that_come_after_a_first_batch_was_planned(here):
    """It is run again, and Spark asks again where it begins: with more partitions than it ends with."""
    send(here, "a")
    end = reader(here).latestOffset(at(0, 0, 0), ALL)
    here.cluster.admin.grow_topic("orders", 4)
    send(here, "b", partition=3)
    stream = reader(here)
    start = stream.initialOffset()
    assert start == at(0, 0, 0, 0)
    assert read(stream, start, end) == ["a"]
    assert read(stream, end, stream.latestOffset(end, ALL)) == ["b"]


def test_a_stream_waits_for_enough_but_not_with_available_now(here):
    send(here, "a")
    stream = reader(here, minOffsetsPerTrigger="5")
    assert stream.latestOffset(at(0, 0, 0), ALL) == at(0, 0, 0)
    impatient = reader(here, minOffsetsPerTrigger="5", maxTriggerDelay="1ms")
    assert impatient.latestOffset(at(0, 0, 0), ALL) == at(1, 0, 0)
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(at(0, 0, 0), ALL) == at(1, 0, 0)


def test_a_log_that_does_not_reach_as_far_as_the_checkpoint(here):
    with pytest.raises(DataLossError, match="got to offset 9 of orders-0, but its log ends at 0"):
        reader(here).latestOffset(at(9, 0, 0), ALL)
    lenient = reader(here, failOnDataLoss="false")
    assert lenient.latestOffset(at(9, 0, 0), ALL) == at(0, 0, 0)


def test_a_topic_that_does_not_exist(here):
    with pytest.raises(OptionError, match=r"subscribe names order.*Did you mean orders"):
        reader(here, subscribe="order").initialOffset()
