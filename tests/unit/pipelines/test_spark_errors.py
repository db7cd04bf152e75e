"""What Spark raises is told in one line, also when the Java process that holds its text has ended."""

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from eagleray.pipelines.cli.errors import translated
from eagleray.pipelines.spark_errors import cause_of, is_from_spark, remember_texts
from eagleray.pipelines.spark_log import keep_log, kept_logs

TASK_FAILED = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0 in "
    "stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 9) (127.0.0.1 executor 1): "
    "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n\tat org.apache"
)


class AsksJava(AnalysisException):
    """An error as PySpark has it: its text is with a Java process."""

    is_java_running = True

    def __init__(self):
        super().__init__("", {})
        self._stackTrace = "org.apache.spark.sql.AnalysisException: no column x\n\tat org.apache.spark.Somewhere"

    def __str__(self):
        assert AsksJava.is_java_running
        return "[UNRESOLVED_COLUMN] no column x.\n'Project ['x]"


@pytest.fixture
def asking(monkeypatch):
    monkeypatch.setattr(AsksJava, "is_java_running", True)
    return AsksJava()


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (TASK_FAILED, "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"),
        ("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: no such file", "no such file"),
        (
            "An error occurred while calling o51.sql.\n: java.lang.IllegalStateException: it is stopped\n\tat x",
            "it is stopped",
        ),
        (
            "[UNRESOLVED_COLUMN] no column x. SQLSTATE: 42703; line 1 pos 7;\n'Project",
            "[UNRESOLVED_COLUMN] no column x. SQLSTATE: 42703; line 1 pos 7",
        ),
    ],
)
def test_cause_is_told_without_what_spark_wraps_it_in(message, cause):
    assert cause_of(message) == cause


def test_text_of_an_error_outlives_the_java_process(asking, monkeypatch):
    wrapper = RuntimeError("later")
    wrapper.__cause__ = asking
    remember_texts(wrapper)
    monkeypatch.setattr(AsksJava, "is_java_running", False)
    assert str(asking).startswith("[UNRESOLVED_COLUMN] no column x.")
    assert isinstance(asking, AsksJava), "it is still caught by its class"
    assert str(translated(asking)) == "[UNRESOLVED_COLUMN] no column x."


def test_log_of_a_session_that_spark_failed_is_kept_and_named(asking, tmp_path, monkeypatch):
    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path / "home"))
    log = tmp_path / "spark.log"
    log.write_text("WARN what Spark said\n")
    keep_log(log, "my job/1", asking)
    (kept,) = kept_logs().iterdir()
    assert kept.name.startswith("my-job-1-")
    assert kept.read_text().startswith("WARN what Spark said\n")
    assert "[UNRESOLVED_COLUMN] no column x" in kept.read_text()
    assert "at org.apache.spark.Somewhere" in kept.read_text()
    assert str(translated(asking)) == f"[UNRESOLVED_COLUMN] no column x. (Spark's log is {kept})"


def test_log_is_not_kept_for_an_error_of_the_program(tmp_path, monkeypatch):
    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path / "home"))
    keep_log(tmp_path / "spark.log", "job", ValueError("a bug"))
    assert not kept_logs().exists()


def test_error_is_told_where_its_log_cannot_be_kept(asking, tmp_path, monkeypatch):
    (tmp_path / "home").write_text("a file, not a directory")
    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path / "home"))
    (tmp_path / "spark.log").write_text("")
    keep_log(tmp_path / "spark.log", "job", asking)
    assert "no column x. (Spark's log could not be kept: " in str(translated(asking))


def test_old_logs_make_room_for_new_ones(asking, tmp_path, monkeypatch):
    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path / "home"))
    (tmp_path / "spark.log").write_text("")
    for number in range(15):
        keep_log(tmp_path / "spark.log", f"job{number}", asking)
    assert len(list(kept_logs().iterdir())) == 10


def test_errors_of_spark_are_told_from_others():
    assert is_from_spark(PySparkException("x", "y", {}))
    assert is_from_spark(Py4JError("x"))
    assert not is_from_spark(RuntimeError("x"))
