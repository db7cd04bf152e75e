"""Which machines a cluster is on, in which place each, and which nodes it has there."""

import msgspec
import pytest

from eagleray.actors.cluster.machines import (
    CannotAdd,
    CannotStart,
    Machine,
    MachinesMissing,
    choose,
    controllers_among,
    controllers_of,
    keep_copies,
    known_machines,
    layout_of,
    locks_of,
    machines_of,
    nodes_on,
    one_more,
    remember,
    spread,
    token_of,
)
from eagleray.actors.cluster.start_cluster import bootstrap_nodes
from eagleray.actors.cluster.supervision import ClusterSpec, RaySupervisor, colocated_layout, separate_layout
from eagleray.actors.lanes.peers import Lane
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import PlannedNode

ALIVE = ("a", "b", "c")


def machines(*addresses):
    return tuple(Machine(address, index) for index, address in enumerate(addresses))


@pytest.mark.parametrize(
    ("wanted", "known", "expected"),
    [
        (None, (), "a"),
        (1, (), "a"),
        (2, (), "ab"),
        ("all", (), "abc"),
        # What a data directory says stands, wherever the cluster is started.
        (None, "ca", "ca"),
        (2, "ca", "ca"),
        (3, "ca", "cab"),
        ("all", "cb", "cba"),
    ],
)
def test_machines_keep_their_places(wanted, known, expected):
    assert choose(wanted, tuple(known), ALIVE) == machines(*expected)


@pytest.mark.parametrize(
    ("wanted", "known", "refusal"),
    [
        (4, (), "4 machines were asked for, and Ray has 3 nodes, at a, b, c"),
        (0, (), "expected 1 or more"),
        (-1, (), "expected 1 or more"),
        (1, "ab", "that of a cluster on 2 machines, a, b; it cannot be started on 1"),
        (2, "ax", "that of a cluster on a, x; Ray has no node at x, only at a, b, c"),
        (None, "x", "Ray has no node at x"),
    ],
)
def test_impossible_choice_says_why(wanted, known, refusal):
    with pytest.raises(CannotStart, match=refusal):
        choose(wanted, tuple(known), ALIVE)


@pytest.mark.parametrize(("wanted", "known", "is_worth_waiting"), [(4, (), True), (None, "x", True), (1, "ab", False)])
def test_only_machines_that_may_join_are_worth_waiting_for(wanted, known, is_worth_waiting):
    with pytest.raises(CannotStart) as refused:
        choose(wanted, tuple(known), ALIVE)
    assert isinstance(refused.value, MachinesMissing) is is_worth_waiting


def test_machine_that_is_gone_keeps_its_place():
    assert choose(None, tuple("xab"), ALIVE, ("x",)) == machines("x", "a", "b")
    assert choose(3, tuple("abc"), ALIVE, ("c",)) == machines("a", "b", "c")


@pytest.mark.parametrize(
    ("known", "without", "refusal"),
    [
        ("xya", "xy", "of x, y, a, which decide for the cluster, a is there; it needs 2 of them"),
        ("xa", "x", "of x, which decide for the cluster, none is there; it needs 1 of them"),
        ("xab", "z", "z cannot be left out: this data directory is that of a cluster on x, a, b"),
        ("xyab", "x", "Ray has no node at y"),
        ((), "z", "z cannot be left out: this data directory is that of a cluster on one machine"),
    ],
)
def test_machine_that_cannot_be_left_out_says_why(known, without, refusal):
    with pytest.raises(CannotStart, match=refusal):
        choose(None, tuple(known), ALIVE, tuple(without))


