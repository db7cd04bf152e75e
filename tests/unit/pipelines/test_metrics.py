"""What Spark says about a trigger, read."""

import json

from eagleray.pipelines.jobs.metrics import metrics_of

PROGRESS = {
    "id": "5b1f",
    "runId": "77aa",
    "name": "copy",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "batchId": 4,
    "numInputRows": 500,
    "durationMs": {"addBatch": 180, "triggerExecution": 250},
    "eventTime": {"watermark": "2025-12-31T23:59:00.000Z"},
    "stateOperators": [{"numRowsTotal": 7}, {"numRowsTotal": 2}],
    "sources": [{"description": "orders", "startOffset": {"orders": {"0": 10}}, "endOffset": {"orders": {"0": 510}}}],
    "sink": {"description": "eagleray", "numOutputRows": -1},
    "observedMetrics": {"eagleray": {"rows": 12}},
}


def test_batch_is_read():
    batch = metrics_of(json.dumps(PROGRESS))
    assert (batch.batch_id, batch.rows_in, batch.rows_out, batch.duration_ms) == (4, 500, 12, 250)
    assert batch.rows_per_second == 2000
    assert batch.start_offsets == {"orders": {"0": 10}}
    assert batch.end_offsets == {"orders": {"0": 510}}
    assert batch.state_rows == 9
    assert batch.watermark == "2025-12-31T23:59:00.000Z"


def test_trigger_without_a_batch_is_none():
    assert metrics_of(json.dumps(PROGRESS | {"durationMs": {"latestOffset": 2, "triggerExecution": 2}})) is None


def test_batch_of_several_sources_has_the_offsets_of_each():
    batch = metrics_of(json.dumps(PROGRESS | {"sources": PROGRESS["sources"] * 2, "observedMetrics": {}}))
    assert batch.end_offsets == [{"orders": {"0": 510}}] * 2
    assert batch.rows_out == 0
