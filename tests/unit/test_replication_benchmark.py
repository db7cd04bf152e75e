"""The tables of `make bench-replication`: where the time after a kill went, and what replicas are measured against."""

from types import SimpleNamespace

import pytest

from benchmarks.kafka.comparing import Figures
from benchmarks.replication import loads
from benchmarks.replication.__main__ import parts_of
from benchmarks.replication.kills import Kill, quantile, rows
from benchmarks.replication.loads import PARTS

LOST = Kill("machine", 100, True, commit_s=3.4, decided_s=3.0, was_given_up=True)
RESTARTED = Kill("actor", 200, False, commit_s=1.6, decided_s=1.4, began_s=1.1)
GIVEN_UP = Kill("actor", 200, True, commit_s=3.3, decided_s=3.1, began_s=4.0, was_given_up=True)


@pytest.mark.parametrize(
    ("kill", "shares"),
    [
        (LOST, {"the session": 3.0, "the client": 0.4}),
        (RESTARTED, {"Ray": 1.1, "registering": 0.3, "the client": 0.2}),
        (GIVEN_UP, {"the session": 3.1, "the client": 0.2}),
        # Nobody had to decide anything before the client went on.
        (Kill("actor", 200, False, commit_s=0.5, began_s=1.1), {"Ray": 0.5, "registering": 0.0, "the client": 0.0}),
    ],
)
def test_time_after_a_kill_is_told_by_what_was_waited_for(kill, shares):
    assert kill.shares() == pytest.approx(shares)
    assert sum(kill.shares().values()) == pytest.approx(kill.commit_s)


def test_kills_are_told_by_kind_and_by_who_was_hit():
    table = {row[0]: row[1:] for row in rows([LOST, RESTARTED, GIVEN_UP])}
    assert table["machine"][:6] == ["1", "3.40", "3.40", "3.40", "3.40", "< 5 s ✓"]
    assert table["actor"][:6] == ["2", "1.60", "3.30", "3.30", "3.30", "< 2 s ✗ 1 of 2"]
    assert table["actor, of another"][-1] == "Ray 1.10, registering 0.30, the client 0.20"
    assert table["actor, given up before it was back"][-1] == "the session 3.10, the client 0.20, Ray, too late 4.00"
    assert [*table] == [
        "machine",
        "machine, of the controller",
        "actor",
        "actor, of the controller",
        "actor, of another",
        "actor, given up before it was back",
    ]


def test_quantiles_are_values_that_were_measured():
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert [quantile(values, share) for share in (0.0, 0.5, 0.9, 1.0)] == [1.0, 3.0, 5.0, 5.0]


def test_three_replicas_are_to_keep_half_of_what_one_gives():
    figures = Figures(["1 replica", "3 replicas"], PARTS, peer="1 replica", bar=0.5)
    figures.add("1 replica", "closed", {"rate": 1000.0, "p99_ms": 10.0})
    figures.add("3 replicas", "closed", {"rate": 500.0, "p99_ms": 21.0})
    rate, latency = figures.rows()
    assert rate[2:] == ["1,000", "500", "0.50 ✓"]
    assert latency[2:] == ["10.00", "21.00", "2.10 ✗"]
    assert figures.heading()[-1] == "3 replicas ÷ 1 replica"


def test_groups_stand_for_their_parts():
    assert parts_of(["failover", "closed"]) == ["machine", "actor", "closed"]
    assert parts_of([]) == ["machine", "actor", "alarms", *(part.name for part in PARTS)]


def test_loads_that_could_fill_the_disk_are_refused_where_there_is_little_room(monkeypatch):
    parts = {part.name: part for part in PARTS}
    monkeypatch.setattr(loads.shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * 1024**3))
    with pytest.raises(loads.NoRoom, match=r"2\.0 GB are free"):
        loads._check_room(parts["wire-produce"])
    loads._check_room(parts["closed"])
    monkeypatch.setattr(loads.shutil, "disk_usage", lambda _: SimpleNamespace(free=30 * 1024**3))
    loads._check_room(parts["wire-produce"])
