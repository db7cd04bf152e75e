"""A node: one process with its listener, its metadata image and its roles."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from eagleray.actors.common.clock_config import ClockConfig
from eagleray.actors.common.controller_channel import REPLY_TIMEOUT_S, ControllerChannel
from eagleray.actors.common.listener_config import ListenerConfig
from eagleray.actors.common.node_timer import NodeTimer
from eagleray.actors.common.security_config import SecurityConfig
from eagleray.actors.common.settings import config_of
from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.common.storage_config import StorageConfig
from eagleray.actors.kafka_server.listener import Listener
from eagleray.actors.lanes.catalog import NODE_REQUESTS, REPLICA_REQUESTS, REQUESTS
from eagleray.actors.lanes.direct import DirectSession
from eagleray.actors.lanes.messages import AcceptClock, ClockAccepted
from eagleray.actors.lanes.peers import Peers, Unanswered
from eagleray.actors.lanes.ray_lane import RayLane
from eagleray.actors.lanes.sessions import Receiver, Sessions
from eagleray.actors.process.image_keeper import ImageKeeper
from eagleray.actors.process.incarnations import Incarnation, Incarnations, time_of_day_us
from eagleray.actors.process.listening import Listening
from eagleray.actors.process.node_clock import CLOCK_SUFFIX, NodeClock
from eagleray.actors.process.node_status import NodeStatus
from eagleray.actors.roles.catalog import ROLES
from eagleray.actors.roles.role import Role, Supervisor
from eagleray.actors.storage.data_directory import DataDirectory
from eagleray.actors.storage.disk import Disk, LocalDisk, Lock, PartitionLocked
from eagleray.actors.storage.disk_guard import DiskGuard
from eagleray.actors.storage.internal_partitions import QUERIES, InternalPartitions
from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.actors.storage.stray_logs import StrayLogs
from eagleray.broker.controller.events import Answer, DescribeConfigs, FollowMetadata, GetMetadata, RegisterNode
from eagleray.broker.controller.metadata_queries import answer_metadata, describe_configs, follow
from eagleray.broker.messages import Message
from eagleray.broker.metadata.directory_identity import DirectoryRefused
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.losses import EVERYTHING
from eagleray.broker.metadata.nodes import BrokerEndpoint, NodeRegistration, ProcessRole
from eagleray.broker.metadata.topics import INTERNAL_TOPICS
from eagleray.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

_FOLLOW_MS: Final = 10_000
_RETRY_S: Final = 0.1
_EXIT_STATUS: Final = 70
_SESSION_BITS: Final = 30


class Node:
    """Hosts the roles of one node of a cluster.

    Owns: the listener, the lanes, the metadata image, the replicas, and an object for each role.
    Persists: the port that it listens at, so that clients find it again after a restart, the number of its
    incarnations, and its last image; the roles persist what they have to. After a restart it is another incarnation: it
    waits until the last one has ended, registers, and gets new epochs for all that it leads. When the controller has
    fenced it, the process goes on as another incarnation in the same way.
    """

    def __init__(self, spec: NodeSpec, supervisor: Supervisor, disk: Disk | None = None) -> None:
        self.spec = spec
        self.disk = disk or LocalDisk()
        self.directory = DataDirectory(self.disk, spec.data_dir, spec.node_id)
        self.supervisor = supervisor
        self.loop = asyncio.get_running_loop()
        storage = config_of(StorageConfig, spec.settings)
        self.disk_guard = DiskGuard(self.disk, spec.data_dir, spec.node_id, storage, self.steady_ms)
        # Before anything is written: on a disk that is full, this makes the room that a start takes.
        self.disk_guard.look()
        self.clock = NodeClock(
            self.disk,
            self._path(CLOCK_SUFFIX),
            spec.node_id,
            config_of(ClockConfig, spec.settings),
            wall_ms=self._wall_ms,
            steady_ms=self.steady_ms,
        )
        self.image: MetadataImage = EMPTY_IMAGE
        self._incarnation = Incarnation(-1, EVERYTHING)
        self._incarnations: Incarnations | None = None
        self._known_incarnation = -1
        self._following: asyncio.Task[None] | None = None
        self.timer = NodeTimer(self.loop, self.steady_ms, self.fail)
        self._image_keeper = ImageKeeper(
            self.disk,
            spec.data_dir,
            spec.node_id,
            sequence=self.directory.image_sequence,
            loop=self.loop,
            timer=self.timer,
            steady_ms=self.steady_ms,
        )
        self.peers = self._make_peers()
        self.turn = self.peers.turn
        self.controller = ControllerChannel(self.peers, spec.controllers)
        self.replica_manager = ReplicaManager(self, is_lazy=INTERNAL_TOPICS.__contains__)
        self.clock.on_set, self.clock.on_doubt = self._time_was_set, self.replica_manager.logs.doubt_clock
        self._stray_logs = StrayLogs(
            self.replica_manager.logs,
            spec.machine,
            self.steady_ms(),
            storage.file_delete_delay_ms,
            needs_room=lambda: self.disk_guard.is_full,
        )
        self._roles: list[Role] = [ROLES[name](self) for name in spec.roles]
        self.sessions = Sessions(self._receivers(), self.turn, first_session=secrets.randbits(_SESSION_BITS))
        self.answer = self.sessions.answer
        self.peer_host = self.sessions.peer_host
        self.peers.add_local(spec.node_id, self.sessions)
        self.ray_lane = RayLane(self.sessions)
        security = config_of(SecurityConfig, spec.settings)
        self.listener = Listener(self, config_of(ListenerConfig, spec.settings), self._direct_session)
        self._listening = Listening(spec, self.disk, self.listener, security)
        self._lock: Lock | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_registered = False
        self._status = NodeStatus(self, self._roles, self._stray_logs)

    def _make_peers(self) -> Peers:
        return Peers(token=self.spec.token, actor_of=self.supervisor.actor_of, lane=self.spec.lane)

    def _receivers(self) -> dict[type, Receiver]:
        receivers: dict[type, Receiver] = dict.fromkeys(NODE_REQUESTS, self._answer_from_image)
        receivers |= dict.fromkeys(REPLICA_REQUESTS, self.replica_manager.receive)
        for role in self._roles:
            for message_type in REQUESTS[role.process_role]:
                receivers[message_type] = role.receiver_of(message_type)
            if role.process_role is ProcessRole.CONTROLLER:
                # What the controller itself says is true now, and not of a moment ago.
                receivers |= dict.fromkeys(NODE_REQUESTS, role.post)
        receivers[AcceptClock] = self._accept_clock
        return receivers | dict.fromkeys(QUERIES, InternalPartitions(self, receivers).post)

    def _answer_from_image(self, request: Message) -> None:
        if isinstance(request, GetMetadata):
            answer: Answer = answer_metadata(self.image, request)
        else:
            assert isinstance(request, DescribeConfigs), "nodes answer nothing else without a role"
            answer = describe_configs(self.image, request)
        self.turn.act(partial(self.answer, answer))

    # What the roles see of it

    def now_ms(self) -> int:
        """The time of day, which does not follow the wall clock when that jumps."""
        return self.clock.now_ms()

    def _wall_ms(self) -> int:
        return self._now_us() // 1000

    _now_us = staticmethod(time_of_day_us)

    def steady_ms(self) -> int:
        """The time by a clock that is never set, and that goes on while the process is stopped."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def _look_at_clock(self) -> None:
        self.clock.look()
        self.timer.set(self._look_at_clock, self.clock.next_due_ms)

    def _time_was_set(self, by_ms: int) -> None:
        self.replica_manager.logs.time_was_set(by_ms)
        for role in self._roles:
            role.time_was_set(by_ms)

    def _accept_clock(self, request: Message) -> None:
        assert isinstance(request, AcceptClock), "nothing else is received here"
        by_ms = self.clock.accept()
        self.turn.act(partial(self.answer, ClockAccepted(request.request_id, by_ms)))

    def chance(self) -> float:
        """A random number from 0 to 1 that cannot be predicted."""
        return random.random()  # noqa: S311 - it spreads elections, and keeps no secret

    @property
    def incarnation(self) -> int:
        """Which incarnation of the node this is."""
        return self._incarnation.number

    def start_incarnation(self) -> None:
        """Give up everything that is led here, and register again as another incarnation.

        Where that is under way already, later failures are handled when this incarnation has registered.
        """
        if self.is_registered:
            self.is_registered = False
            self.loop.call_soon(self._start_incarnation)

    def _start_incarnation(self) -> None:
        assert self._incarnations is not None, "there is a first incarnation by now"
        try:
            self._incarnation = self._incarnations.begin(
                after=self._known_incarnation, loss=self.replica_manager.start_incarnation()
            )
        except Exception as error:  # noqa: BLE001 - an incarnation that looks like the last one must not go on
            self.fail(error)
        if self._following is not None:
            self._following.cancel()
            self._following = self._start(self._follow())

    def fail(self, error: BaseException) -> None:
        """End the process; Ray starts it again."""
        _log.critical("node %s ends itself and begins anew: %s", self.spec.node_id, error, exc_info=error)
        logging.shutdown()
        os._exit(_EXIT_STATUS)

    def request_failed(self, host: str, request: str, error: BaseException) -> None:
        """Log that a request of a host has failed by a mistake of ours, which has changed nothing, and count it."""
        self._status.failed_requests[request] += 1
        self.listener.throttled_log.report_failure(host or "a role of this node", request, error)

    def connection_closed(self, number: int) -> None:
        """Tell the roles that a connection is closed by which a Kafka client has sent requests of transactions."""
        for role in self._roles:
            role.connection_closed(number)

    # Starting and stopping

    async def start(self) -> None:
        """Wait until the last incarnation has ended, then listen, and join the cluster."""
        _log.info("node %s starts, as %s, in process %s", self.spec.node_id, ", ".join(self.spec.roles), os.getpid())
        self._lock = await self._take_lock()
        self.clock.begin()
        self._look_at_clock()
        self._incarnations = Incarnations(
            self.disk,
            self._path(".life"),
            self.disk.boot_id(),
            after_loss_of_power=self.replica_manager.logs.after_loss_of_power,
            now_us=self._now_us,
        )
        self._incarnation = self._incarnations.begin()
        await self._listen()
        for role in self._roles:
            role.set_timer()
        self.timer.start()
        self._following = self._start(self._follow())

    async def _take_lock(self) -> Lock:
        while True:
            try:
                return self.disk.lock(self._path(".lock"))
            except PartitionLocked:
                _log.warning("node %s waits for its last incarnation to end", self.spec.node_id)
                await asyncio.sleep(_RETRY_S)

    def _path(self, suffix: str) -> str:
        return f"{self.spec.data_dir}/nodes/{self.spec.node_id}{suffix}"

    async def _listen(self) -> None:
        await self._listening.start()

    def _direct_session(self) -> DirectSession:
        spec, incarnation = self.spec, self.incarnation
        return DirectSession(self.sessions, self.turn, token=spec.token, node_id=spec.node_id, incarnation=incarnation)

    async def _follow(self) -> None:
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
        loss = self._incarnation.loss
        position = replace(self.directory.position, cluster_id=self.directory.cluster_id)
        registered = await self.controller.call(RegisterNode, self.registration, loss, position)
        if registered.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise DirectoryRefused(str(registered.message))
        if registered.error_code is not ErrorCode.NONE:
            _log.info("node %s may not join yet: %s", self.spec.node_id, registered.message)
            if registered.error_code is ErrorCode.STALE_CONTROLLER_EPOCH:
                self.listener.throttled_log.report(str(registered.message))
            if registered.error_code is ErrorCode.STALE_BROKER_EPOCH:
                self._known_incarnation = registered.known_incarnation
                self.is_registered = False
                self._start_incarnation()
            raise Unanswered(str(registered.message))
        assert self._incarnations is not None, "this is one of its incarnations"
        assert registered.image is not None, "a node that may join is given the metadata"
        self.directory.belong_to(registered.image.cluster_id)
        self._check_not_older(registered.image)
        self._incarnations.reported()
        self.is_registered = True
        _log.info("node %s has joined: incarnation %s, port %s", self.spec.node_id, self.incarnation, self.port)
        self._take(registered.image, has_jumped=True)
        if self.replica_manager.failures.are_more_than(loss):
            self.start_incarnation()

    @property
    def port(self) -> int:
        """The node's own port, at which nodes and handles reach it."""
        return self._listening.port

    @property
    def endpoints(self) -> tuple[BrokerEndpoint, ...]:
        """Its listeners for Kafka's clients."""
        return self._listening.endpoints

    @property
    def registration(self) -> NodeRegistration:
        """The registration of this node in this incarnation."""
        spec = self.spec
        where = (spec.host, self.port)
        endpoints = self.endpoints
        return NodeRegistration(spec.node_id, self.incarnation, *where, spec.roles, os.getpid(), endpoints=endpoints)

    async def _follow_once(self) -> None:
        followed = await self.controller.call_within(
            _FOLLOW_MS / 1000 + REPLY_TIMEOUT_S, FollowMetadata, self.image.version, _FOLLOW_MS, self.image.term
        )
        if followed.error_code is not ErrorCode.NONE:
            raise Unanswered(f"the controller answered {followed.error_code.name}")
        image = follow(self.image, followed)
        if image is not self.image:
            self._check_not_older(image)
            self._take(image, has_jumped=followed.image is not None)
        # What the controller has just said is fresher than the last sweep.
        self._stray_logs.sweep(self.image, self.steady_ms())

    def _check_not_older(self, image: MetadataImage) -> None:
        """Raise Unanswered where an image lacks something that this node knew: the controller may have lost it."""
        known = self.directory.position
        if not image.includes(known):
            self.listener.throttled_log.report(
                f"the controller, node {self.controller.node_id}, has sent metadata up to {image.position}, and node "
                f"{self.spec.node_id} knows {known}: they are older, or of a log that has lost some. They are not taken"
            )
            raise Unanswered("the controller's metadata are older than what this node knows")

    def _take(self, image: MetadataImage, *, has_jumped: bool) -> None:
        previous, self.image = self.image, image
        self._image_keeper.take(image)
        self._note_position(image)
        self.peers.learn({node_id: node for node_id, node in image.nodes.items() if node_id != self.spec.node_id})
        self.peers.forget(previous.nodes.keys() - image.nodes.keys() - {self.spec.node_id})
        if image.plan != previous.plan:
            self.supervisor.plan_changed(image.plan.values())
        known = image.nodes.get(self.spec.node_id)
        if known is None or known.incarnation != self.incarnation:
            # The controller has fenced this incarnation.
            self.start_incarnation()
        else:
            self.replica_manager.metadata_changed(previous, has_jumped=has_jumped)
        for role in self._roles:
            role.metadata_changed(previous)

    def _note_position(self, image: MetadataImage) -> None:
        """Note how new the metadata are; on a disk that is full, the note is older, and still true."""
        try:
            self.directory.note_position(image.position)
        except OSError as error:
            self.listener.throttled_log.report(
                f"node {self.spec.node_id} cannot note how new its metadata are: {error}"
            )

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Shut down, so that the next start has nothing to recover."""
        await self.listener.close()
        self.timer.stop()
        for task in [*self._tasks]:
            task.cancel()
        self.sessions.end_all()
        for role in self._roles:
            role.close()
        self.replica_manager.close()
        self._image_keeper.close()
        if self._incarnations is not None:
            self._incarnations.close()
        self.peers.close()
        # What has come in meanwhile finds no log that is open.
        self.turn.stop()
        if self._lock is not None:
            self._lock.release()

    def kill(self) -> None:
        """End as a process does that is killed: nothing is put away, nothing that is under way comes to its end.

        For nodes that share a process with others. Its connections break, and its locks are given back.
        """
        self.turn.stop()
        self.timer.stop()
        for task in [*self._tasks]:
            task.cancel()
        self.sessions.end_all()
        self.listener.abort()
        self.peers.close()
        self.replica_manager.stop()
        self.disk.release_locks()

    def describe(self) -> dict[str, Any]:
        """What a status shows of this node."""
        return self._status.describe()
