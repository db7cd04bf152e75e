"""A cluster in this process, for tests: real nodes with real listeners and disks, and no Ray.

>>> async with LocalCluster(tmp_path) as cluster:
...     client = cluster.connect()
...     await client.admin.create_topic("orders", partitions=3)
...     await client.close()
"""

from eagleray.testing.local_cluster import COLOCATED, EVERYTHING, SEPARATE, THREE_MACHINES, Layout, LocalCluster
from eagleray.testing.local_node import LocalNode

__all__ = [
    "COLOCATED",
    "EVERYTHING",
    "SEPARATE",
    "THREE_MACHINES",
    "Layout",
    "LocalCluster",
    "LocalNode",
]
