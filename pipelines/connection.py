"""How Spark's processes reach the broker: one connection for each process and cluster, kept as long as the process.

Spark runs our code in many Python processes: the driver's planners, its stream reader, its committer, and the workers
of every executor. Each of them talks straight to the broker's nodes by the direct lane. For that it needs the cluster's
contact, which travels with the plan; only a process without one joins Ray to look it up.
"""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Final

import msgspec

from eagleray.actors.contact import Contact, decode_contact
from eagleray.actors.lanes.peers import Peers
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import RefusedError
from eagleray.client.loop_thread import LoopThread
from eagleray.client.metadata import ClusterView
from eagleray.client.runtime import ClientRuntime
from eagleray.client.sync import SyncCluster

_ANSWER_S: Final = 30.0


class ClusterNotReached(RefusedError):
    """There is no such cluster, or no way to it from here."""

    advice = (
        "Start one with `eagleray start`, name it with the option `cluster`, or say with `address` which Ray cluster "
        "it is on. Outside of Ray, `eagleray contact FILE` writes what the option `contact` takes."
    )


class Whereabouts(msgspec.Struct, frozen=True):
    """Which cluster, and how to find it. Picklable; with a contact it is a secret."""

    cluster: str
    address: str
    contact: Contact | None = None

    def connect(self) -> SyncCluster:
        """Return this process's connection to the cluster, made when it is first asked for."""
        # A connection does not survive a fork, so each process has its own.
        key = (os.getpid(), self.cluster, self.address)
        cluster = _connections.get(key)
        if cluster is None:
            cluster = _connections[key] = _open(self.cluster, self.found().contact)
            # Spark's workers collect garbage after every task, of all that was ever loaded unless it is set apart.
            gc.freeze()
        return cluster

    def found(self) -> Whereabouts:
        """Return the same with a contact; raises ClusterNotReached."""
        if self.contact is not None:
            return self
        return msgspec.structs.replace(self, contact=find_contact(self.cluster, self.address))


_connections: dict[tuple[int, str, str], SyncCluster] = {}


def whereabouts(
    cluster: str, address: str, contact_file: str | None, contacts: dict[str, Contact] | None = None
) -> Whereabouts:
    """Return where a cluster is, by a file that was named, by what is known already, or else to be found by Ray."""
    if contact_file is not None:
        return Whereabouts(cluster, address, _read_contact(contact_file))
    return Whereabouts(cluster, address, (contacts or {}).get(cluster))


def find_contact(cluster: str, address: str) -> Contact:
    """Join Ray, unless this process has done so, and ask the cluster's controller; raises ClusterNotReached."""
    # Ray takes most of a second to load, and a process that has a contact never needs it.
    import ray.exceptions  # noqa: PLC0415

    from eagleray.actors.embedded_ray import EmbeddedRay  # noqa: PLC0415
    from eagleray.actors.finding import ClusterNotFound, find_cluster  # noqa: PLC0415

    try:
        EmbeddedRay(address)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ClusterNotReached(f"no Ray cluster can be joined at {address!r}: {error}") from error
    thread = LoopThread("eagleray-contact")
    try:
        return thread.run(find_cluster(cluster)).without_topics()
    except (ClusterNotFound, ray.exceptions.RayError) as error:
        raise ClusterNotReached(str(error)) from error
    finally:
        thread.close()


def _read_contact(path: str) -> Contact:
    try:
        return decode_contact(Path(path).read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise ClusterNotReached(f"the contact file {path!r} cannot be read: {error}") from error


def _open(name: str, contact: Contact | None) -> SyncCluster:
    assert contact is not None
    thread = LoopThread()

    async def make() -> AsyncCluster:
        cluster = AsyncCluster(ClientRuntime(Peers(token=contact.token), contact.image, cluster=name))
        await _until_known(cluster.runtime.view)
        return cluster

    try:
        return SyncCluster(thread, thread.run(make()))
    except TimeoutError:
        thread.close()
        nodes = ", ".join(f"{node.host}:{node.port}" for node in contact.image.nodes.values())
        raise ClusterNotReached(f"no node of cluster {name!r} answers at {nodes}, where they were.") from None


async def _until_known(view: ClusterView) -> None:
    """Ask one node after the other for metadata; some of them may be about to be started again."""
    async with asyncio.timeout(_ANSWER_S):
        while not view.image.version:
            await view.refreshed()
