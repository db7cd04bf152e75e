"""The one place that knows how to reach a cluster: commands see a `Session`, and nothing of Ray."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import ray

from eagleray.actors.cluster.add_machine import add_machine
from eagleray.actors.cluster.embedded_ray import EmbeddedRay
from eagleray.actors.cluster.machines import CannotAdd
from eagleray.actors.cluster.start_cluster import describe_nodes, stop_cluster
from eagleray.actors.cluster.supervision import actor_name
from eagleray.actors.lanes.peers import Lane, Peers
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.cli.errors import UsageError
from eagleray.cli.options import Connection
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import NodeUnreachable, NotConnected, TopicNotFound
from eagleray.connecting import check_lane, find, join_ray, open_client, open_located
from eagleray.locating import check_ray, locate
from eagleray.location import COMMAND

_log = logging.getLogger(__name__)

_FIND_S: Final = 15.0

# It says with every command that it is switched on.
logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)


class Session:
    """A connection to a running cluster.

    Owns: nothing. The caller that opened it closes the cluster's clients and lanes.
    """

    def __init__(
        self, name: str, cluster: AsyncCluster, address: str = "", credentials: ClusterCredentials | None = None
    ) -> None:
        self.name = name
        self.cluster = cluster
        self.address = address
        self.credentials = credentials

    def _require_ray(self) -> None:
        if not self.address:
            raise UsageError(
                "this needs Ray, and a contact file does not lead there; give --address HOST:PORT of its head."
            )

    async def nodes(self) -> list[dict[str, Any]]:
        """What each node says about itself, and what Ray says about its actor."""
        self._require_ray()
        described = await describe_nodes(self.name, self.cluster.runtime.view.image)
        actors = await asyncio.to_thread(_actors)
        return [node | actors.get((actor_name(node["node_id"]), node.get("pid", 0)), {}) for node in described]

    async def add_machine(self, address: str, *, wait_s: float) -> tuple[int, ...]:
        """Give the cluster nodes on one more Ray node; return their ids."""
        self._require_ray()
        try:
            return await add_machine(self.name, address, wait_s=wait_s)
        except CannotAdd as error:
            raise UsageError(f"{error}.") from error

    async def stop(self) -> None:
        """Stop the cluster in good order, with every node that it has by now."""
        self._require_ray()
        view = self.cluster.runtime.view
        await view.refreshed()
        await asyncio.to_thread(stop_cluster, self.name, view.image)

    async def require_topic(self, topic: str, partition: int | None = None) -> int:
        """Return how many partitions a topic has; raise at once where there is no such topic or partition."""
        view = self.cluster.runtime.view
        await view.refreshed()
        if topic not in view.partitions:
            raise TopicNotFound(f"there is no topic {topic!r}; `eagleray topic list` shows those there are.")
        count = len(view.partitions[topic])
        if partition is not None and not 0 <= partition < count:
            raise UsageError(f"--partition is {partition}; topic {topic!r} has the partitions 0 to {count - 1}.")
        return count


def _actors() -> dict[tuple[str, int], dict[str, Any]]:
    """Where Ray runs actors, and how often it has started each anew; nothing where it does not say.

    By name and process: another cluster has the same names, and another machine may have the same numbers of processes.
    """
    try:
        actors = ray._private.state.actors()  # noqa: SLF001 - the public way needs Ray's dashboard
    except Exception as error:  # noqa: BLE001 - a status is worth showing without it
        _log.info("Ray says nothing about its actors: %s", error)
        return {}
    return {
        (actor["Name"], actor["Pid"]): {"ray_node": actor["Address"]["NodeID"], "restarts": actor["NumRestarts"]}
        for actor in actors.values()
        if actor["State"] == "ALIVE"
    }


@asynccontextmanager
async def connected(connection: Connection) -> AsyncIterator[Session]:
    """Find a running cluster and connect to it."""
    location = locate(connection.name or None, connection.address, COMMAND)
    if location.credentials is not None:
        async with clients_of(open_located(location, Lane.DIRECT)) as cluster:
            yield Session(location.name, cluster, credentials=location.credentials)
        return
    with joined_ray(location.address, is_probed=True):
        credentials = await _find(location.name)
        async with clients_of(open_client(location.name, credentials, chosen_lane())) as cluster:
            yield Session(location.name, cluster, location.address, credentials)


async def _find(name: str) -> ClusterCredentials:
    try:
        async with asyncio.timeout(_FIND_S):
            return await find(name, chosen_lane())
    except NodeUnreachable:
        raise
    except (TimeoutError, NotConnected):
        raise UsageError(
            f"no node of cluster {name!r} answers; Ray may be starting it anew, or its machines are gone and it waits "
            "for them: try again in a moment, and look at `ray status`."
        ) from None


@asynccontextmanager
async def clients_of(opening: Awaitable[tuple[Peers, AsyncCluster]]) -> AsyncIterator[AsyncCluster]:
    """What clients share on this loop, until the end of the block."""
    peers, cluster = await opening
    try:
        yield cluster
    finally:
        await cluster.close()
        peers.close()


@contextmanager
def joined_ray(address: str | None, *, is_probed: bool = False) -> Iterator[EmbeddedRay]:
    """Join a Ray cluster, or start one without an address; leave it, or end it, in the end."""
    if not is_probed:
        check_ray(address, COMMAND)
    try:
        embedded = join_ray(address)
    except Exception as error:  # what Ray raises has no class of its own
        raise UsageError(_why_no_ray(address, error)) from error
    try:
        yield embedded
    finally:
        embedded.close()
        ray.shutdown()


def _why_no_ray(address: str | None, error: Exception) -> str:
    if address is None:
        return f"Ray did not start on this machine: {error}"
    return f"cannot join the Ray cluster at {address}: {error}; where it asks for a token, set RAY_AUTH_MODE=token."


def chosen_lane() -> Lane:
    """Which lane commands take to a cluster, and nodes that they start to each other; raises InvalidConfig."""
    lane = os.environ.get("EAGLERAY_LANE") or Lane.DIRECT
    check_lane(lane)
    return Lane(lane)


def ray_address() -> str:
    """The address under which other processes join the Ray cluster of this one."""
    return str(ray.get_runtime_context().gcs_address)