def test_every_machine_knows_what_it_takes_to_start_the_cluster(tmp_path):
    first, other = tmp_path / "first", tmp_path / "other"
    for folder in (first, other):
        folder.mkdir()
    token = token_of(str(first))
    assert token_of(str(first)) == token
    for _ in range(2):
        keep_copies(str(other), machines("a", "b"), token)
    assert known_machines(str(other)) == ("a", "b")
    assert token_of(str(other)) == token
    assert (other / "token").stat().st_mode & 0o777 == 0o600
    keep_copies(str(other), machines("a", "c"), b"another")
    assert known_machines(str(other)) == ("a", "c")
    assert token_of(str(other)) == b"another"
    assert sorted(path.name for path in other.iterdir()) == ["machines", "token"]


def test_node_of_before_does_not_forget_machines_that_were_added(tmp_path):
    keep_copies(str(tmp_path), machines("a", "b", "c", "d"), b"token")
    keep_copies(str(tmp_path), machines("a", "b", "c"), b"token")
    assert known_machines(str(tmp_path)) == ("a", "b", "c", "d")
    keep_copies(str(tmp_path), machines("a", "x", "c"), b"token")
    assert known_machines(str(tmp_path)) == ("a", "x", "c")


def test_machine_that_is_added_has_the_next_place():
    assert one_more(machines(*"abc"), "d", ("a", "d", "e")) == Machine("d", 3)


@pytest.mark.parametrize(
    ("known", "address", "refusal"),
    [
        ("a", "d", "on 1 machine, and its controller on one of them; only a cluster on 3 or more can grow"),
        ("ab", "d", "on 2 machines, .* Start one with `--machines 3`"),
        ("abc", "b", "machine b is a part of this cluster already, which is on a, b, c"),
        ("abc", "z", "Ray has no node at z, only at a, b, c, d; start it there with `ray start --address="),
        ("abcefghijk", "d", "on 10 machines, and cannot be on more"),
    ],
)
def test_machine_that_cannot_be_added_says_why(known, address, refusal):
    with pytest.raises(CannotAdd, match=refusal):
        one_more(machines(*known), address, tuple("abcd"))


def test_there_are_ids_for_ten_machines():
    alive = tuple(f"10.0.0.{number}" for number in range(12))
    assert len(choose("all", (), alive)) == 10
    with pytest.raises(CannotStart, match="10 at the most"):
        choose(11, (), alive)


def test_places_are_written_down(tmp_path):
    assert known_machines(str(tmp_path)) == ()
    remember(str(tmp_path), machines("b", "a"))
    assert known_machines(str(tmp_path)) == ("b", "a")


def test_folder_of_a_machine_without_its_place_is_not_taken_for_new(tmp_path):
    (tmp_path / "machine-1").mkdir()
    with pytest.raises(CannotStart, match="machine-1 belongs to a cluster on several machines"):
        known_machines(str(tmp_path))


def test_one_machine_is_not_written_down(tmp_path):
    remember(str(tmp_path), machines("a"))
    assert list(tmp_path.iterdir()) == []


def test_cluster_of_one_machine_cannot_be_spread(tmp_path):
    (tmp_path / "nodes").mkdir()
    with pytest.raises(CannotStart, match="that of a cluster on one machine"):
        remember(str(tmp_path), machines("a", "b"))
    assert known_machines(str(tmp_path)) == ()


# Nodes


