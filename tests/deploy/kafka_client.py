"""A Kafka client on another machine: python kafka_client.py BOOTSTRAP TOPIC. Prints what a reader of commits sees."""

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS = 100
WAIT_S = 60


def produce(bootstrap: str, topic: str) -> None:
    """Write a transaction that is aborted, and one that is committed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-writer"})
    producer.init_transactions(WAIT_S)
    for word, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(topic, f"{word}-{number}".encode(), partition=number % 2)
        producer.flush(WAIT_S)
        end(WAIT_S)


def consume(bootstrap: str, topic: str) -> list[str]:
    """Read as many records as were committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[str] = []
    while len(values) < RECORDS:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"only {len(values)} records came"
        assert message.error() is None, message.error()
        values.append(message.value().decode())
    consumer.close()
    return values


def main(bootstrap: str, topic: str) -> None:
    """Create a topic, write to it and read from it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2)])[topic].result(WAIT_S)
    produce(bootstrap, topic)
    print(*sorted(consume(bootstrap, topic)), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
