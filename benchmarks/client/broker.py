"""The broker that both clients use: one node in a process of its own, without Ray."""

import asyncio
import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from eagleray.actors.lanes.peers import Lane, Peers
from eagleray.broker.metadata.image import MetadataImage
from eagleray.client.cluster import AsyncCluster
from eagleray.client.runtime import ClientRuntime
from eagleray.client.sync_cluster import SyncCluster
from eagleray.testing import EVERYTHING, LocalCluster

_SETTINGS = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}


class Broker:
    """What clients have to know of the broker."""

    def __init__(self, token: bytes, image: MetadataImage, port: int) -> None:
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._token = token
        self._image = image

    def _peers(self) -> Peers:
        return Peers(token=self._token, lane=Lane.DIRECT, timeout_s=30)

    def connect(self) -> SyncCluster:
        """Connect our blocking clients."""
        return SyncCluster.connect(self._peers, self._image, name="bench")

    def connect_loop(self) -> tuple[AsyncCluster, Peers]:
        """Connect our asyncio clients to the running loop; the caller closes both."""
        peers = self._peers()
        return AsyncCluster(ClientRuntime(peers, self._image, cluster="bench")), peers


def _serve(says: Connection, directory: str) -> None:
    async def main() -> None:
        async with LocalCluster(directory, {0: ("controller", *EVERYTHING)}, _SETTINGS) as nodes:
            node = nodes.nodes[0]
            says.send((nodes.token, node.image, node.port))
            await asyncio.get_running_loop().run_in_executor(None, says.recv)

    asyncio.run(main())


@contextmanager
def broker() -> Iterator[Broker]:
    """Run a broker in another process, whose files go with it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="eagleray-bench-") as directory:
        process = context.Process(target=_serve, args=(theirs, directory))
        process.start()
        # Without this, a broker that could not start would be waited for: the pipe would have a writer still.
        theirs.close()
        try:
            yield Broker(*ours.recv())
            ours.send("end")
        finally:
            ours.close()
            process.join(30)
            if process.is_alive():
                process.kill()
                process.join()