def test_each_machine_has_the_layout_and_the_first_ones_a_controller():
    planned = spread(separate_layout(leaders=1), machines(*"abcd"), controllers=3)
    roles = {node.node_id: node.roles for node in planned}
    assert [node_id for node_id, (role,) in roles.items() if role == "controller"] == [0, 100, 200]
    for first in (0, 100, 200, 300):
        assert [roles[first + local] for local in (1, 2, 10, 20, 30)] == [
            ("allocator",),
            ("markers",),
            ("coordinator",),
            ("groups",),
            ("leader",),
        ]
    assert len(planned) == 4 * 5 + 3
    assert {node.node_id // 100: node.machine for node in planned} == dict(enumerate("abcd"))
    assert controllers_of(planned) == (0, 100, 200)


def test_a_colocated_node_without_controller_has_all_the_rest():
    first, second, third = spread(colocated_layout(nodes=1), machines(*"abc"), controllers=1)
    assert (first.node_id, second.node_id, third.node_id) == (0, 100, 200)
    assert set(first.roles) - set(second.roles) == {"controller"}
    assert second.roles == third.roles


@pytest.mark.parametrize("layout", [separate_layout(leaders=2), colocated_layout(nodes=2)])
def test_machine_that_is_added_has_what_the_fourth_of_four_has(layout):
    three, four = machines(*"abc"), machines(*"abcd")
    plan = spread(layout, three, controllers=3)
    dedicated = PlannedNode(1000, ("leader",), TopicPartition("own", 0), machine="c")
    assert machines_of((*plan, dedicated)) == three
    assert layout_of(plan) == layout
    added = nodes_on(four[-1], layout_of(plan), has_controller=False)
    assert (*plan, *added) == spread(layout, four, controllers=3)


def test_one_machine_has_the_layout_as_it_is():
    layout = separate_layout(leaders=2)
    assert spread(layout, machines("a"), controllers=1) == layout


@pytest.mark.parametrize(("count", "controllers"), [(1, 1), (2, 1), (3, 3), (4, 3), (10, 3)])
def test_controllers_are_as_many_as_can_lose_one(count, controllers):
    assert controllers_among(count) == controllers


def test_clients_begin_with_a_node_of_each_machine():
    planned = spread(separate_layout(leaders=2), machines(*"ab"), controllers=1)
    assert bootstrap_nodes(planned) == (30, 130)
    assert bootstrap_nodes(colocated_layout(nodes=2)) == (0,)


def test_directory_is_in_use_while_the_first_node_of_a_machine_is():
    planned = spread(separate_layout(leaders=1), machines(*"ab"), controllers=1)
    assert locks_of("/d", machines(*"ab"), planned) == ["/d/machine-0/nodes/0.lock", "/d/machine-1/nodes/101.lock"]
    assert locks_of("/d", machines("a"), colocated_layout(nodes=2)) == ["/d/nodes/0.lock"]


# What a node is told


def spec(*addresses, **settings):
    return ClusterSpec(
        name="c",
        data_dir="/data",
        host="given",
        token=b"",
        settings={},
        lane=Lane.RAY,
        machines=machines(*addresses),
        **settings,
    )


def test_nodes_of_several_machines_listen_and_write_each_on_its_own():
    told = spec("a", "b", controllers=(0, 100)).node(PlannedNode(130, ("leader",), machine="b"))
    assert (told.machine, told.host, told.data_dir, told.controllers) == ("b", "b", "/data/machine-1", (0, 100))


def test_node_of_the_only_machine_is_where_it_was_before():
    told = spec("a").node(PlannedNode(30, ("leader",)))
    assert (told.machine, told.host, told.data_dir) == ("", "given", "/data")


def test_actors_ask_for_the_address_of_their_machine():
    cluster = spec("a", "b")
    planned = PlannedNode(130, ("leader",), machine="b")
    assert cluster.machine_of(planned).resources == {"node:b": 0.0001}
    assert cluster.machine_of(PlannedNode(1000, ("leader",))).address == "a"


@pytest.mark.parametrize(
    ("planned", "known"),
    [("abcd", "abcd"), ("abc", "abc"), ("ab", "abc"), ("abxd", "abc"), ("", "abc")],
    ids=["added", "the same", "not yet planned", "another address", "none"],
)
def test_machines_that_are_added_are_known_and_written_down(tmp_path, planned, known):
    cluster = msgspec.structs.replace(spec(*"abc"), data_dir=str(tmp_path))
    keep_copies(str(tmp_path), cluster.machines, b"")
    supervisor = RaySupervisor(cluster)
    supervisor.plan_changed(spread(colocated_layout(nodes=1), machines(*planned), controllers=3) if planned else ())
    assert supervisor.cluster.machines == machines(*known)
    assert known_machines(str(tmp_path)) == tuple(known)
