"""What a cluster tells others to connect to, which machines it waits for, and what a start that fails stops."""

import pytest

from eagleray.actors.cluster import start_cluster
from eagleray.actors.cluster.machines import CannotStart, Machine, MachinesMissing, spread
from eagleray.actors.cluster.supervision import separate_layout
from eagleray.actors.storage.data_directory import identities_in
from eagleray.broker.filesystem import LocalFileSystem


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
def test_address_that_stands_for_all_is_not_advertised(monkeypatch, listens_at, advertises):
    monkeypatch.setattr(start_cluster, "address_of_this_node", lambda: "the Ray node")
    assert start_cluster.advertised_for(listens_at) == advertises


@pytest.fixture
def joining(monkeypatch):
    """Machines that join Ray one after the other, each time that somebody looks."""
    alive = []

    def look():
        alive.append(f"10.0.0.{len(alive) + 1}")
        return tuple(alive)

    monkeypatch.setattr(start_cluster, "alive_addresses", look)
    monkeypatch.setattr(start_cluster, "_LOOK_S", 0.0)
    return alive


async def test_machines_that_are_about_to_join_are_waited_for(joining):
    chosen = await start_cluster._choose_in_time(3, (), (), 60.0)
    assert chosen == (Machine("10.0.0.1", 0), Machine("10.0.0.2", 1), Machine("10.0.0.3", 2))


async def test_machines_that_do_not_join_in_time_are_named(joining):
    with pytest.raises(MachinesMissing, match="3 machines were asked for, and Ray has 1 node"):
        await start_cluster._choose_in_time(3, (), (), 0.0)
    assert len(joining) == 1


# What a start that fails stops


class Actors:
    """The nodes on a Ray cluster, as a supervisor starts and stops them."""

    def __init__(self, cluster):
        self.cluster = cluster

    nodes: set[int]
    breaks_at: int | None
    dedicated = 10_000
    has_resolver_caller: bool

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

    def stop_resolver_caller(self):
        Actors.has_resolver_caller = False


@pytest.fixture
def actors(monkeypatch):
    """A Ray cluster on which the controller is never found."""

    async def bring_up(*_):
        raise CannotStart("node 2 cannot start")

    monkeypatch.setattr(Actors, "nodes", set(), raising=False)
    monkeypatch.setattr(Actors, "breaks_at", None, raising=False)
    monkeypatch.setattr(Actors, "has_resolver_caller", True, raising=False)
    monkeypatch.setattr(start_cluster, "RaySupervisor", Actors)
    monkeypatch.setattr(start_cluster, "running_nodes", lambda _: tuple(Actors.nodes))
    monkeypatch.setattr(start_cluster, "alive_addresses", lambda: ("127.0.0.1",))
    monkeypatch.setattr(start_cluster, "_bring_up", bring_up)
    return Actors


async def start(tmp_path):
    layout = separate_layout(leaders=1)
    await start_cluster.start_cluster("mine", str(tmp_path), layout, settings={}, host="127.0.0.1")


@pytest.mark.parametrize(("breaks_at", "error"), [(None, CannotStart), (2, RuntimeError)])
async def test_start_that_fails_leaves_no_node_behind(actors, tmp_path, breaks_at, error):
    actors.breaks_at = breaks_at
    with pytest.raises(error):
        await start(tmp_path)
    assert actors.nodes == set()
    assert not actors.has_resolver_caller


async def test_second_start_at_the_same_moment_leaves_the_first_alone(actors, tmp_path, monkeypatch):
    monkeypatch.setattr(start_cluster, "_check_is_free", lambda *_: None)
    actors.nodes = {0}
    with pytest.raises(CannotStart, match="a cluster named 'mine' is running on this Ray cluster already"):
        await start(tmp_path)
    assert actors.nodes == {0}
    assert actors.has_resolver_caller


# Formatting


PLAN = separate_layout(leaders=1)
ALONE = (Machine("10.0.0.1", 0),)


def may_begin(data_dir):
    return [each.may_begin_metadata for each in identities_in(LocalFileSystem(), str(data_dir))]


THREE = (*ALONE, Machine("10.0.0.2", 1), Machine("10.0.0.3", 2), Machine("10.0.0.4", 3))


def test_start_formats_a_directory_that_is_new_for_its_voter_alone(tmp_path):
    start_cluster._format_if_new(str(tmp_path), ALONE, PLAN)
    assert may_begin(tmp_path) == [True]


def test_start_formats_the_directory_of_the_voter_on_its_own_machine(tmp_path, monkeypatch):
    """Places may have been given to the machines beforehand."""
    (tmp_path / "machines").write_text("10.0.0.1\n10.0.0.2\n10.0.0.3\n10.0.0.4\n")
    plan = spread(PLAN, THREE, controllers=3)
    monkeypatch.setattr(start_cluster, "alive_addresses", lambda: ("10.0.0.2", "10.0.0.1"))
    start_cluster._format_if_new(str(tmp_path), THREE, plan)
    (identity,) = identities_in(LocalFileSystem(), str(tmp_path / "machine-1"))
    assert (identity.node_id, identity.may_begin_metadata) == (100, True)
    assert may_begin(tmp_path / "machine-0") == []
    monkeypatch.setattr(start_cluster, "alive_addresses", lambda: ("10.0.0.4", "10.0.0.1"))
    with pytest.raises(CannotStart, match=r"one of 10\.0\.0\.1, 10\.0\.0\.2, 10\.0\.0\.3, and not on 10\.0\.0\.4"):
        start_cluster._format_if_new(str(tmp_path), THREE, plan)


@pytest.mark.parametrize("left", ["token", "nodes/0.life", "logs/orders-0/00000000000000000000.log"])
def test_start_formats_no_directory_of_which_something_is_left(tmp_path, left):
    (tmp_path / left).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / left).touch()
    start_cluster._format_if_new(str(tmp_path), ALONE, PLAN)
    assert may_begin(tmp_path) == []
