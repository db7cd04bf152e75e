"""`make demo` ends well, and prints its own lines and nothing of Ray, Java or Spark, whatever it kills."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.own_spark, pytest.mark.xdist_group("spark")]

KILLED = ["a partition leader", "Spark's executor", "the transaction coordinator"]
KILL = re.compile(rf"  after batch \d+: kill -9 of ({'|'.join(KILLED)}), pid \d+")
LINES = (
    re.escape("Starting Ray, and a broker of Ray actors on it ..."),
    re.escape("Starting Spark on the same Ray cluster ..."),
    re.escape("Generating 60,000 orders in executors, in one transaction with many writers ..."),
    re.escape("Charging them in micro-batches, each a transaction, while processes are killed ..."),
    r"(Actors|Charges, as committed) *",
    r"[┏┳┓┡╇┩├┼┤└┴┘━─]+",
    r"[┃│].*[┃│]",
    KILL.pattern,
    r"charged [━╸╺]+ 60000/60000 \d:\d\d:\d\d",
    r"\d+ micro-batches, [\d,]+ orders read, 60,000 charges committed, \d+ s in all\.",
    re.escape("Exact to the cent."),
)


def test_demo_is_exact_and_prints_only_its_own_lines(java, tmp_path):
    environment = {**os.environ, "EAGLERAY_HOME": str(tmp_path / "home"), "COLUMNS": "120"}
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-m", "eagleray.pipelines.demo"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    printed = [line for line in ended.stdout.splitlines() if line]
    assert [line for line in printed if not any(re.fullmatch(own, line) for own in LINES)] == []
    assert [kill[1] for line in printed if (kill := KILL.fullmatch(line))] == KILLED
    assert printed[-1] == "Exact to the cent."
