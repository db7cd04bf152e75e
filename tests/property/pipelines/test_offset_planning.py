"""What holds for every plan of what Spark reads, whatever waits where."""

import json
from collections import defaultdict
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.source.data_loss import begin_offsets, plan_ranges
from eagleray.pipelines.source.offsets import Bounds, OffsetRange, from_checkpoint, to_checkpoint
from eagleray.pipelines.source.rate_limit import next_offsets
from eagleray.pipelines.source.splitting import split

partitions = st.builds(TopicPartition, st.sampled_from(("a", "b", "ü-topic")), st.integers(0, 5))
offsets = st.integers(0, 2**63 - 1) | st.integers(0, 50)
sizes = st.integers(0, 30) | st.integers(0, 10**12)
limits = st.integers(1, 40) | st.integers(1, 10**12)

Backlog = tuple[dict[TopicPartition, int], dict[TopicPartition, int]]


@st.composite
def backlogs(draw: st.DrawFn) -> Backlog:
    """Where a query stands and how far the logs go, some of which may have become shorter."""
    start = draw(st.dictionaries(partitions, st.integers(0, 10**9), max_size=8))
    latest = {
        partition: max(0, offset + draw(sizes) - draw(st.sampled_from((0, 0, 3))))
        for partition, offset in start.items()
    }
    return start, latest


@st.composite
def range_lists(draw: st.DrawFn) -> list[OffsetRange]:
    """One range for each of some partitions, a few of them empty or backwards."""
    starts = draw(st.dictionaries(partitions, st.integers(0, 10**15), max_size=8))
    size = st.integers(-2, 40)
    return [OffsetRange(each.topic, each.partition, start, start + draw(size)) for each, start in starts.items()]


@given(st.dictionaries(partitions, offsets))
def test_a_checkpoint_gives_back_what_was_put_in(given_offsets: dict[TopicPartition, int]):
    text = json.dumps(to_checkpoint(given_offsets))
    assert from_checkpoint(json.loads(text)) == given_offsets


# How far a batch goes


@given(backlogs(), limits)
def test_a_batch_stays_between_where_it_begins_and_what_there_is(backlog: Backlog, limit: int):
    start, latest = backlog
    end = next_offsets(start, latest, limit)

    assert end.keys() == latest.keys()
    for partition, offset in end.items():
        assert start[partition] <= offset <= max(start[partition], latest[partition])


@given(backlogs(), limits)
def test_a_batch_takes_what_it_may(backlog: Backlog, limit: int):
    start, latest = backlog
    waiting = {each: max(0, latest[each] - start[each]) for each in latest}
    filled = sum(size > 0 for size in waiting.values())

    end = next_offsets(start, latest, limit)

    # Exactly the limit, or one of each partition where that is more, or all there is where that is less.
    assert sum(end[each] - start[each] for each in end) == min(sum(waiting.values()), max(limit, filled))


@given(backlogs(), limits)
def test_every_partition_that_has_something_goes_on(backlog: Backlog, limit: int):
    start, latest = backlog
    end = next_offsets(start, latest, limit)
    assert all(end[each] > start[each] for each in latest if latest[each] > start[each])


@given(backlogs(), limits)
def test_shares_are_in_proportion(backlog: Backlog, limit: int):
    start, latest = backlog
    waiting = {each: latest[each] - start[each] for each in latest if latest[each] > start[each]}
    end = next_offsets(start, latest, limit)
    taken = {each: end[each] - start[each] for each in waiting}

    # Beyond the one that each gets, a share is the exact one, rounded up or down.
    beyond = sum(waiting.values()) - len(waiting)
    rest = max(0, min(limit - len(waiting), beyond))
    for each, size in waiting.items():
        exact = 1 + Fraction(rest * (size - 1), beyond or 1)
        assert abs(taken[each] - exact) < 1
    # Who has more waiting never gets less.
    for one in waiting:
        for other in waiting:
            if waiting[one] > waiting[other]:
                assert taken[one] >= taken[other]
    # The plan does not depend on the order in which partitions were found.
    assert next_offsets(start, dict(reversed(latest.items())), limit) == end


