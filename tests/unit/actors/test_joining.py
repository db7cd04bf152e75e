"""Waiting for the nodes of a cluster: who has joined, and why one does not."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
import ray

from eagleray.actors.cluster import joining
from eagleray.actors.cluster.joining import Joining, cause_of
from eagleray.actors.cluster.machines import CannotStart, Machine
from eagleray.actors.cluster.supervision import ClusterSpec
from eagleray.actors.process.broker_logs import open_log
from eagleray.broker.metadata.nodes import PlannedNode, ProcessRole

PLAN = (PlannedNode(0, (ProcessRole.CONTROLLER,)), PlannedNode(30, (ProcessRole.LEADER,)))
TRACEBACK = (
    "The actor died because of an error raised in its creation task, \x1b[36mray::Controller.__init__()\x1b[39m\n"
    '  File "node.py", line 1, in start\n    raise OSError\n'
)


class Supervisor:
    """Nodes that answer as a test says: each with a list of outcomes, the last of which stays."""

    def __init__(self, data_dir, **outcomes):
        self.cluster = ClusterSpec(
            name="c", data_dir=str(data_dir), host="h", token=b"", settings={}, machines=(Machine("h"),)
        )
        self.outcomes = {int(name.removeprefix("node_")): list(each) for name, each in outcomes.items()}

    def actor_of(self, node_id):
        return SimpleNamespace(joined=SimpleNamespace(remote=lambda: self._answer(self.outcomes[node_id])))

    async def _answer(self, outcomes):
        outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        return None if outcome is None else await outcome()


async def never():
    await asyncio.Event().wait()


async def unavailable():
    raise ray.exceptions.ActorUnavailableError("restarting", b"0" * 16)


async def dead():
    raise death("OSError: [Errno 28] No space left on device")


def death(last_line):
    """What Ray raises for an actor whose constructor has failed."""
    error = ray.exceptions.ActorDiedError()
    error.error_msg = TRACEBACK + last_line
    return error


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(joining, "_LOOK_S", 0.0)


async def test_progress_counts_those_that_have_joined(tmp_path):
    said = []
    supervisor = Supervisor(tmp_path, node_0=[None], node_30=[unavailable, None])
    await Joining(supervisor, said.append).until_joined(PLAN)
    assert said == ["nodes joined: 1 of 2", "nodes joined: 2 of 2"]


async def test_node_whose_constructor_fails_is_named_with_the_cause(tmp_path):
    supervisor = Supervisor(tmp_path, node_0=[never], node_30=[dead])
    with pytest.raises(CannotStart) as raised:
        await Joining(supervisor).until_joined(PLAN)
    assert str(raised.value) == "node 30 cannot start: OSError: [Errno 28] No space left on device"


async def test_node_that_cannot_reach_a_port_is_named_with_the_address_and_what_to_do(tmp_path):
    async def blocked():
        return "node 0 runs, but cannot be reached at h:1 from here (refused)"

    supervisor = Supervisor(tmp_path, node_0=[None], node_30=[blocked])
    with pytest.raises(CannotStart) as raised:
        await Joining(supervisor).until_joined(PLAN)
    assert str(raised.value) == (
        "node 30 cannot join: node 0 runs, but cannot be reached at h:1 from here (refused): open the port, or take "
        'Ray\'s lane with lane="ray"'
    )


async def test_node_that_ends_again_and_again_is_given_up_with_its_reason(tmp_path):
    handler = open_log(str(tmp_path), 30)
    error = ValueError("the log of changes is damaged")
    said = {"name": "x", "levelname": "CRITICAL", "msg": "node 30 ends itself and begins anew"}

    async def end():
        handler.handle(logging.makeLogRecord(said | {"exc_info": (type(error), error, None)}))
        await unavailable()

    supervisor = Supervisor(tmp_path, node_0=[never], node_30=[end])
    with pytest.raises(CannotStart) as raised:
        await Joining(supervisor).until_joined(PLAN)
    handler.close()
    assert str(raised.value) == "node 30 ends again and again: ValueError: the log of changes is damaged"


async def test_nodes_that_do_not_join_in_time_are_named_with_what_the_first_said_last(tmp_path):
    waiting = Joining(Supervisor(tmp_path, node_0=[None], node_30=[never]))
    handler = open_log(str(tmp_path), 30)
    handler.handle(logging.makeLogRecord({"name": "x", "levelname": "WARNING", "msg": "node 30 waits"}))
    handler.close()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting.until_joined(PLAN), 0.2)
    said = waiting.not_in_time(150)
    assert said.startswith("1 of 2 nodes (30) have not joined within 150 s; the last line of ")
    assert "broker-logs/node-30.log is '" in said
    assert said.endswith("WARNING node-30 x: node 30 waits'")


def test_cause_is_the_last_line_without_colours():
    assert cause_of(death("\x1b[31mValueError: no\x1b[0m\n\n")) == "ValueError: no"


def test_cause_says_more_where_workers_have_another_package(tmp_path, monkeypatch):
    (tmp_path / "eagleray").mkdir()
    monkeypatch.chdir(tmp_path)
    cause = cause_of(death("ModuleNotFoundError: No module named 'eagleray.actors'"))
    assert cause.startswith("ModuleNotFoundError: No module named 'eagleray.actors'; Ray's workers look for it in ")
    assert f"{tmp_path}, which has another eagleray than the installed one" in cause
