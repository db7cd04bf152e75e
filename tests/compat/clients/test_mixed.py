"""Clients of three kinds on one topic, and a node killed under them: each record once, none that was aborted."""

import subprocess
import sys
import threading

import pytest
from confluent_kafka import KafkaException

from tests.compat.clients.librdkafka import consuming, read_to_end, transactional_producer, values
from tests.support.clusters import fresh, kill, until

TRANSACTIONS = 60
HANDLE_TRANSACTIONS = 20
SECONDS = 300


class Librdkafka(threading.Thread):
    """Writes numbered transactions, each until it is committed; an abort and another attempt belong to it."""

    def __init__(self, bootstrap_servers, topic):
        super().__init__(daemon=True)
        self._producer = transactional_producer(bootstrap_servers, f"{topic}-librdkafka")
        self._topic = topic
        self.committed = 0
        self.failure = None

    def run(self):
        try:
            while self.committed < TRANSACTIONS:
                self._transact(b"librdkafka %d" % self.committed)
                self.committed += 1
        except KafkaException as error:
            self.failure = error

    def _transact(self, value):
        while True:
            self._producer.begin_transaction()
            self._producer.produce(self._topic, value)
            try:
                self._producer.commit_transaction(SECONDS)
            except KafkaException as error:
                if error.args[0].retriable():
                    self._finish_commit()
                elif error.args[0].txn_requires_abort():
                    self._producer.abort_transaction(SECONDS)
                    continue
                else:
                    raise
            return

    def _finish_commit(self):
        """An attempt that ran out of time may be repeated, and only repeated: whether it was committed is not known."""
        self._producer.commit_transaction(SECONDS)


@pytest.mark.parametrize("role", ["leader", "coordinator"])
def test_counts_are_exact(our_broker, java, make_topic, role):
    topic = make_topic("mixed", partitions=2)
    victim = next(node for node in our_broker.status()["nodes"] if role in node["roles"])
    reader = fresh("java")
    java.do("open_consumer", name=reader, topic=topic, config={"isolation.level": "read_committed"})
    command = [sys.executable, "-m", "tests.compat.clients.handle_process", our_broker.ray_address, topic]
    handle = subprocess.Popen(
        [*command, str(HANDLE_TRANSACTIONS)], stdout=subprocess.PIPE, text=True, env=our_broker.program_environment
    )
    try:
        assert handle.stdout.readline() == "ready\n"
        writer = Librdkafka(our_broker.bootstrap_servers, topic)
        writer.start()
        until(lambda: writer.committed >= 5 or writer.failure, "transactions run", SECONDS)
        kill(victim)
        assert writer.committed < TRANSACTIONS, "the node was killed too late to hurt"
        found = []
        until(
            lambda: found.extend(java.do("poll", name=reader, ms=100)) or len(found) >= TRANSACTIONS or writer.failure,
            "Java has read all",
            SECONDS,
        )
        writer.join(SECONDS)
        assert (writer.failure, handle.wait(SECONDS)) == (None, 0)
        assert handle.stdout.read() == f"{HANDLE_TRANSACTIONS}\n"
    finally:
        handle.kill()
        handle.wait()
        handle.stdout.close()
        java.do("close_consumer", name=reader)
    expected = sorted(f"librdkafka {number}" for number in range(TRANSACTIONS))
    assert sorted(found) == expected
    # The whole topic once more, now that everything is decided, for what Java might not have been shown yet.
    with consuming(our_broker.bootstrap_servers, fresh("reader"), isolation_level="read_committed") as consumer:
        assert sorted(value.decode() for value in values(read_to_end(consumer, topic, partitions=2))) == expected
