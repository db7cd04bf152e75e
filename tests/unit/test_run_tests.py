"""scripts/run_tests.py: every folder runs, and the last line and the exit code tell the truth."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.scripts import load_script

SCRIPT = Path(__file__).parents[2] / "scripts" / "run_tests.py"

PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert False\n"
SKIPPED = "import pytest\n@pytest.mark.skip\ndef test_is_skipped(): pass\n"
CANNOT_BE_IMPORTED = "import no_such_module\n"
IN_A_CLASS = """
import pytest

class TestThings:
    @pytest.mark.parametrize("number", [1, 2])
    def test_fails(self, number):
        assert number == 1, "two is too many"
"""
ENDS_THE_PROCESS = """
import os

def test_ends_the_process():
    os.write(2, b"the last words\\n")
    os._exit(3)
"""
WAITS = """
import pathlib, time

def test_waits():
    try:
        pathlib.Path("waiting").touch()
        time.sleep(600)
    finally:
        pathlib.Path("cleaned up").touch()
"""


def meets(mine: str, other: str) -> str:
    """A test that is done when a test elsewhere has begun."""
    return f"""
import pathlib, time

def test_meets_another():
    pathlib.Path("{mine}").touch()
    while not pathlib.Path("{other}").exists():
        time.sleep(0.02)
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return load_script("run_tests", monkeypatch)


@pytest.fixture(autouse=True)
def bare_pytest(monkeypatch: pytest.MonkeyPatch):
    """The runs inside of these tests load no plugin but the one that runs tests side by side."""
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")


def write_tests(root: Path, **folders: str) -> None:
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n')
    for folder, tests in folders.items():
        (root / "tests" / folder).mkdir(parents=True)
        (root / "tests" / folder / "test_some.py").write_text(tests)


def run(script, root: Path, *tracks, afterwards=(), monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(root)
    runner = script.Runner((sys.executable, "-m", "pytest"), root / "files", root / "reports")
    return script.run_all(script.Plan(tracks, afterwards), runner)


def start(root: Path, *chosen: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), "--workers", "1", "--basetemp", "files", "--reports", "reports", "--"]
    return subprocess.Popen([*command, *chosen], cwd=root, stdout=subprocess.PIPE, text=True, process_group=0)


def last_line(capfd: pytest.CaptureFixture[str]) -> str:
    return capfd.readouterr().out.splitlines()[-1]


def test_one_failing_folder_keeps_no_other_from_running(script, tmp_path, monkeypatch, capfd):
    write_tests(tmp_path, unit=PASSES + FAILS, property=PASSES, crash=CANNOT_BE_IMPORTED, cluster=FAILS, torture=PASSES)
    together = script.Command(script.SIDE_BY_SIDE, ("tests/unit", "tests/property", "tests/crash"))
    with_ray = tuple(script.Command(folder, (f"tests/{folder}",)) for folder in ("cluster", "torture"))
    assert run(script, tmp_path, with_ray, (together,), monkeypatch=monkeypatch) == 1
    lines = capfd.readouterr().out.splitlines()
    # Which run ends first is a matter of luck.
    assert sorted(re.findall(r"[a-z/]+ failed \([^)]+\)", lines[-1])) == [
        "tests/cluster failed (1 of 1)",
        "tests/crash failed (1 of 1)",
        "tests/unit failed (1 of 2)",
    ]
    assert re.match(r"make test: (property, torture|torture, property) passed \(2 tests\); ", lines[-1])
    assert sum("1 failed" in line for line in lines) == 2, "pytest's own summaries are printed"


def test_failures_of_all_folders_are_said_once_more_at_the_end(script, tmp_path, monkeypatch, capfd):
    write_tests(tmp_path, unit=IN_A_CLASS, crash=CANNOT_BE_IMPORTED, cluster=PASSES + FAILS, torture=ENDS_THE_PROCESS)
    together = script.Command(script.SIDE_BY_SIDE, ("tests/unit", "tests/crash"))
    with_ray = tuple(script.Command(folder, ("-s", f"tests/{folder}")) for folder in ("cluster", "torture"))
    assert run(script, tmp_path, with_ray, (together,), monkeypatch=monkeypatch) == 1
    *_, said = capfd.readouterr().out.split("\nWhat failed:\n")
    for line in (
        "FAILED tests/unit/test_some.py::TestThings::test_fails[2]",
        "    E       AssertionError: two is too many",
        "FAILED tests/cluster/test_some.py::test_fails",
        "    E   ModuleNotFoundError: No module named 'no_such_module'",
        "tests/torture: pytest ended with 3",
        "    tests/torture/test_some.py the last words",
    ):
        assert line in said.splitlines()
    assert "test_passes" not in said


def test_tracks_run_at_the_same_time_and_each_in_its_order(script, tmp_path, monkeypatch):
    """Each test of one track waits for the other track to have come as far."""
    write_tests(tmp_path, unit=meets("a", "b"), cluster=meets("b", "a"), torture=PASSES)
    tracks = [
        tuple(script.Command(name, (f"tests/{name}",)) for name in names)
        for names in (["cluster", "torture"], ["unit"])
    ]
    assert run(script, tmp_path, *tracks, monkeypatch=monkeypatch) == 0
    assert {path.name for path in (tmp_path / "reports").iterdir()} == {
        f"{name}.{kind}" for name in ("cluster", "torture", "unit") for kind in ("xml", "log")
    }


