"""How far a micro-batch goes: examples; tests/property/pipelines has what holds for all."""

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.source.rate_limit import is_due, next_offsets

PARTITIONS = [TopicPartition("orders", number) for number in range(4)]


def of(*numbers: int) -> dict[TopicPartition, int]:
    return dict(zip(PARTITIONS, numbers, strict=False))


@pytest.mark.parametrize(
    ("start", "latest", "limit", "end"),
    [
        (of(0, 0), of(10, 30), None, of(10, 30)),
        (of(0, 0), of(10, 30), 40, of(10, 30)),
        (of(0, 0), of(10, 30), 20, of(5, 15)),
        (of(5, 100), of(15, 130), 20, of(10, 115)),
        # A small partition does not starve beside a large one, and the limit still holds.
        (of(0, 0, 0, 0), of(1000, 1, 1, 1), 10, of(7, 1, 1, 1)),
        # Fewer than there are partitions: each goes on.
        (of(0, 0, 0), of(5, 5, 5), 2, of(1, 1, 1)),
        (of(0, 3), of(5, 3), 1, of(1, 3)),
        # A log that has become shorter does not take the query back.
        (of(9, 0), of(5, 5), 3, of(9, 3)),
        (of(), of(), 3, of()),
        (of(3), of(3), 3, of(3)),
        # Numbers near the largest offset.
        (of(0), of(2**63 - 1), 2**62, of(2**62)),
    ],
)
def test_batch_ends_at_its_limit(start, latest, limit, end):
    assert next_offsets(start, latest, limit) == end


def test_a_partition_that_is_gone_has_no_end():
    assert next_offsets(of(0, 0), {PARTITIONS[0]: 5}, 3) == {PARTITIONS[0]: 3}


@pytest.mark.parametrize(
    ("latest", "waited_ms", "due"),
    [
        (of(5, 4), 0, False),
        (of(5, 5), 0, True),
        (of(5, 4), 999, False),
        (of(5, 4), 1000, True),
        (of(0, 0), 1000, True),
    ],
)
def test_a_batch_waits_for_enough_or_for_long_enough(latest, waited_ms: int, due: bool):
    assert is_due(of(0, 0), latest, min_rows=10, waited_ms=waited_ms, max_delay_ms=1000) is due


def test_a_shorter_log_does_not_hide_what_waits_elsewhere():
    assert is_due(of(100, 0), of(0, 10), min_rows=10, waited_ms=0, max_delay_ms=1000)
