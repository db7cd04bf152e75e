"""scripts/explore.py: it looks for new examples until its time is over, and says how to see what it found again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.support.scripts import load_script

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "explore.py"

SETTINGS = """
import os
from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase
settings.register_profile(
    "explore",
    max_examples=int(os.environ["EXPLORED_EXAMPLES"]),
    database=DirectoryBasedExampleDatabase("examples"),
    print_blob=True,
)
settings.register_profile("replay", settings.get_profile("explore"), phases=[Phase.reuse])
settings.load_profile(os.environ["HYPOTHESIS_PROFILE"])
"""
HOLDS = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_holds(number):
    assert number == number
"""
BREAKS = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_breaks(number):
    assert number < 1000
"""

INTERRUPTED = """
import os, signal, time
from pathlib import Path
from hypothesis import given, strategies as st

runs = Path("runs")

@given(st.integers())
def test_breaks(number):
    if runs.exists() and runs.read_text() == "1":
        runs.write_text("2")
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(600)
    if number >= 1000:
        if not runs.exists():
            runs.write_text("1")
        raise AssertionError
"""
"""It interrupts the exploration when its first example that fails is being shrunk."""

STARTING = (
    SETTINGS
    + """
import signal, time
from pathlib import Path

if not Path("began").exists():
    Path("began").touch()
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(600)
"""
)
"""It interrupts the exploration while its first run starts, which cannot say so by its exit code."""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    return load_script("explore", monkeypatch)


def explore(root: Path, *, until: str, conftest: str = SETTINGS, **files: str) -> tuple[int, str]:
    """Explore some files, until a line is printed."""
    (root / "tests" / "property").mkdir(parents=True)
    (root / "conftest.py").write_text(conftest)
    for name, text in files.items():
        (root / "tests" / "property" / f"test_{name}.py").write_text(text)
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "_hypothesis_pytestplugin"}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "--seconds", "600", "--examples", "300", "--workers", "1"],
        cwd=root,
        env=os.environ | plugins | {"TMPDIR": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith(until):
            process.send_signal(signal.SIGINT)
            break
    rest, _ = process.communicate()
    assert list(root.glob("explore-*")) == [], "nothing is left in the temporary directory"
    return process.returncode, "".join(seen) + rest


def test_failure_is_printed_with_the_line_that_reproduces_it(tmp_path):
    exit_code, output = explore(tmp_path, until="round 3", holds=HOLDS, breaks=BREAKS)
    assert exit_code == 1
    assert "number=1000" in output
    assert output.count("= tests/property/test_breaks.py =") == 1, "what was found once is not printed again"
    *_, test, line, sentence = output.splitlines()
    assert test == "tests/property/test_breaks.py::test_breaks"
    assert line.startswith("    @reproduce_failure(")
    assert sentence.endswith("tests/property/test_breaks.py::test_breaks failed.")


def test_round_after_round_is_explored_while_nothing_breaks(tmp_path):
    exit_code, output = explore(tmp_path, until="round 2", holds=HOLDS)
    assert exit_code == 0
    assert "round 2: 300 examples so far" in output
    assert output.splitlines()[-1].endswith("examples in 2 rounds, and nothing failed.")


def test_example_that_was_not_shrunk_in_time_is_printed(tmp_path):
    exit_code, output = explore(tmp_path, until="never", breaks=INTERRUPTED)
    assert (tmp_path / "runs").read_text() == "2", "it was interrupted"
    assert exit_code == 1
    *_, test, line, sentence = output.splitlines()
    assert test == "tests/property/test_breaks.py::test_breaks"
    assert line.startswith("    @reproduce_failure(")
    assert sentence.endswith("tests/property/test_breaks.py::test_breaks failed.")


def test_file_that_fails_without_a_failing_test_is_named(script):
    findings = script.Findings()
    assert findings.take("INTERNALERROR", "tests/property/test_x.py", 3)
    assert list(findings.failures) == ["tests/property/test_x.py"]
    assert not findings.take("!!! KeyboardInterrupt !!!", "tests/property/test_y.py", 2), "it was interrupted"


def test_files_that_draw_are_found_and_those_with_a_broker_left_out(script):
    files = script.files_that_draw(ROOT)
    assert "tests/property/test_log_crash.py" in files
    assert "tests/compat/test_kafka_python_codec.py" in files
    assert not any(name.startswith(("tests/compat/clients", "tests/cluster")) for name in files)


def test_examples_of_make_test_are_always_the_same():
    for profile in ("test", "thorough"):
        assert settings.get_profile(profile).derandomize
        assert settings.get_profile(profile).database is None
    assert not settings.get_profile("explore").derandomize
    kept = settings.get_profile("explore").database
    assert kept.path.relative_to(ROOT).parts[0] == ".build"
    replay = settings.get_profile("replay")
    assert (replay.database, replay.phases) == (kept, (Phase.reuse,))
    assert settings.get_profile("thorough").max_examples > settings.get_profile("test").max_examples


def test_run_that_is_interrupted_while_it_starts_has_not_failed(tmp_path):
    exit_code, output = explore(tmp_path, until="nothing of the kind", conftest=STARTING, holds=HOLDS)
    assert "interrupted" in output
    assert (exit_code, output.splitlines()[-1]) == (0, "make explore: 0 examples in 1 round, and nothing failed.")
