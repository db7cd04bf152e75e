"""A short torture of three machines: exactly once, whichever of them is lost meanwhile, and nothing is left behind."""

import os

import pytest

from tests.support.machines import address_of
from tests.torture.faults import MachineKilled, NodePaused, RayletKilled
from tests.torture.settings import TortureSettings
from tests.torture.torture import torture

SECONDS = 25
FEWEST_FAULTS = 5


@pytest.mark.slow
def test_everything_is_exactly_once_whichever_machine_is_lost(tmp_path):
    directory = str(tmp_path / "torture")
    settings = TortureSettings(
        seconds=SECONDS,
        fewest_faults=FEWEST_FAULTS,
        seed=3,
        machines=3,
        layout="colocated",
        clients=2,
        writers=3,
        partitions=3,
        pause_s=1.0,
    )

    report = torture(settings.checked(), directory)

    assert report.is_good, report.text()
    assert len(report.faults) >= FEWEST_FAULTS
    assert any(isinstance(fault, NodePaused | RayletKilled | MachineKilled) for fault in report.faults)
    assert {host for host, _ in report.addresses} == {address_of(number) for number in range(3)}
    assert not os.path.exists(directory)
