"""What a torture knows of its own faults: which nodes it has ended, and how it tells of them."""

from tests.support.history import History
from tests.torture.faults import (
    ActorKilled,
    ClientKilled,
    ClientSuperseded,
    MachineKilled,
    NodePaused,
    RayletKilled,
    nodes_ended,
)
from tests.torture.killer import _controller_among
from tests.torture.report import Report
from tests.torture.settings import TortureSettings

FAULTS = (
    ActorKilled(1.0, 0, ("controller", "leader"), 10, was_controller=True),
    NodePaused(2.0, 100, 3.0, 11, was_controller=True),
    RayletKilled(3.0, 1, (12, 13)),
    MachineKilled(4.0, 2, (14,)),
    ClientKilled(5.0, 0, 1, 15),
    ClientSuperseded(6.0, 1, 1, 16),
)


def test_nodes_that_faults_have_ended_did_not_end_by_themselves():
    assert nodes_ended(FAULTS) == {10, 12, 13, 14}


def test_every_kind_of_fault_is_told():
    report = Report(
        settings=TortureSettings(machines=3),
        history=History((), {}, {}),
        addresses=(),
        faults=FAULTS,
        not_tried=(),
        violations=(),
        problems=(),
    )
    assert report.kills() == {
        "controller": 1,
        "leader": 1,
        "controller at work": 2,
        "sleeping node": 1,
        "raylet": 1,
        "machine": 1,
        "client": 1,
        "zombie client": 1,
    }
    assert "hurt: machine" in report.text()


def test_controller_is_whom_most_take_for_it():
    described = [
        {"registered": True, "controller": 100},
        {"registered": False},
        {"registered": True, "controller": 100},
        {"registered": True, "controller": 0},
    ]
    assert _controller_among(described) == 100
