"""A cluster in this process for the parts of the data source that Spark runs, without Spark and without Ray."""

import pyarrow as pa

from eagleray.client.cluster import AsyncCluster
from eagleray.client.loop_thread import LoopThread
from eagleray.client.sync_cluster import SyncCluster
from eagleray.pipelines.options import SinkOptions
from tests.support.batches import NOW_MS
from tests.support.client_world import ClientWorld


class Here:
    """Stands for where a cluster is: this very process."""

    def __init__(self):
        self.thread = LoopThread()
        self.cluster = SyncCluster(self.thread, self.thread.run(self._make()))

    async def _make(self):
        self.world = ClientWorld({"orders": 3, "copy": 2})
        return AsyncCluster(self.world.runtime())

    def connect(self):
        return self.cluster

    def found(self):
        return self

    def on_loop(self, act, *fields):
        async def call():
            return act(*fields)

        return self.thread.run(call())

    def committed(self, topic):
        """The values that a reader of committed records sees, in order."""
        return sorted(value.decode() for value in self.on_loop(self.world.committed, topic))

    def close(self):
        self.on_loop(self.world.close)
        self.cluster.close()


def sink_options(**options):
    return SinkOptions.parse({"topic": "copy", **options}, streaming=True)


def rows(*values):
    """What Spark hands to a task, at a time that the world has, too."""
    times = pa.array([NOW_MS] * len(values), pa.timestamp("ms", "UTC"))
    return iter([pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string()), "timestamp": times})])
