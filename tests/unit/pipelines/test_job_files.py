"""Job files: what they mean, and what is said about those that cannot be run."""

import pytest

from eagleray.pipelines.jobs import InvalidJob, SparkSizes, Watermark, parse_job, read_job
from eagleray.pipelines.jobs.model import Pipeline, Sink, Source, as_options

TOML = """
name = "large-orders"
checkpoint = "checkpoints/large"
trigger = "5 seconds"

[source]
topics = ["orders", "more-orders"]
value_schema = "order_id BIGINT, amount_cents BIGINT, event_time_ms BIGINT"
watermark = { event_time = "timestamp_millis(event_time_ms)", delay = "5 seconds" }
options = { maxOffsetsPerTrigger = 1000, failOnDataLoss = false }

[transform]
sql = "SELECT * FROM input JOIN merchants USING (merchant_id)"

[tables.merchants]
format = "csv"
path = "merchants.csv"
options = { header = true }

[sink]
topic = "large-orders"
key = "order_id"

[spark]
executors = 2
cores = 1
"""
YAML = """
name: large-orders
checkpoint: /var/lib/large
source:
  pattern: orders-.*
transform:
  function: my_jobs:only_large
sink:
  topic: large-orders
"""
SMALLEST = {"name": "copy", "checkpoint": "here", "source": {"topics": ["a"]}, "sink": {"topic": "b"}}


def written(tmp_path, text, name="job.toml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def changed(place, **changes):
    """The smallest job, with something else in one of its tables."""
    if not place:
        return SMALLEST | changes
    return SMALLEST | {place: SMALLEST.get(place, {}) | changes}


def test_toml_is_read_whole(tmp_path):
    job = read_job(written(tmp_path, TOML))

    assert job.source.topics == ("orders", "more-orders")
    assert job.source.watermark == Watermark(event_time="timestamp_millis(event_time_ms)", delay="5 seconds")
    assert as_options(job.source.options) == {"maxOffsetsPerTrigger": "1000", "failOnDataLoss": "false"}
    assert job.transform.sql.startswith("SELECT")
    assert job.tables["merchants"].format == "csv"
    assert (job.sink.topic, job.sink.key) == ("large-orders", "order_id")
    assert job.spark == SparkSizes(executors=2, cores=1)
    assert (job.trigger, job.cluster) == ("5 seconds", "")


def test_paths_are_those_beside_the_file(tmp_path, monkeypatch):
    written(tmp_path, TOML)
    monkeypatch.chdir(tmp_path.parent)
    job = read_job(f"{tmp_path.name}/job.toml")
    assert job.path(job.checkpoint) == str(tmp_path / "checkpoints/large")
    assert job.path("/elsewhere") == "/elsewhere"
    assert job.path("s3://bucket/large") == "s3://bucket/large"


def test_yaml_is_read_whole(tmp_path):
    job = read_job(written(tmp_path, YAML, "job.yaml"))
    assert (job.source.pattern, job.source.topics) == ("orders-.*", ())
    assert job.transform.function == "my_jobs:only_large"
    assert job.path(job.checkpoint) == "/var/lib/large"


def test_smallest_job_copies_what_is_there():
    job = parse_job(SMALLEST)
    assert job.transform is None
    assert job.trigger == "available-now"
    assert job.spark == SparkSizes(executors=1, cores=2, memory="1g")


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        ([], "a job is a table with at least name, checkpoint, source and sink"),
        ({}, "missing required field `name`"),
        (changed("", sorce={}), "unknown name 'sorce'; did you mean 'source'?"),
        (changed("source", topcs=["a"]), r"unknown name 'topcs' in \[source\]; did you mean 'topics'?"),
        (changed("spark", core=2), r"unknown name 'core' in \[spark\]; did you mean 'cores'?"),
        (
            changed("source", watermark={"delay": "1 minute", "evnt_time": "x"}),
            r"unknown name 'evnt_time' in \[source.watermark\]; did you mean 'event_time'?",
        ),
        (
            changed("tables", merchants={"pth": "x"}),
            r"unknown name 'pth' in \[tables.merchants\]; did you mean 'path'?",
        ),
        (changed("tables", merchants={}), "tables: Object missing required field `path`"),
        (changed("source", topics="a"), "source.topics: Expected `array`, got `str`"),
        (changed("source", topics=[]), "source: the source needs either `topics`"),
        (changed("source", pattern="a.*"), "source: the source needs either `topics`"),
        (changed("source", malformed="ignore"), "source.malformed: Invalid enum value 'ignore'"),
        (changed("transform"), "transform: the transform needs either `sql`"),
        (changed("transform", sql="SELECT 1", function="a:b"), "transform: the transform needs either `sql`"),
        (changed("transform", function="only_large"), "function is 'only_large'; expected `module:function`"),
        (changed("sink", topc="b"), r"unknown name 'topc' in \[sink\]; did you mean 'topic'?"),
        (changed("source", options={"maxOffsetsPerTriger": 1}), "source: .*maxOffsetsPerTriger.*maxOffsetsPerTrigger"),
        (changed("source", options={"endingOffsets": "latest"}), "source: .*endingOffsets"),
        (changed("sink", options={"compresion": "lz4"}), "sink: .*compresion.*compression"),
        (changed("", trigger="5 s"), "the trigger is '5 s'; expected 'available-now', or an interval such as"),
        (changed("", trigger="0 seconds"), "the trigger is '0 seconds'"),
        (changed("spark", executors=0), "spark.executors is 0; expected at least 1"),
        (changed("spark", executors="two"), "spark.executors: Expected `int`, got `str`"),
        (changed("spark", memory="1 GB"), "spark.memory is '1 GB'; expected a size such as '512m'"),
        (changed("", directory="/tmp"), "unknown name 'directory'"),
    ],
)
def test_wrong_job_file_is_refused_with_its_reason(content, refusal):
    with pytest.raises(InvalidJob, match=refusal):
        parse_job(content)


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("job.toml", "name = \n", r"job.toml: this is not TOML: .*\(at line 1, column 8\)"),
        ("job.yaml", "name: [", "job.yaml: this is not YAML: "),
        ("job.toml", "nme = 'a'", "job.toml: unknown name 'nme'; did you mean 'name'?"),
        ("job.json", "{}", "expected a name that ends in .toml, .yaml, .yml"),
    ],
)
def test_refusal_names_the_file(tmp_path, name, text, refusal):
    with pytest.raises(InvalidJob, match=refusal):
        read_job(written(tmp_path, text, name))


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidJob, match=r"cannot read the job file .*none.toml \(No such file or directory\)"):
        read_job(str(tmp_path / "none.toml"))


def test_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "job.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidJob, match="is not text in UTF-8"):
        read_job(str(tmp_path / "job.toml"))


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [({"name": ""}, "no name"), ({"checkpoint": ""}, "no checkpoint"), ({"trigger": "soon"}, "trigger is 'soon'")],
)
def test_pipelines_made_in_python_are_held_to_the_same(changes, refusal):
    whole = {"name": "copy", "source": Source(topics=("a",)), "sink": Sink(topic="b"), "checkpoint": "here"}
    with pytest.raises(InvalidJob, match=refusal):
        Pipeline(**whole | changes)
