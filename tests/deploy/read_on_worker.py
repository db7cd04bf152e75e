"""A Ray job on the head whose task runs on a worker: python read_on_worker.py WORKER TOPIC COUNT."""

import sys

import ray

import eagleray


def read(topic: str, count: int) -> tuple[str, list[str]]:
    """Read a topic with an actor's handles, wherever this runs."""
    values: list[str] = []
    with eagleray.connect() as cluster, cluster.consumer(topic, config={"auto.offset.reset": "earliest"}) as consumer:
        while len(values) < count:
            values += [record.value.decode() for record in consumer.poll(timeout_ms=1_000)]
    return ray.util.get_node_ip_address(), sorted(values)


def main(worker: str, topic: str, count: str) -> None:
    """Have the task run on the worker, and print what it has read."""
    ray.init("auto", log_to_driver=False)
    task = ray.remote(read).options(resources={f"node:{worker}": 0.01})
    address, values = ray.get(task.remote(topic, int(count)))
    print(address, *values)


if __name__ == "__main__":
    main(*sys.argv[1:])
