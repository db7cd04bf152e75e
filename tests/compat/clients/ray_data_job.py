"""A job of Ray Data that writes a topic and reads it back, in a process of its own: a process joins one Ray only.

python -m tests.compat.clients.ray_data_job BOOTSTRAP_SERVERS TOPIC
"""

import json
import logging
import sys

import ray
import ray.data

ROWS = 200


def main():
    bootstrap_servers, topic = sys.argv[1:]
    # A Ray of its own: the one that a broker starts for itself has hardly any room for the data of others.
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    rows = ray.data.from_items(
        [{"id": number, "name": f"name {number}"} for number in range(ROWS)], override_num_blocks=1
    )
    rows.write_kafka(topic, bootstrap_servers, key_field="name", concurrency=1)
    found = ray.data.read_kafka(topic, bootstrap_servers=bootstrap_servers).take_all()
    print(json.dumps([[row["key"].decode(), json.loads(row["value"])] for row in found]))


if __name__ == "__main__":
    main()
