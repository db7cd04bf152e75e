"""Jobs of Ray Data, each in a process of its own: a process joins one Ray only.

python -m tests.compat.clients.ray_data_job write_and_read|read_to_marker BOOTSTRAP_SERVERS TOPIC
"""

import json
import logging
import sys

import ray
import ray.data

from eagleray.actors.cluster.embedded_ray import longer_start_timeout

ROWS = 200
TIMEOUT_MS = 10_000


def write_and_read(bootstrap_servers, topic):
    """Write a topic, and read it back."""
    rows = ray.data.from_items(
        [{"id": number, "name": f"name {number}"} for number in range(ROWS)], override_num_blocks=1
    )
    rows.write_kafka(topic, bootstrap_servers, key_field="name", concurrency=1)
    found = ray.data.read_kafka(topic, bootstrap_servers=bootstrap_servers).take_all()
    return [[row["key"].decode(), json.loads(row["value"])] for row in found]


def read_to_marker(bootstrap_servers, topic):
    """Read a topic of two records and the marker behind them, in the two ways that come to an end."""
    ways = ({"end_offset": 2}, {"timeout_ms": TIMEOUT_MS})
    read = [ray.data.read_kafka(topic, bootstrap_servers=bootstrap_servers, **way).take_all() for way in ways]
    return [[row["value"].decode() for row in rows] for rows in read]


JOBS = {"write_and_read": write_and_read, "read_to_marker": read_to_marker}


def main():
    job, bootstrap_servers, topic = sys.argv[1:]
    # A Ray of its own: the one that a broker starts for itself has hardly any room for the data of others.
    with longer_start_timeout():
        ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    print(json.dumps(JOBS[job](bootstrap_servers, topic)))


if __name__ == "__main__":
    main()
