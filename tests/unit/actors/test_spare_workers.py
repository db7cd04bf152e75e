"""When worker processes are started that nobody uses yet: not too early, and not too many."""

import pytest

from eagleray.actors.settings import spare_workers_config
from eagleray.actors.spare_workers import SpareWorkers, is_up_to
from eagleray.broker.controller.changes import NodeJoined, NodesPlanned
from eagleray.broker.controller.image import EMPTY_IMAGE
from eagleray.broker.controller.nodes import NodeRegistration, PlannedNode
from eagleray.broker.log import InvalidConfig


class Machine:
    """Workers of which a test says which are idle; those that are started are, unless it says otherwise."""

    def __init__(self, *idle, starts=True):
        self.now_idle = set(idle)
        self.started = []
        self.error = None
        self._starts = starts

    def idle(self):
        if self.error is not None:
            raise self.error
        return set(self.now_idle)

    def start(self, count):
        for _ in range(count if self._starts else 0):
            self.now_idle.add(1000 + len(self.started) + len(self.now_idle))
        self.started.append(count)


def looks(machine, times, wanted=1):
    spares = SpareWorkers(lambda: machine, wanted)
    for _ in range(times):
        spares.look()
    return spares


def test_one_that_is_missing_is_started_when_it_is_missed_again():
    machine = Machine()
    spares = looks(machine, 1)
    assert machine.started == []
    spares.look()
    assert machine.started == [1]
    for _ in range(10):
        spares.look()
    assert machine.started == [1]


def test_those_that_others_have_left_behind_do_not_count():
    machine = Machine(1, 2)
    looks(machine, 10)
    assert machine.started == [1]
    assert len(machine.now_idle) == 3


def test_as_many_as_are_wanted_are_started():
    machine = Machine()
    looks(machine, 10, wanted=3)
    assert machine.started == [3]


def test_one_that_was_used_is_replaced():
    machine = Machine(1)
    spares = looks(machine, 3)
    machine.now_idle = {1}
    spares.look()
    assert machine.started == [1]
    spares.look()
    assert machine.started == [1, 1]


def test_where_asking_does_not_help_it_is_done_less_and_less():
    machine = Machine(starts=False)
    looks(machine, 2 + 4 + 8 + 16)
    assert len(machine.started) == 4
    looks_in_a_day = 24 * 3600
    machine = Machine(starts=False)
    looks(machine, looks_in_a_day)
    assert len(machine.started) < 40


def test_it_goes_on_when_ray_does_not_answer(caplog):
    machine = Machine()
    machine.error = ConnectionError("no raylet")
    spares = looks(machine, 5)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no raylet" in caplog.text
    machine.error = None
    spares.look()
    spares.look()
    assert machine.started == [1]


def image_of(planned, registered):
    nodes = tuple(PlannedNode(node_id, ("leader",), machine=machine) for node_id, machine in planned)
    joined = (NodeJoined(NodeRegistration(node_id, 1, "", 0, ("leader",))) for node_id in registered)
    return EMPTY_IMAGE.apply([NodesPlanned(nodes), *joined])


@pytest.mark.parametrize(("node_id", "is_first"), [(0, True), (1, False), (100, True), (101, False), (7, False)])
def test_the_first_node_of_each_machine_sees_to_it(node_id, is_first):
    image = image_of([(1, "a"), (0, "a"), (101, "b"), (100, "b")], registered=(0, 1, 100, 101))
    assert is_up_to(node_id, image) is is_first


def test_nothing_is_started_while_nodes_of_the_machine_are_on_their_way():
    planned = [(0, "a"), (1, "a"), (100, "b")]
    assert not is_up_to(0, image_of(planned, registered=(0, 100)))
    assert is_up_to(0, image_of(planned, registered=(0, 1)))


def test_a_number_below_zero_is_refused():
    assert spare_workers_config({}).spare_worker_processes == 1
    with pytest.raises(InvalidConfig, match=r"spare.worker.processes is -1; expected 0 or more"):
        spare_workers_config({"spare.worker.processes": "-1"})
