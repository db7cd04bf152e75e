"""What a cluster tells others to connect to, which machines it waits for, and what a start that fails stops."""

import asyncio

import pytest

from eagleray.actors import starting
from eagleray.actors.machines import CannotStart, Machine, MachinesMissing
from eagleray.actors.supervision import separate_layout


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


# What a start that fails stops


class Actors:
    """The nodes on a Ray cluster, as a supervisor starts and stops them."""

    def __init__(self, cluster):
        self.cluster = cluster

    nodes: set[int]
    breaks_at: int | None
    dedicated = 10_000

    def start_first(self, node):
        if node.node_id in self.nodes:
            raise ValueError("the name node-0 is already taken")
        self.nodes.add(node.node_id)

    def start_nodes(self, nodes):
        for node in nodes:
            if node.node_id == self.breaks_at:
                raise RuntimeError("Ray is gone")
            self.nodes.add(node.node_id)
        # The controller starts the nodes of single partitions by itself.
        self.nodes.add(self.dedicated)

    def stop_nodes(self, node_ids):
        self.nodes.difference_update(node_ids)


@pytest.fixture
def actors(monkeypatch):
    """A Ray cluster on which the controller is never found."""

    async def bring_up(*_):
        raise CannotStart("node 2 cannot start")

    monkeypatch.setattr(Actors, "nodes", set(), raising=False)
    monkeypatch.setattr(Actors, "breaks_at", None, raising=False)
    monkeypatch.setattr(starting, "RaySupervisor", Actors)
    monkeypatch.setattr(starting, "running_nodes", lambda _: tuple(Actors.nodes))
    monkeypatch.setattr(starting, "alive_addresses", lambda: ("127.0.0.1",))
    monkeypatch.setattr(starting, "_bring_up", bring_up)
    return Actors


def start(tmp_path):
    layout = separate_layout(leaders=1)
    asyncio.run(starting.start_cluster("mine", str(tmp_path), layout, settings={}, host="127.0.0.1"))


@pytest.mark.parametrize(("breaks_at", "error"), [(None, CannotStart), (2, RuntimeError)])
def test_start_that_fails_leaves_no_node_behind(actors, tmp_path, breaks_at, error):
    actors.breaks_at = breaks_at
    with pytest.raises(error):
        start(tmp_path)
    assert actors.nodes == set()


def test_second_start_at_the_same_moment_leaves_the_first_alone(actors, tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "_check_is_free", lambda *_: None)
    actors.nodes = {0}
    with pytest.raises(CannotStart, match="a cluster named 'mine' is running on this Ray cluster already"):
        start(tmp_path)
    assert actors.nodes == {0}
