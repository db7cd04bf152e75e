"""A node: one process with its listener, its metadata, and the roles that it plays."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import time
from contextlib import suppress
from typing import Any, Final

from eagleray.actors.controller_finder import PATIENCE_S, ControllerFinder
from eagleray.actors.disk import Disk, LocalDisk, Lock, PartitionLocked
from eagleray.actors.internal_partitions import QUERIES, InternalPartitions
from eagleray.actors.lanes.catalog import NODE_REQUESTS, REPLICA_REQUESTS, REQUESTS
from eagleray.actors.lanes.direct import DirectSession
from eagleray.actors.lanes.peers import Peers, Unanswered
from eagleray.actors.lanes.ray_lane import RayLane
from eagleray.actors.lanes.sessions import Receiver, Sessions
from eagleray.actors.lives import Life, Lives, time_of_day_us
from eagleray.actors.metadata_queries import MetadataQueries
from eagleray.actors.node_timer import NodeTimer
from eagleray.actors.ports import ports_to_try
from eagleray.actors.replicas import Replicas
from eagleray.actors.roles import SHELLS
from eagleray.actors.settings import listener_config
from eagleray.actors.shell import Shell, Supervisor
from eagleray.actors.spec import NodeSpec
from eagleray.actors.sweeping import Sweeper
from eagleray.actors.wire.listener import Listener
from eagleray.broker.controller.events import FollowMetadata, NodeRegistration, RegisterNode
from eagleray.broker.controller.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.controller.losses import EVERYTHING
from eagleray.broker.controller.metadata import follow
from eagleray.broker.controller.nodes import Role
from eagleray.broker.controller.topics import INTERNAL_TOPICS
from eagleray.broker.filesystem import write_atomically
from eagleray.broker.messages import Message
from eagleray.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

_FOLLOW_MS: Final = 10_000
_RETRY_S: Final = 0.1
_EXIT_STATUS: Final = 70
_SESSION_BITS: Final = 30


class Node:
    """Hosts the roles of one node of a cluster.

    Owns: the listener, the lanes, the image of the metadata, the replicas, and one shell for each role. Persists: the
    port that it listens at, so that clients find it again after a restart, and the number of its lives; the roles
    persist what they have to. After a restart it is another incarnation: it waits until the last one has ended,
    registers, and gets new epochs for all that it leads. When the controller has given it up, the process goes on as
    another incarnation in the same way.
    """

    def __init__(self, spec: NodeSpec, supervisor: Supervisor, disk: Disk | None = None) -> None:
        self.spec = spec
        self.disk = disk or LocalDisk()
        self.supervisor = supervisor
        self.loop = asyncio.get_running_loop()
        self.image: MetadataImage = EMPTY_IMAGE
        self._life = Life(-1, EVERYTHING)
        self._lives: Lives | None = None
        self._known_incarnation = -1
        self._following: asyncio.Task[None] | None = None
        self.timer = NodeTimer(self.loop, self.steady_ms, self.fail)
        self.peers = self._make_peers()
        self.turn = self.peers.turn
        self.controller = ControllerFinder(self.peers, spec.controllers)
        self.replicas = Replicas(self, is_lazy=INTERNAL_TOPICS.__contains__)
        self._sweeper = Sweeper(self.replicas.logs, spec.machine, self.steady_ms())
        self._shells: list[Shell] = [SHELLS[role](self) for role in spec.roles]
        self.sessions = Sessions(self._receivers(), self.turn, first_session=secrets.randbits(_SESSION_BITS))
        self.peers.add_local(spec.node_id, self.sessions)
        self.ray_lane = RayLane(self.sessions)
        self.listener = Listener(self, listener_config(spec.settings), self._direct_session)
        self._lock: Lock | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.is_registered = False

    def _make_peers(self) -> Peers:
        return Peers(token=self.spec.token, actor_of=self.supervisor.actor_of, lane=self.spec.lane)

    def _receivers(self) -> dict[type, Receiver]:
        queries = MetadataQueries(self)
        receivers: dict[type, Receiver] = dict.fromkeys(NODE_REQUESTS, queries.post)
        receivers |= dict.fromkeys(REPLICA_REQUESTS, self.replicas.receive)
        for shell in self._shells:
            for message_type in REQUESTS[shell.role]:
                receivers[message_type] = shell.post
            if shell.role is Role.CONTROLLER:
                # What the controller itself says is true now, not a moment ago.
                receivers |= dict.fromkeys(NODE_REQUESTS, shell.post)
        return receivers | dict.fromkeys(QUERIES, InternalPartitions(self, receivers).post)

    # What the roles see of it

    def now_ms(self) -> int:
        """The time of day."""
        return self._now_us() // 1000

    def _now_us(self) -> int:
        return time_of_day_us()

    def steady_ms(self) -> int:
        """The time by a clock that nobody sets, and that goes on while the process is stopped."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def chance(self) -> float:
        """A number from 0 to 1 that nobody can foresee."""
        return random.random()  # noqa: S311 - it spreads elections, and keeps no secret

    @property
    def incarnation(self) -> int:
        """Which life of the node this is."""
        return self._life.incarnation

    def begin_life(self) -> None:
        """Give up everything that is led here, and register again as another incarnation.

        Where that is under way already, whatever has failed meanwhile is looked at when this life has registered.
        """
        if self.is_registered:
            self.is_registered = False
            self.loop.call_soon(self._begin_life)

    def _begin_life(self) -> None:
        assert self._lives is not None, "there is a first life by now"
        try:
            self._life = self._lives.begin(after=self._known_incarnation, loss=self.replicas.begin_life())
        except Exception as error:  # noqa: BLE001 - a life that nobody can tell from the last one must not go on
            self.fail(error)
        if self._following is not None:
            self._following.cancel()
            self._following = self._start(self._follow())

    def answer(self, reply: Message) -> None:
        """Send an answer to whoever asked."""
        self.sessions.answer(reply)

    def fail(self, error: BaseException) -> None:
        """End the process; Ray starts it again."""
        _log.critical("node %s ends itself and begins anew", self.spec.node_id, exc_info=error)
        logging.shutdown()
        os._exit(_EXIT_STATUS)

    # Its life

    async def start(self) -> None:
        """Wait until the last incarnation has ended, then listen, and join the cluster."""
        _log.info("node %s starts, as %s, in process %s", self.spec.node_id, ", ".join(self.spec.roles), os.getpid())
        self._lock = await self._take_lock()
        self._lives = Lives(
            self.disk,
            self._path("life"),
            self.disk.boot_id(),
            after_loss_of_power=self.replicas.logs.after_loss_of_power,
            now_us=self._now_us,
        )
        self._life = self._lives.begin()
        await self._listen()
        for shell in self._shells:
            shell.set_timer()
        self.timer.start()
        self._following = self._start(self._follow())

    async def _take_lock(self) -> Lock:
        while True:
            try:
                return self.disk.lock(self._path("lock"))
            except PartitionLocked:
                _log.warning("node %s waits for its last incarnation to end", self.spec.node_id)
                await asyncio.sleep(_RETRY_S)

    def _path(self, suffix: str) -> str:
        return f"{self.spec.data_dir}/nodes/{self.spec.node_id}.{suffix}"

    def _direct_session(self) -> DirectSession:
        spec, incarnation = self.spec, self.incarnation
        return DirectSession(self.sessions, self.turn, token=spec.token, node_id=spec.node_id, incarnation=incarnation)

    async def _listen(self) -> None:
        """Listen at the first port that is free, and remember it for the next life."""
        path = self._path("port")
        last_port = int(self.disk.read_bytes(path)) if self.disk.exists(path) else 0
        *others, last_resort = ports_to_try(self.spec, last_port)
        for port in others:
            with suppress(OSError):
                self.port = await self._listen_at(port)
                break
        else:
            self.port = await self._listen_at(last_resort)
        if self.port != last_port:
            write_atomically(self.disk, path, str(self.port).encode())

    async def _listen_at(self, port: int) -> int:
        return await self.listener.listen(self.spec.bind_host or self.spec.host, port)

    async def _follow(self) -> None:
        """Register, and follow the metadata; whenever the controller is gone, do so again."""
        while True:
            try:
                await self._register()
                while True:
                    await self._follow_once()
            except Unanswered:
                await asyncio.sleep(_RETRY_S)
            except Exception as error:  # noqa: BLE001 - without metadata this node is of no use
                self.fail(error)

    async def _register(self) -> None:
        loss = self._life.loss
        registered = await self.controller.call(RegisterNode, self.registration, loss)
        if registered.error_code is not ErrorCode.NONE:
            _log.info("node %s may not join yet: %s", self.spec.node_id, registered.message)
            if registered.error_code is ErrorCode.STALE_BROKER_EPOCH:
                self._known_incarnation = registered.known_incarnation
                self.is_registered = False
                self._begin_life()
            raise Unanswered(str(registered.message))
        assert self._lives is not None, "this is one of its lives"
        self._lives.told()
        self.is_registered = True
        _log.info("node %s has joined: incarnation %s, port %s", self.spec.node_id, self.incarnation, self.port)
        assert registered.image is not None, "a node that may join is given the metadata"
        self._take(registered.image)
        if self.replicas.failures.are_more_than(loss):
            self.begin_life()

    @property
    def registration(self) -> NodeRegistration:
        """Who this node is in this life."""
        spec = self.spec
        return NodeRegistration(spec.node_id, self.incarnation, spec.host, self.port, spec.roles, os.getpid())

    async def _follow_once(self) -> None:
        followed = await self.controller.call_within(
            _FOLLOW_MS / 1000 + PATIENCE_S, FollowMetadata, self.image.version, _FOLLOW_MS
        )
        if followed.error_code is not ErrorCode.NONE:
            raise Unanswered(f"the controller answered {followed.error_code.name}")
        image = follow(self.image, followed)
        if image is not self.image:
            self._take(image)
        # What the controller has just said is fresher than the last sweep.
        self._sweeper.sweep(self.image, self.steady_ms())

    def _take(self, image: MetadataImage) -> None:
        previous, self.image = self.image, image
        self.peers.learn({node_id: node for node_id, node in image.nodes.items() if node_id != self.spec.node_id})
        self.peers.forget(previous.nodes.keys() - image.nodes.keys() - {self.spec.node_id})
        if image.plan != previous.plan:
            self.supervisor.plan_changed(image.plan.values())
        known = image.nodes.get(self.spec.node_id)
        if known is None or known.incarnation != self.incarnation:
            # The controller has given this life up.
            self.begin_life()
        else:
            self.replicas.metadata_changed(previous)
        for shell in self._shells:
            shell.metadata_changed(previous)

    def _start(self, coroutine: Any) -> asyncio.Task[None]:  # noqa: ANN401 - a coroutine
        task: asyncio.Task[None] = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Put everything away, so that the next start has nothing to recover."""
        await self.listener.close()
        self.timer.stop()
        for task in [*self._tasks]:
            task.cancel()
        self.sessions.end_all()
        for shell in self._shells:
            shell.close()
        self.replicas.close()
        if self._lives is not None:
            self._lives.close()
        self.peers.close()
        if self._lock is not None:
            self._lock.release()

    def describe(self) -> dict[str, Any]:
        """What a status shows of this node."""
        return {
            "node_id": self.spec.node_id,
            "roles": [str(role) for role in self.spec.roles],
            "pid": os.getpid(),
            "machine": self.spec.machine,
            "host": self.spec.host,
            "port": self.port,
            "incarnation": self.incarnation,
            "registered": self.is_registered,
            "controller": self.controller.node_id,
            "sessions": len(self.sessions),
            "connections": len(self.listener),
            "metadata_version": self.image.version,
            "asked_others": self.peers.traffic.as_dict(),
            "events_a_turn": {
                str(shell.role): round(shell.events / shell.turns, 1) for shell in self._shells if shell.turns
            },
        }
