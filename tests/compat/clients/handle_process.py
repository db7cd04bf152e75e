"""A program with handles, in a process of its own: it writes in transactions beside the Kafka clients, and aborts them.

python -m tests.compat.clients.handle_process RAY_ADDRESS TOPIC TRANSACTIONS

It prints "ready" when it is connected, and how many it has aborted when all are.
"""

import sys

import eagleray
from eagleray.client.errors import AbortableError


def main():
    address, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with eagleray.connect(address=address) as cluster, cluster.producer(transactional_id=f"{topic}-handle") as producer:
        producer.init()
        print("ready", flush=True)
        for number in range(count):
            producer.begin()
            try:
                producer.send(topic, b"handle %d" % number)
                producer.flush()
            except AbortableError:
                # A node was killed under it: all the more is it to be aborted.
                pass
            producer.abort()
        print(count, flush=True)


if __name__ == "__main__":
    main()
