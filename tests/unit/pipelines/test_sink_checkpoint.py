"""What the sink reads in the checkpoint of its query."""

import json

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.sink.checkpoint import offsets_of, planned_ms_of, query_id_of
from eagleray.pipelines.source.offsets import CheckpointError


@pytest.fixture
def location(tmp_path):
    """A checkpoint as Spark writes it, of a query with two of our sources and others."""
    (tmp_path / "metadata").write_text('{"id":"4711-abc"}')
    (tmp_path / "offsets").mkdir()
    sources = ['{"orders": {"0": 5, "1": 7}}', "17", '{"logOffset":3}', "-", '{"payments": {"0": 2}}']
    about = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1767225600123, "conf": {}})
    (tmp_path / "offsets" / "3").write_text("\n".join(["v1", about, *sources]))
    return tmp_path


@pytest.mark.parametrize("form", ["{}", "{}/", "file:{}", "file://{}"])
def test_a_location_may_be_a_path_or_a_uri(location, form):
    assert query_id_of(form.format(location)) == "4711-abc"


def test_offsets_are_those_of_our_sources(location):
    assert offsets_of(str(location), 3) == {
        TopicPartition("orders", 0): 5,
        TopicPartition("orders", 1): 7,
        TopicPartition("payments", 0): 2,
    }


@pytest.mark.parametrize("where", ["/no/such/place", "nonsense://host/place"])
def test_a_checkpoint_that_cannot_be_read(where):
    with pytest.raises(CheckpointError, match=f"offsets/9 of the checkpoint at {where} cannot be read by the driver"):
        offsets_of(where, 9)


def test_when_a_batch_was_planned(location):
    assert planned_ms_of(str(location), 3) == 1767225600123


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}", "v1\n[]", "v1\nnonsense", 'v1\n{"batchTimestampMs": null}'])
def test_a_checkpoint_that_does_not_tell_when_a_batch_was_planned(location, text):
    (location / "offsets" / "4").write_text(text)
    assert [planned_ms_of(where, 4) for where in (str(location), "/no/such/place", None)] == [None] * 3
