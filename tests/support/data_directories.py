"""Data directories that real nodes have written, and what a disk may do to them."""

import asyncio
from pathlib import Path

from eagleray.testing import COLOCATED, LocalCluster

SETTINGS = {
    "flush.ms": "3600000",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
SMALL_SEGMENTS = {"segment.bytes": "1024", "index.interval.bytes": "1"}
ROUNDS = 8
RECORDS_A_ROUND = 10


def write_directory(path, *, killed=False, layout=COLOCATED):
    """Have nodes write transactions, some of them aborted, in small segments, and end them as stop or kill -9 does."""
    asyncio.run(_write(path, killed, layout))


async def _write(path, killed, layout):
    async with LocalCluster(path, layout, SETTINGS) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("orders", partitions=1, configs=SMALL_SEGMENTS)
        await cluster.admin.create_topic("payments", partitions=1)
        async with cluster.producer(transactional_id="loader-1") as producer:
            for number in range(ROUNDS):
                producer.begin()
                for record in range(RECORDS_A_ROUND):
                    await producer.send("orders", b"%d" % record * 20, key=b"%d" % number, partition=0)
                await producer.flush()
                await (producer.abort() if number % 2 else producer.commit())
        async with cluster.producer(acks="all") as producer:
            # A batch that is damaged passes for one that was torn, unless it has another one behind it.
            for _ in range(3):
                await (await producer.send("payments", b"paid", partition=0))
        async with cluster.consumer("orders", group="readers", **{"auto.offset.reset": "earliest"}) as consumer:
            assert await consumer.poll(timeout_ms=30_000)
            await consumer.commit()
        await cluster.close()
        # A thread that flushes would go on for a moment behind a node of this process that was killed.
        while any(node.replica_manager.chores._flushes.is_running for node in nodes.nodes.values()):
            await asyncio.sleep(0.001)
        _flush_in_the_background(nodes)
        if killed:
            for node_id in [*nodes.nodes]:
                nodes.kill_node(node_id)


def _flush_in_the_background(nodes):
    """Have each log of records flushed once, as its node does within `flush.ms`: that leaves a note."""
    for node in nodes.nodes.values():
        logs = node.replica_manager.logs
        for log in (logs[partition] for partition in logs if partition.topic == "orders"):
            flush = log.begin_flush()
            log.finish_flush(flush, flush.run())


def flip(path, at=None):
    """Change one bit of a file, in its middle where no byte is named."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 0x10
    path.write_bytes(data)


def state_of(folder):
    """Everything that a look might change: names, bytes, and the times at which files and folders were changed."""
    found = {}
    for path in sorted([Path(folder), *Path(folder).rglob("*")]):
        stat = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (content, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_mode)
    return found
