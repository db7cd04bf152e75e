"""A client process: `python -m tests.torture.client SPEC`, until its standard input ends.

It says "ready" when all its producers have their identities, and ends with 0 when it was told to stop or when all of
its producers were superseded by those of another process. It takes the direct lane, without Ray.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import sys

import msgspec

from eagleray.actors.lanes.peers import Peers
from eagleray.client.cluster import AsyncCluster
from eagleray.client.runtime import ClientRuntime
from tests.support.history import HistoryWriter
from tests.torture.producing import Producing, Superseded
from tests.torture.settings import ClientSpec
from tests.torture.transformer import Transformer
from tests.torture.writer import Writer

_ASK_S = 5.0


async def run(spec: ClientSpec) -> None:
    """Run everything that the spec asks for."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, dump_tasks)
    stopping = asyncio.Event()
    watching = asyncio.create_task(stop_at_end_of_input(stopping))
    peers = Peers(token=spec.token, timeout_s=_ASK_S)
    cluster = AsyncCluster(ClientRuntime(peers, spec.image))
    with HistoryWriter(spec.history_path) as history:
        workers = make_workers(spec, cluster, history, stopping)
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.start())
        print("ready", flush=True)
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(until_superseded(worker))
        watching.cancel()
    await cluster.close()
    peers.close()


def make_workers(
    spec: ClientSpec, cluster: AsyncCluster, history: HistoryWriter, stopping: asyncio.Event
) -> list[Writer | Transformer]:
    """Make the writers and transformers of a client; their names are the same in each of its incarnations."""

    def producing(name: str) -> Producing:
        return Producing(cluster, history, name, spec.incarnation)

    writers = [Writer(spec, producing(f"writer-{spec.number}-{place}"), stopping) for place in range(spec.writers)]
    transformers = [
        Transformer(spec, cluster, producing(f"transformer-{partition}"), partition, stopping)
        for partition in spec.transform_partitions
    ]
    return [*writers, *transformers]


async def until_superseded(worker: Writer | Transformer) -> None:
    """Run a worker; that another process has taken its name over is a good end."""
    try:
        await worker.run()
    except Superseded as superseded:
        print(f"superseded {superseded}", flush=True)


async def stop_at_end_of_input(stopping: asyncio.Event) -> None:
    """Notice that whoever started this process wants it to end, or has itself ended."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    stopping.set()


def dump_tasks() -> None:
    """Say where each task is, for whoever wonders why this process does not end."""
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
    sys.stderr.flush()


if __name__ == "__main__":
    faulthandler.enable()
    with open(sys.argv[1], "rb") as file:
        told = msgspec.msgpack.decode(file.read(), type=ClientSpec)
    asyncio.run(run(told))
