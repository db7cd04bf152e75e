"""A seed that fails prints the one command that replays it."""

import sys

import pytest

from tests.simulation import __main__ as command
from tests.simulation.mutations import MUTATIONS
from tests.simulation.world import simulate


def test_a_failing_seed_tells_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = MUTATIONS["leader that replies at once"]
    monkeypatch.setattr(command, "simulate", lambda seed: simulate(seed, broken))
    monkeypatch.setattr(sys, "argv", ["simulate", "--first", "1", "--seeds", "1"])
    assert command.main() == 1
    printed = capsys.readouterr().out
    assert "FAILED seed 1: Violation" in printed
    assert "make simulate SEED=1\n" in printed
    assert "1 seeds from 1 on, 1 failed" in printed


def test_one_seed_prints_what_happened_in_its_world(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulate", "--seed", "1"])
    assert command.main() == 0
    assert "produce answered: NONE" in capsys.readouterr().out
