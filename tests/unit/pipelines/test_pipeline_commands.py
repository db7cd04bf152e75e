"""`eagleray pipeline`: found without being imported, and what it says where it cannot go on."""

import json
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from eagleray.actors.cluster import ray_probe
from eagleray.cli.errors import UsageError
from eagleray.client.errors import NotConnected
from eagleray.pipelines import jobs, session
from eagleray.pipelines.cli import running
from eagleray.pipelines.cli.errors import translated
from eagleray.pipelines.examples import EXAMPLES
from eagleray.pipelines.options import OptionError
from eagleray.pipelines.spark_errors import cause_of
from tests.support.cli_cluster import fail, invoke, succeed

HEAVY = {"matplotlib", "numpy", "pyarrow", "pyspark", "raydp"}


def run_python(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No test sees clusters of this machine."""
    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EAGLERAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_probe, "started_by_ray", lambda: None)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("arguments", [["--help"], ["pipeline", "--help"], ["pipeline", "run", "--help"]])
def test_help_is_given_without_spark(arguments):
    program = (
        "import sys\n"
        "from eagleray.cli.app import app\n"
        f"app({arguments!r}, standalone_mode=False)\n"
        f"print('loaded', [name for name in sys.modules if name in {HEAVY!r}])"
    )
    result = run_python(program)
    assert result.returncode == 0, result.stderr
    assert "pipeline" in result.stdout
    assert result.stdout.endswith("loaded []\n")


def test_other_commands_do_not_look_for_added_ones():
    program = (
        "import sys\n"
        "from eagleray.cli.app import app\n"
        "try:\n    app(['status', '--name', 'none'])\nexcept SystemExit as end:\n    print(end.code)\n"
        "print([name for name in sys.modules if name.startswith('eagleray.pipelines')])"
    )
    assert run_python(program).stdout == "1\n[]\n"


def test_without_the_extra_one_line_says_what_to_install(tmp_path):
    program = (
        "import sys\n"
        "sys.modules['pyarrow'] = sys.modules['numpy'] = None\n"
        "from eagleray.cli.app import app\n"
        "app(['pipeline', 'generate', '--topic', 'orders'])"
    )
    result = run_python(program)
    assert result.returncode == 1
    assert result.stderr.startswith("error: `eagleray pipeline` needs ")
    assert result.stderr.endswith("install it with `pip install 'eagleray[spark]'`.\n")
    assert result.stderr.count("\n") == 1


def test_examples_are_listed():
    shown = succeed("pipeline", "examples").stdout
    assert all(name in shown for name in EXAMPLES)
    assert json.loads(succeed("pipeline", "examples", "--json").stdout) == EXAMPLES


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("example", "reveneu"), "there is no example 'reveneu'; did you mean 'revenue'?"),
        (("example", "revenue"), "there is no Eagleray cluster that was started on this machine"),
        (("generate",), "there is nothing to do: say --topic NAME"),
        (("generate", "--topic", "orders"), "there is no Eagleray cluster that was started on this machine"),
        (("run", "none.toml"), "cannot read the job file none.toml (No such file or directory)"),
        (("loadtest", "--spark-rows", "0", "--ray-tasks", "0"), "nothing would drive the broker"),
    ],
)
def test_impossible_command_is_refused_in_one_line(tmp_path, monkeypatch, arguments, refusal):
    monkeypatch.chdir(tmp_path)
    result = invoke("pipeline", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert refusal in result.stderr
    assert result.stderr.count("\n") == 1


JOB = """
name = "copies"
checkpoint = "checkpoint"
source.topics = ["orders"]
sink.topic = "copies"
"""


class Only:
    """A cluster that is the only one, with the topics of the job."""

    name = "only"
    admin = SimpleNamespace(list_topics=lambda **_: {"orders": 1, "copies": 1})


@pytest.fixture
def job(tmp_path):
    """A job file that names no cluster."""
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


@pytest.mark.parametrize(
    ("options", "named", "expected"), [((), "", ""), ((), "mine", "mine"), (("--name", "other"), "mine", "other")]
)
def test_job_that_names_no_cluster_runs_on_the_only_one(job, monkeypatch, options, named, expected):
    if named:
        job.write_text(f'cluster = "{named}"\n{JOB}')
    asked, ran = [], []

    def cluster_of(connection):
        asked.append(connection.name)
        return nullcontext(Only)

    def run_pipeline(_, pipeline, __):
        ran.append(pipeline.cluster)
        return jobs.metrics.PipelineReport(name="copies", batches=[], seconds=0.0)

    monkeypatch.setattr(running, "cluster_of", cluster_of)
    monkeypatch.setattr(running, "quiet_spark", lambda *_, **__: nullcontext())
    monkeypatch.setattr(jobs, "run_pipeline", run_pipeline)
    succeed("pipeline", "run", job, *options)
    assert asked == [expected]
    assert ran == [Only.name]


@pytest.fixture
def plans(monkeypatch):
    """Spark, which finds every plan right."""
    monkeypatch.setattr(session, "planning_session", lambda *_: nullcontext())
    monkeypatch.setattr(jobs, "check_plan", lambda *_: None)
    monkeypatch.setattr(ray_probe, "running_here", tuple)


@pytest.mark.usefixtures("plans")
def test_check_without_any_cluster_says_that_topics_were_not_checked(job):
    said = succeed("pipeline", "run", job, "--check").stderr
    assert "is right" in said
    assert "its topics were not checked: there is no Eagleray cluster that was started on this machine" in said


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (("--address", "nonsense"), "expected HOST:PORT"),
        (("--address", "127.0.0.1:1"), "no Ray cluster answers at 127.0.0.1:1"),
        (("--name", "nope"), "no Eagleray cluster named 'nope'"),
        (("--name", "../nope"), "--name is '../nope'"),
    ],
)
@pytest.mark.usefixtures("plans")
def test_check_fails_where_the_cluster_that_was_named_is_not_there(job, options, refusal):
    assert refusal in fail("pipeline", "run", job, "--check", *options)


@pytest.mark.usefixtures("plans")
def test_check_fails_where_the_cluster_of_the_job_is_not_there(job):
    job.write_text(f'cluster = "mine"\n{JOB}')
    assert "no Eagleray cluster named 'mine'" in fail("pipeline", "run", job, "--check")


@pytest.mark.usefixtures("plans")
def test_check_fails_where_the_cluster_does_not_answer(job, monkeypatch):
    def cluster_of(_):
        raise NotConnected("no node answers.")

    monkeypatch.setattr(running, "cluster_of", cluster_of)
    assert "no node answers." in fail("pipeline", "run", job, "--check")


def test_merchants_are_written_as_a_table(tmp_path):
    succeed("pipeline", "generate", "--merchants", tmp_path / "merchants.csv")
    lines = (tmp_path / "merchants.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "merchant_id,merchant_name,merchant_country,tier,fee_basis_points"
    assert len(lines) == 501


FROM_PYTHON = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source: Traceback (most recent call last):
  File "data_source.py", line 58, in streamReader
eagleray.pipelines.options.errors.OptionError: there is no option maxOffsets.

During handling of the above exception, another exception occurred:

UnboundLocalError: cannot access local variable 'reader' where it is not associated with a value
 SQLSTATE: 38000
=== Streaming Query ===
Current State: ACTIVE"""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (FROM_PYTHON, "there is no option maxOffsets."),
        ("Failed: Traceback\n  File x\nRuntimeError: too bad\n SQLSTATE: 38000", "too bad"),
        ("\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'.\n\n== SQL ==\nSELEC", None),
        ("", "Spark failed and did not say why."),
    ],
)
def test_sparks_message_is_cut_down_to_what_it_is_about(message, said):
    assert cause_of(message) == (said or "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'.")


def test_errors_of_the_program_itself_are_not_hidden():
    assert translated(RuntimeError("a bug")) is None
    assert translated(ImportError("other", name="other")) is None
    assert isinstance(translated(OptionError("there is no such option.")), UsageError)
