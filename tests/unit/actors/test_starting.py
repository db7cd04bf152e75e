"""What a cluster tells others to connect to, and which machines it waits for."""

import asyncio

import pytest

from eagleray.actors import starting
from eagleray.actors.machines import Machine, MachinesMissing


@pytest.mark.parametrize(
    ("listens_at", "advertises"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("broker.example.com", "broker.example.com"),
        (None, "the Ray node"),
        ("", "the Ray node"),
        ("0.0.0.0", "the Ray node"),
        ("::", "the Ray node"),
    ],
)
def test_nobody_is_told_an_address_that_stands_for_all(monkeypatch, listens_at, advertises):
    monkeypatch.setattr(starting, "address_of_this_node", lambda: "the Ray node")
    assert starting.advertised_for(listens_at) == advertises


@pytest.fixture
def joining(monkeypatch):
    """Machines that join Ray one after the other, each time that somebody looks."""
    alive = []

    def look():
        alive.append(f"10.0.0.{len(alive) + 1}")
        return tuple(alive)

    monkeypatch.setattr(starting, "alive_addresses", look)
    monkeypatch.setattr(starting, "_LOOK_S", 0.0)
    return alive


def test_machines_that_are_about_to_join_are_waited_for(joining):
    chosen = asyncio.run(starting._choose_in_time(3, (), (), 60.0))
    assert chosen == (Machine("10.0.0.1", 0), Machine("10.0.0.2", 1), Machine("10.0.0.3", 2))


def test_machines_that_do_not_join_in_time_are_named(joining):
    with pytest.raises(MachinesMissing, match="3 machines were asked for, and Ray has 1 node"):
        asyncio.run(starting._choose_in_time(3, (), (), 0.0))
    assert len(joining) == 1
