"""A cluster in this process for the parts of the data source that Spark runs, without Spark and without Ray."""

import pyarrow as pa

from eagleray.pipelines.options import SinkOptions
from tests.support.background import Background
from tests.support.batches import NOW_MS


class Here(Background):
    """Stands for where a cluster is: this very process."""

    def __init__(self):
        super().__init__({"orders": 3, "copy": 2})

    def connect(self):
        return self.cluster

    def found(self):
        return self

    def committed(self, topic):
        """The values that a reader of committed records sees, in order."""
        return sorted(value.decode() for value in self.on_loop(self.world.committed, topic))


def sink_options(**options):
    return SinkOptions.parse({"topic": "copy", **options}, streaming=True)


def rows(*values):
    """What Spark hands to a task, at a time that the world has, too."""
    times = pa.array([NOW_MS] * len(values), pa.timestamp("ms", "UTC"))
    return iter([pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string()), "timestamp": times})])
