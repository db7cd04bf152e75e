"""How Spark's processes reach the broker: one connection for each process and cluster, kept as long as the process.

Spark runs our code in many Python processes: the driver's planners, its stream reader, its committer, and the workers
of every executor. Each of them talks straight to the broker's nodes by the direct lane. For that it needs the cluster's
credentials, which travel with the plan; only a process without them joins Ray to look them up.
"""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Final

import msgspec

from eagleray.actors.lanes.peers import Lane, Peers
from eagleray.actors.process.cluster_credentials import ClusterCredentials, decode_credentials
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import EaglerayError, RefusedError
from eagleray.client.loop_thread import LoopThread
from eagleray.client.runtime import ClientRuntime
from eagleray.client.sync_cluster import SyncCluster

_ANSWER_S: Final = 30.0


class ClusterNotReached(RefusedError):
    """There is no such cluster, or no way to it from here."""

    advice = (
        "Start one with `eagleray start`, name it with the option `cluster`, or say with `address` which Ray cluster "
        "it is on. Outside of Ray, `eagleray contact FILE` writes what the option `contact` takes."
    )


class ClusterLocation(msgspec.Struct, frozen=True):
    """Which cluster, and how to find it. Picklable; with credentials it is a secret."""

    cluster: str
    address: str
    credentials: ClusterCredentials | None = None

    def connect(self) -> SyncCluster:
        """Return this process's connection to the cluster, made when it is first asked for."""
        # A connection does not survive a fork, so each process has its own.
        key = (os.getpid(), self.cluster, self.address)
        cluster = _connections.get(key)
        if cluster is None:
            cluster = _connections[key] = _open(self.cluster, self.found().credentials)
            # Spark's workers collect garbage after every task, of all that was ever loaded unless it is set apart.
            gc.freeze()
        return cluster

    def found(self) -> ClusterLocation:
        """Return the same with credentials; raises ClusterNotReached."""
        if self.credentials is not None:
            return self
        return msgspec.structs.replace(self, credentials=find_credentials(self.cluster, self.address))


_connections: dict[tuple[int, str, str], SyncCluster] = {}


def location_of(
    cluster: str, address: str, contact_file: str | None, credentials: dict[str, ClusterCredentials] | None = None
) -> ClusterLocation:
    """Return where a cluster is: by a contact file, by known credentials, or to be looked up with Ray."""
    if contact_file is not None:
        return ClusterLocation(cluster, address, _read_contact_file(contact_file))
    return ClusterLocation(cluster, address, (credentials or {}).get(cluster))


def find_credentials(cluster: str, address: str) -> ClusterCredentials:
    """Join Ray, unless this process has done so, and ask the cluster's controller; raises ClusterNotReached."""
    # Ray takes most of a second to load, and a process that has credentials never needs it.
    import ray.exceptions  # noqa: PLC0415

    from eagleray.connecting import find, join_ray_of  # noqa: PLC0415
    from eagleray.locating import locate  # noqa: PLC0415

    try:
        location = locate(cluster, address)
        joined = join_ray_of(location)
    except EaglerayError as error:
        raise ClusterNotReached(error.message) from error
    thread = LoopThread("eagleray-contact")
    try:
        return (location.credentials or thread.run(find(cluster, Lane.DIRECT))).without_topics()
    except (EaglerayError, ray.exceptions.RayError) as error:
        raise ClusterNotReached(str(error)) from error
    finally:
        thread.close()
        if joined is not None:
            joined.close()


def _read_contact_file(path: str) -> ClusterCredentials:
    try:
        return decode_credentials(Path(path).read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise ClusterNotReached(f"the contact file {path!r} cannot be read: {error}") from error


def _open(name: str, credentials: ClusterCredentials | None) -> SyncCluster:
    assert credentials is not None
    thread = LoopThread()

    async def make() -> AsyncCluster:
        cluster = AsyncCluster(ClientRuntime(Peers(token=credentials.token), credentials.image, cluster=name))
        # One node is asked after the other for metadata; some of them may be restarting.
        async with asyncio.timeout(_ANSWER_S):
            while not cluster.runtime.view.image.version:
                await cluster.runtime.view.refreshed()
        return cluster

    try:
        return SyncCluster(thread, thread.run(make()))
    except TimeoutError:
        thread.close()
        nodes = ", ".join(f"{node.host}:{node.port}" for node in credentials.image.nodes.values())
        raise ClusterNotReached(f"no node of cluster {name!r} answers at {nodes}, where they were.") from None
