"""A controller keeps its log short by an image now and then, and does not hammer a disk that refuses one."""

from types import SimpleNamespace

import pytest

from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.roles import controller
from eagleray.actors.roles.controller import SNAPSHOT_RETRY_MS, ControllerRole
from eagleray.actors.storage.data_directory import DataDirectory, format_directory
from eagleray.broker.controller.events import PlanNodes
from eagleray.broker.metadata.nodes import PlannedNode
from tests.support.batches import NOW_MS
from tests.support.faults import Fault, Operation, Outcome
from tests.support.node_disk import NodeDisk

DATA = "/data"


class Context(SimpleNamespace):
    """What a controller needs of its node, with a clock that a test moves."""

    def __init__(self, disk):
        super().__init__(
            spec=NodeSpec(
                cluster="test",
                node_id=1,
                roles=("controller",),
                data_dir=DATA,
                host="",
                token=b"",
                settings={},
                controllers=(1,),
            ),
            disk=disk,
            disk_guard=SimpleNamespace(refused=lambda error: None),
            directory=DataDirectory(disk, DATA, 1),
            chance=lambda: 0.5,
            peers=SimpleNamespace(ask=lambda *message: None),
            answer=lambda answer: None,
            time_ms=NOW_MS,
        )

    def now_ms(self):
        return self.time_ms

    def steady_ms(self):
        return self.time_ms


@pytest.fixture
def disk():
    disk = NodeDisk()
    format_directory(disk, DATA, 1)
    return disk


def test_image_that_the_disk_refuses_is_written_again_after_a_while(disk, monkeypatch, caplog):
    monkeypatch.setattr(controller, "_SNAPSHOT_INTERVAL", 2)
    context = Context(disk)
    role = ControllerRole(context)
    role.on_due()
    role.handle([PlanNodes(1, (PlannedNode(1, ("leader",)),))])
    refused = "the image of the metadata is written again"
    with disk.injected(Fault(Outcome.FAIL, on=Operation.WRITE, path_ending=".log", is_lasting=True)):
        for _ in range(100):
            role.on_due()
        assert caplog.text.count(refused) == 1
        assert role.next_due_ms() <= context.time_ms + SNAPSHOT_RETRY_MS
        context.time_ms += SNAPSHOT_RETRY_MS
        role.on_due()
        assert caplog.text.count(refused) == 2
    context.time_ms += SNAPSHOT_RETRY_MS
    role.on_due()
    role.on_due()
    assert role._quorum.start_offset > 0
    role.close()
