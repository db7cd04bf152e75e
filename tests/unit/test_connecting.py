"""What programs are told where a cluster cannot be started or grown: errors of Eagleray, whichever layer noticed."""

import asyncio

import pytest

from eagleray import connecting, errors
from eagleray.actors import machines
from eagleray.connecting import StartOptions


def failing(error):
    async def fail(*_, **__):
        raise error

    return fail


def test_cluster_that_cannot_start_is_an_error_of_eagleray(monkeypatch):
    monkeypatch.setattr(connecting, "start_cluster", failing(machines.MachinesMissing("Ray has 1 node")))
    with pytest.raises(errors.CannotStart, match=r"^Ray has 1 node\. What was started") as raised:
        asyncio.run(connecting.start_nodes(StartOptions()))
    assert isinstance(raised.value, errors.EaglerayError)


def test_machine_that_cannot_be_added_is_an_error_of_eagleray(monkeypatch):
    monkeypatch.setattr(connecting.growing, "add_machine", failing(machines.CannotAdd("it is a part already")))
    with pytest.raises(errors.CannotAdd, match=r"^it is a part already\. The cluster goes on as it is"):
        asyncio.run(connecting.add_machine("default", "10.0.0.1", wait_s=0.0))