@given(backlogs(), st.integers(10, 40))
def test_batch_after_batch_reads_each_offset_once_and_ends(backlog: Backlog, limit: int):
    start, latest = backlog
    latest = {each: min(offset, start[each] + 60) for each, offset in latest.items()}
    read = defaultdict(list)
    position = start
    while (end := next_offsets(position, latest, limit)) != position:
        for each in end:
            read[each].extend(range(position[each], end[each]))
        position = end
    assert all(read[each] == list(range(start[each], latest[each])) for each in latest)


# How tasks share it


@given(range_lists(), st.none() | st.integers(1, 60), st.none() | st.integers(1, 20))
def test_tasks_cover_each_offset_once_and_in_order(ranges, minimum, maximum):
    covered = [
        (each.topic_partition, offset)
        for each in split(ranges, minimum, maximum)
        for offset in range(each.start, each.end)
    ]
    assert covered == [(each.topic_partition, offset) for each in ranges for offset in range(each.start, each.end)]


@given(range_lists(), st.none() | st.integers(1, 60), st.none() | st.integers(1, 20))
def test_tasks_respect_their_limits(ranges, minimum, maximum):
    tasks = split(ranges, minimum, maximum)
    total = sum(max(0, each.size) for each in ranges)

    assert all(each.size > 0 for each in tasks)
    assert len(tasks) >= min(minimum or 0, total)
    if maximum is not None:
        assert all(each.size <= maximum for each in tasks)


@given(range_lists(), st.integers(1, 60), st.none() | st.integers(1, 20))
def test_no_range_is_cut_without_need(ranges, minimum, maximum):
    needed = split(ranges, None, maximum)
    assert len(split(ranges, minimum, maximum)) == max(len(needed), min(minimum, sum(each.size for each in needed)))


@given(range_lists(), st.integers(1, 60))
def test_pieces_are_as_even_as_they_can_be(ranges, minimum):
    pieces = defaultdict(list)
    for task in split(ranges, minimum):
        pieces[task.topic_partition].append(task.size)
    assert all(max(each) - min(each) <= 1 for each in pieces.values())
    # Nothing was cut while something larger was left: to undo any cut would give a piece at least as large as all.
    largest = max((Fraction(sum(each), len(each)) for each in pieces.values()), default=0)
    assert all(Fraction(sum(each), len(each) - 1) >= largest for each in pieces.values() if len(each) > 1)


# From one batch to the next


@given(st.data())
def test_a_query_that_loses_nothing_reads_all_offsets_of_logs_that_grow_and_come(data: st.DataObject):
    bounds: dict[TopicPartition, Bounds] = {}
    checkpoint, read = {}, defaultdict(list)
    for _ in range(data.draw(st.integers(1, 5))):
        for each in data.draw(st.lists(partitions, max_size=4)):
            bounds[each] = Bounds(0, bounds.get(each, Bounds(0, 0)).latest + data.draw(st.integers(0, 20)))
        begin = begin_offsets(from_checkpoint(checkpoint), bounds, fail_on_data_loss=True).offsets
        latest = {each: bound.latest for each, bound in bounds.items()}
        end = to_checkpoint(next_offsets(begin, latest, data.draw(st.none() | st.integers(1, 30))))
        plan = plan_ranges(from_checkpoint(checkpoint), from_checkpoint(end), bounds, fail_on_data_loss=True)
        for task in split(plan.ranges, data.draw(st.none() | st.integers(1, 9))):
            read[task.topic_partition].extend(range(task.start, task.end))
        checkpoint = end
    assert {each: read[each] for each in bounds} == {
        each: list(range(offset)) for each, offset in from_checkpoint(checkpoint).items()
    }


@given(st.dictionaries(partitions, offsets), st.dictionaries(partitions, offsets), st.data())
def test_a_query_that_goes_on_never_reads_outside_of_the_logs(start, end, data: st.DataObject):
    edges = data.draw(st.dictionaries(partitions, st.tuples(offsets, offsets)))
    bounds = {each: Bounds(min(pair), max(pair)) for each, pair in edges.items()}

    begin = begin_offsets(start, bounds, fail_on_data_loss=False)
    assert begin.offsets.keys() == bounds.keys()
    assert all(bounds[each].earliest <= offset <= bounds[each].latest for each, offset in begin.offsets.items())

    plan = plan_ranges(start, end, bounds, fail_on_data_loss=False)
    for each in plan.ranges:
        assert each.size <= 0 or bounds[each.topic_partition].earliest <= each.start < each.end
        assert each.end <= min(end[each.topic_partition], bounds[each.topic_partition].latest)