def test_track_that_has_ended_takes_what_is_left(script, tmp_path, monkeypatch, capfd):
    """The first track ends when the last run of all has begun, so that the second has run all but the first."""
    write_tests(tmp_path, pipelines=meets("spark", "last"), unit=PASSES, cluster=PASSES, torture=meets("last", "spark"))
    first, second, *afterwards = (
        script.Command(name, (f"tests/{name}",)) for name in ("pipelines", "unit", "cluster", "torture")
    )
    assert run(script, tmp_path, (first,), (second,), afterwards=tuple(afterwards), monkeypatch=monkeypatch) == 0
    assert re.findall(r"tests/(\w+) begin;", capfd.readouterr().out) == ["pipelines", "unit", "cluster", "torture"]


def test_time_of_a_folder_is_printed(script, tmp_path, monkeypatch, capfd):
    write_tests(tmp_path, unit=PASSES, cluster=PASSES)
    tracks = [(script.Command(name, (f"tests/{name}",)),) for name in ("unit", "cluster")]
    assert run(script, tmp_path, *tracks, monkeypatch=monkeypatch) == 0
    said = re.findall(
        r"^make test: (\S+) took \d+:\d\d, and \d+:\d\d of a core\.$", capfd.readouterr().out, re.MULTILINE
    )
    assert sorted(said) == ["tests/cluster", "tests/unit"]


def test_everything_that_passes_is_counted(script, tmp_path, monkeypatch, capfd):
    write_tests(tmp_path, unit=PASSES + SKIPPED, property=PASSES)
    together = script.Command(script.SIDE_BY_SIDE, ("tests",))
    assert run(script, tmp_path, (together,), monkeypatch=monkeypatch) == 0
    assert last_line(capfd) == "make test: property, unit passed (2 tests, 1 more skipped)."


def test_chosen_tests_are_one_run(tmp_path):
    write_tests(tmp_path, unit=PASSES + FAILS, cluster=PASSES)
    process = start(tmp_path, "-k", "passes and not cluster")
    output, _ = process.communicate()
    assert (process.returncode, output.splitlines()[-1]) == (0, "make test: unit passed (1 test).")


def test_choice_that_fits_no_test_has_failed(script, tmp_path, monkeypatch, capfd):
    write_tests(tmp_path, unit=PASSES)
    chosen = script.Command(script.SIDE_BY_SIDE, ("-k", "no_such_test"))
    assert run(script, tmp_path, (chosen,), monkeypatch=monkeypatch) == 1
    assert last_line(capfd) == "make test: the tests side by side failed (no test was found)."


def test_folders_with_ray_run_on_two_tracks_once_those_without_have_ended(script):
    plan = script.plan(4, [])
    with_spark, (together,) = plan.tracks
    with_ray = (*with_spark, *plan.afterwards)
    assert [command.arguments[-1] for command in with_spark] == list(script.WITH_SPARK)
    assert together.arguments[:4] == ("-n", "4", "--dist", "loadgroup")
    assert {f"--ignore={folder}" for folder in (*script.WITH_RAY, "tests/deploy")} <= set(together.arguments)
    assert [command.arguments[-1] for command in with_ray] == list(script.WITH_RAY)
    assert all("-n" not in command.arguments for command in with_ray)
    assert all("--ignore=tests/machines/test_head.py" in command.arguments for command in with_ray)


def test_quick_run_starts_no_ray_and_leaves_the_slow_folders_out(script):
    ((quick,),) = script.quick_plan(2).tracks
    assert {f"--ignore={folder}" for folder in (*script.WITH_RAY, *script.NOT_QUICK)} <= set(quick.arguments)


def test_folders_that_are_named_exist(script):
    root, named = SCRIPT.parents[1], (*script.WITH_RAY, *script.LEFT_OUT, *script.NOT_QUICK)
    assert [path for path in named if not (root / path).exists()] == []


def test_run_that_wrote_no_report_has_failed(script, tmp_path):
    command = script.Command("cluster", ())
    (outcome,) = script.outcomes(script.Ended(command, -9, tmp_path / "missing.xml", None))
    assert str(outcome) == "tests/cluster failed (pytest ended with -9 and wrote no report)"
    (tmp_path / "torn.xml").write_text("<testsuites><testsuite>")
    assert script.outcomes(script.Ended(command, 1, tmp_path / "torn.xml", None))[0].is_failure


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupted_run_ends_after_its_tests_have_cleaned_up(tmp_path, name):
    write_tests(tmp_path, unit=WAITS)
    process = start(tmp_path, "-n", "0")
    while not (tmp_path / "waiting").exists():
        assert process.poll() is None
        time.sleep(0.02)
    # A terminal sends Ctrl-C to the whole group, and what stops a job sends SIGTERM to the one that it has started.
    os.killpg(process.pid, signal.SIGINT) if name == "SIGINT" else process.terminate()
    output, _ = process.communicate()
    assert process.returncode == 130
    assert (tmp_path / "cleaned up").exists()
    assert output.splitlines()[-1] == "make test: nothing was run; interrupted in the tests side by side."
