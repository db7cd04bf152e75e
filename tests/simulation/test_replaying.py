"""A seed that fails prints the one command that replays it."""

import sys
from collections import Counter

import pytest

from tests.simulation import __main__ as command
from tests.simulation.cluster.mutations import MUTATIONS
from tests.simulation.schedule import Violation


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["simulate", *arguments])
    return command.main()


def test_a_failing_seed_tells_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with MUTATIONS["leader that replies at once"]():
        assert run(monkeypatch, "--first", "1", "--seeds", "1") == 1
    printed = capsys.readouterr().out
    assert "FAILED seed 1: Violation" in printed
    assert "make simulate SEED=1\n" in printed
    assert "1 seeds from 1 on, 1 failed" in printed


def test_the_command_names_the_world_where_it_is_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def violate(seed: int) -> Counter[str]:
        raise Violation(f"seed {seed}: something that must never be")

    monkeypatch.setitem(command.WORLDS, "quorum", violate)
    assert run(monkeypatch, "--first", "1", "--seeds", "1", "--world", "quorum") == 1
    assert "make simulate SEED=1 WORLD=quorum\n" in capsys.readouterr().out


def test_one_seed_prints_what_happened_in_its_world(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--seed", "1") == 0
    printed = capsys.readouterr().out
    assert "produce answered: NONE" in printed
    assert "follower out of sync" in printed
