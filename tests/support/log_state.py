"""Everything that a log holds in memory and in its files of batches, to compare it before and after something."""

from typing import Any

from eagleray.broker.log import names
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.segment import Segment
from tests.support.log_checks import aborted_in, offset_entries, time_entries
from tests.support.log_driver import DIRECTORY
from tests.support.simulated_disk import SimulatedDisk


def describe_log(log: PartitionLog, disk: SimulatedDisk) -> dict[str, Any]:
    """Describe a log; an empty segment at its end is none."""
    segments = log.segments
    if len(segments) > 1 and not log.active_segment.size_bytes:
        segments = segments[:-1]
    unstable = log.producers.unstable
    return {
        "offsets": (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset),
        "epochs": (list(log.epochs), log.epochs.latest_epoch),
        "producers": sorted((entry.producer_id, entry.state()) for entry in log.producers),
        "unstable": (list(unstable._unstable), list(unstable._undecided), unstable.unreplicated),
        "aborted": aborted_in(log),
        "segments": [_describe_segment(segment) for segment in segments],
        "batches": {
            path: data
            for path, data in disk.tree().items()
            if path.startswith(f"{DIRECTORY}/") and path.endswith(names.LOG_SUFFIX) and data
        },
    }


def _describe_segment(segment: Segment) -> tuple[Any, ...]:
    index = segment.transaction_index
    largest = (segment.largest_timestamp_ms, segment.offset_of_largest_timestamp)
    times = time_entries(segment)
    # The last entry of a closed segment, which one that goes on may have as well.
    sparse_times = times[:-1] if times and times[-1] == largest else times
    minima = [level.tolist() for level in index._minima]
    return segment.base_offset, segment.state(), offset_entries(segment), sparse_times, minima
