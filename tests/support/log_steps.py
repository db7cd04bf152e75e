"""Random workloads for a log."""

from hypothesis import strategies as st

from eagleray.broker.log import config as log_config
from eagleray.broker.log.config import LogConfig
from tests.support import log_driver as steps

SEGMENT_BYTES = 1024
RETENTION_MS = 1_000

# Small segments, so that a handful of batches rolls them, and dense indexes, so that every batch is in one.
configs = st.builds(
    LogConfig,
    segment_bytes=st.just(SEGMENT_BYTES),
    index_interval_bytes=st.sampled_from([0, 200]),
    retention_ms=st.just(RETENTION_MS),
    message_timestamp_type=st.sampled_from(log_config.TimestampType),
    flush=st.sampled_from(log_config.Flush),
)

producers = st.sampled_from(steps.PRODUCERS)
percents = st.integers(0, 100)

new_batches = st.builds(
    steps.NewBatch,
    producer=producers,
    record_count=st.integers(1, 3),
    value_bytes=st.sampled_from([0, 40, 300, 300]),
    in_new_epoch=st.sampled_from([False, False, False, True]),
)
appends = st.builds(steps.Append, batches=st.lists(new_batches, min_size=1, max_size=4).map(tuple))
ends = st.builds(
    steps.EndTransactions,
    commit=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    even_empty=st.sampled_from([False, False, False, True]),
)
writes = st.one_of(appends, appends, appends, ends)

checks = st.one_of(
    st.builds(steps.Repeat, producer=producers, back=st.integers(0, 4)),
    st.builds(steps.SkipSequence, producer=producers),
)
moves = st.one_of(
    st.just(steps.ElectLeader()),
    st.builds(steps.AdvanceHighWatermark, percent=percents),
    st.just(steps.AdvanceHighWatermark(100)),
    st.builds(steps.DeleteRecords, percent=percents),
    st.builds(steps.Truncate, count=st.integers(1, 12)),
    st.builds(steps.ApplyRetention, waited_ms=st.sampled_from([0, RETENTION_MS // 2, 2 * RETENTION_MS])),
)
keeping = st.sampled_from(
    [
        steps.Flush(),
        steps.BeginFlush(),
        steps.BeginFlush(),
        steps.FinishFlush(),
        steps.FinishFlush(),
        steps.WriteCheckpoint(),
        steps.Reopen(),
        steps.WriteBookmark(),
    ]
)

workloads = st.lists(
    st.one_of(writes, writes, checks, moves, keeping, st.just(steps.WriteBookmark())), min_size=3, max_size=25
)
