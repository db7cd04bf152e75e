"""Retention against Kafka's three passes: by the start of the log, by size, by age, each from the oldest segment on."""

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.log import LogConfig, PartitionLog
from tests.support.batches import data_batch
from tests.support.logs import DIRECTORY, append, base_offsets
from tests.support.simulated_disk import SimulatedDisk

SEGMENT_BYTES = 1024
CREATED_MS = 500

ages = st.sampled_from([-1, 100, 200, 300, 400, 500])
segments = st.lists(st.tuples(st.integers(540, 900), ages), min_size=1, max_size=6)
"""The bytes of a segment's one record, which leave no room for a second, and its timestamp or -1."""


@dataclass
class Segment:
    """A segment as retention sees it."""

    base_offset: int
    end_offset: int
    size_bytes: int
    newest_ms: int


def three_passes(
    kept: list[Segment], config: LogConfig, *, start_offset: int, high_watermark: int, now_ms: int
) -> list[Segment]:
    """Return what is left. The last segment is the active one."""

    def drop(is_deletable: Callable[[Segment], bool]) -> None:
        while kept and kept[0].end_offset <= high_watermark and kept[0].size_bytes and is_deletable(kept[0]):
            del kept[0]

    active = kept[-1]
    drop(lambda segment: segment is not active and segment.end_offset <= start_offset)
    if config.cleanup_delete:
        if config.retention_bytes >= 0:
            drop(lambda segment: sum(each.size_bytes for each in kept) - segment.size_bytes >= config.retention_bytes)
        if config.retention_ms >= 0:
            drop(lambda segment: now_ms - segment.newest_ms > config.retention_ms)
    return kept


@given(
    segments,
    st.builds(
        LogConfig,
        segment_bytes=st.just(SEGMENT_BYTES),
        retention_bytes=st.sampled_from([-1, 0, 600, 1500, 3000]),
        retention_ms=st.sampled_from([-1, 0, 100, 250]),
        cleanup_delete=st.booleans(),
        cleanup_compact=st.just(True),
    ),
    st.data(),
)
def test_records_left_are_those_that_three_passes_leave(
    contents: list[tuple[int, int]], config: LogConfig, data: st.DataObject
) -> None:
    log = PartitionLog.open(SimulatedDisk(), DIRECTORY, config, now_ms=CREATED_MS)
    for value_bytes, timestamp_ms in contents:
        append(log, data_batch(keys=[b"k"], value=b"x" * value_bytes, timestamps_ms=[timestamp_ms]), now_ms=CREATED_MS)
    assert base_offsets(log) == list(range(len(contents)))
    log.advance_high_watermark(data.draw(st.integers(0, len(contents))))
    start_offset = log.delete_records(data.draw(st.integers(0, log.high_watermark)))
    model = [
        Segment(
            segment.base_offset,
            segment.base_offset + 1,
            segment.size_bytes,
            CREATED_MS if contents[segment.base_offset][1] < 0 else contents[segment.base_offset][1],
        )
        for segment in log.segments
    ]
    now_ms = data.draw(st.integers(400, 800))
    left = three_passes(model, config, start_offset=start_offset, high_watermark=log.high_watermark, now_ms=now_ms)
    size_bytes = log.size_bytes
    freed_bytes = log.apply_retention(now_ms)
    assert freed_bytes == size_bytes - log.size_bytes
    assert base_offsets(log) == ([segment.base_offset for segment in left] or [log.log_end_offset])
    assert log.log_start_offset == max(start_offset, base_offsets(log)[0])
    assert log.apply_retention(now_ms) == 0
