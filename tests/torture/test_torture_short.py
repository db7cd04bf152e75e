"""A short torture in each layout: exactly once, whoever is killed meanwhile, and nothing is left behind."""

import os
import shutil
import socket
import tempfile

import psutil
import pytest

from tests.torture.faults import ActorKilled
from tests.torture.settings import TortureSettings
from tests.torture.torture import torture

SECONDS = 12
FEWEST_FAULTS = 8


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """Where Ray puts its files; sockets have short names, so it is not below `tmp_path`, which was made before."""
    directory = tempfile.mkdtemp(prefix="t-")
    monkeypatch.setattr(tempfile, "tempdir", directory)
    yield directory
    shutil.rmtree(directory)


def accepts(address):
    with socket.socket() as client:
        client.settimeout(5)
        return client.connect_ex(address) == 0


def children():
    return {process.pid for process in psutil.Process().children(recursive=True)}


def left_behind(before):
    """Processes that came meanwhile; what a Ray of other tests starts for itself is not ours to end."""
    found = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    return {process.pid for process in found if is_left(process, before)}


def is_left(process, before):
    try:
        return not before & {parent.pid for parent in process.parents()}
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["separate", "colocated"])
def test_everything_is_exactly_once_whichever_process_is_killed(layout, temporary, tmp_path):
    directory = str(tmp_path / "torture")
    settings = TortureSettings(
        seconds=SECONDS, fewest_faults=FEWEST_FAULTS, seed=11, layout=layout, clients=2, writers=3, pause_s=1.5
    )
    children_before = children()

    report = torture(settings.checked(), directory)

    assert report.is_good, report.text()
    assert len(report.faults) >= FEWEST_FAULTS
    assert any(isinstance(fault, ActorKilled) for fault in report.faults)
    assert report.addresses
    assert not any(accepts(address) for address in report.addresses)
    assert not os.path.exists(directory)
    assert os.listdir(temporary) == []
    assert left_behind(children_before) == set()
