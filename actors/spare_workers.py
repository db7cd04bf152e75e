"""Worker processes that Ray keeps ready on a machine, so that a node whose process ended goes on at once.

A new worker process has to load Python and Ray before it can host an actor, which is most of the time that a node is
away after a kill. Ray gives an actor that it starts again a worker that is there and has done nothing yet, and starts
such workers when it is asked to; the two questions for it are not part of its public interface.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from eagleray.broker.controller.image import MetadataImage

if TYPE_CHECKING:
    from eagleray.actors.node import Node

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_KEEP_S: Final = 3600
"""How long Ray keeps a worker that nobody uses: it is asked again then, and forgets a cluster that has stopped."""

_PATIENCE: Final = 2
_MOST_PATIENCE: Final = 3600
"""After how many looks without enough idle workers some are started: at first, and when that has never helped."""

_ANSWER_S: Final = 5.0
_IDLE_TITLE: Final = b"ray::IDLE"


class SpareWorkersConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes are kept ready."""

    spare_worker_processes: int = 1

    def __post_init__(self) -> None:
        if self.spare_worker_processes < 0:
            raise ValueError(
                f"spare.worker.processes is {self.spare_worker_processes}; expected 0 or more: how many processes "
                "Ray keeps ready on each machine"
            )


class Workers(Protocol):
    """The worker processes of a machine."""

    def idle(self) -> set[int]:
        """Those that host nothing, by their process ids."""

    def start(self, count: int) -> None:
        """Start more of them."""


class SpareWorkers:
    """Sees to it that a machine has workers that are idle and were never anything else.

    The first node of each machine does this for all of them, once they have all started. Owns: which workers it has
    asked for, as far as they are still idle. Those that others have left behind do not count, for Ray gives them to
    nobody else. A worker that is missing is asked for when it is missed for the second time: right after it was used,
    the machine has better things to do. Where asking did not help, it waits twice as long before it asks again. On
    failure: nodes start slower.
    """

    def __init__(self, find_workers: Callable[[], Workers], wanted: int) -> None:
        """Keep so many; `find_workers` may take its time, and is called when there is a need for it."""
        self._find_workers = find_workers
        self._workers: Workers | None = None
        self._wanted = wanted
        self._own: set[int] = set()
        self._seen: set[int] = set()
        self._asked_for = 0
        self._missed = 0
        self._patience = _PATIENCE
        self._has_complained = False

    async def keep(self, node: Node) -> None:
        """Look again and again, if this is up to this node."""
        while self._wanted:
            await asyncio.sleep(_LOOK_S)
            if is_up_to(node.spec.node_id, node.image):
                await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Have those started that have been missing for long enough."""
        try:
            if self._workers is None:
                self._workers = self._find_workers()
            self._recognise(self._workers.idle())
            missing = self._wanted - len(self._own)
            if missing <= 0:
                self._missed, self._patience = 0, _PATIENCE
                return
            self._missed += 1
            if self._missed >= self._patience:
                self._missed, self._patience = 0, min(self._patience * 2, _MOST_PATIENCE)
                self._asked_for = missing
                self._workers.start(missing)
        except Exception as error:  # noqa: BLE001 - Ray may be away, or another one than we know
            if not self._has_complained:
                _log.warning("there is no spare worker, so a node that is killed is away for longer: %r", error)
            self._has_complained = True

    def _recognise(self, idle: set[int]) -> None:
        """Take as many new ones for our own as were asked for."""
        came = sorted(idle - self._seen)[: self._asked_for]
        self._asked_for -= len(came)
        self._own = (self._own & idle) | set(came)
        self._seen = idle


def is_up_to(node_id: int, image: MetadataImage) -> bool:
    """Whether a node is the first that is planned on its machine, and all the others there have come, too."""
    own = image.plan.get(node_id)
    on_machine = [each.node_id for each in image.plan.values() if own is not None and each.machine == own.machine]
    return bool(on_machine) and node_id == min(on_machine) and image.nodes.keys() >= set(on_machine)


class RayWorkers:
    """The workers of the Ray node that this process runs on, by asking its raylet."""

    def __init__(self) -> None:
        # Loading these takes a while, and only one node of a machine needs them.
        import ray  # noqa: PLC0415
        from ray._private.grpc_utils import init_grpc_channel  # noqa: PLC0415
        from ray.core.generated import node_manager_pb2, node_manager_pb2_grpc  # noqa: PLC0415

        here = ray.get_runtime_context().get_node_id()
        nodes = ray.nodes()  # type: ignore[no-untyped-call] # Ray has not typed it
        raylet = next(node for node in nodes if node["NodeID"] == here)
        channel = init_grpc_channel(f"{raylet['NodeManagerAddress']}:{raylet['NodeManagerPort']}")
        self._raylet = node_manager_pb2_grpc.NodeManagerServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self._messages: Any = node_manager_pb2

    def idle(self) -> set[int]:
        """Those that host nothing; Ray tells by the title of the process."""
        reply = self._raylet.GetWorkerPIDs(self._messages.GetWorkerPIDsRequest(), timeout=_ANSWER_S)
        return {pid for pid in reply.pids if _title_of(pid).startswith(_IDLE_TITLE)}

    def start(self, count: int) -> None:
        """Start more, for whoever comes first."""
        request = self._messages.PrestartWorkersRequest(num_workers=count, keep_alive_duration_secs=_KEEP_S)
        self._raylet.PrestartWorkers(request, timeout=_ANSWER_S)


def _title_of(pid: int) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""
