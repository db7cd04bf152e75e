"""`eagleray pipeline`: found without being imported, and what it says where it cannot go on."""

import json
import subprocess
import sys

import pytest

from eagleray.cli.complaints import Complaint
from eagleray.pipelines.cli.complaining import last_words, translated
from eagleray.pipelines.examples import EXAMPLES
from eagleray.pipelines.options import OptionError
from tests.support.cli_cluster import invoke, succeed

HEAVY = {"matplotlib", "numpy", "pyarrow", "pyspark", "raydp"}
JOB = """
name = "copy"
checkpoint = "here"
source = { topics = ["a", "b"] }
sink = { topic = "c" }
"""


def run_python(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No test sees clusters of this machine."""
    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EAGLERAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
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


def test_job_file_is_checked_without_running_it(tmp_path):
    (tmp_path / "job.toml").write_text(JOB)
    result = succeed("pipeline", "run", tmp_path / "job.toml", "--check")
    assert "is right: copy reads a, b and writes c" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("example", "reveneu"), "there is no example 'reveneu'; did you mean 'revenue'?"),
        (("example", "revenue"), "no Eagleray cluster named 'default' was started on this machine"),
        (("generate",), "there is nothing to do: say --topic NAME"),
        (("generate", "--topic", "orders"), "no Eagleray cluster named 'default' was started on this machine"),
        (("run", "none.toml"), "cannot read the job file none.toml (No such file or directory)"),
        (("loadtest", "--spark-rows", "0", "--ray-tasks", "0"), "nothing would drive the broker"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    result = invoke("pipeline", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


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
def test_what_spark_says_is_cut_down_to_what_it_is_about(message, said):
    assert last_words(message) == (said or "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'.")


def test_errors_of_the_program_itself_are_not_hidden():
    assert translated(RuntimeError("a bug")) is None
    assert translated(ImportError("other", name="other")) is None
    assert isinstance(translated(OptionError("there is no such option.")), Complaint)
