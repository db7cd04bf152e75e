"""A producer of librdkafka that goes on whatever happens to the brokers, and remembers what it was told."""

import threading
from collections import Counter

import confluent_kafka

from tests.support.clusters import assert_holds, client_of, fresh, until, within_deadline

PARTITIONS = 4
WAIT_S = 60
ABORTED_EVERY = 5
SILENCE_MS = 10_000
"""A node that is stopped (SIGSTOP) keeps its connections open and says nothing. librdkafka then waits until its
`socket.timeout.ms`, which it derives from the transaction's timeout: both would run out in the same moment."""
TRANSACTION_TIMEOUT_MS = 600_000
"""No transaction of this load may time out at the coordinator, which would fence the producer: rightly, and fatally."""


class LibrdkafkaLoad:
    """One transaction after the other, on a thread of its own, until the block is left.

    Every transaction writes all partitions of a topic of its own; one in five is aborted. One that
    librdkafka says has to be aborted is, and begins again with the same values. Anything else that it raises is raised
    when the block is left.
    """

    def __init__(self, cluster, *, replicas):
        self.topic = fresh("librdkafka")
        cluster.admin.create_topic(
            self.topic,
            partitions=PARTITIONS,
            replication_factor=replicas,
            configs={"min.insync.replicas": str(min(replicas, 2))},
        )
        bootstrap = ",".join(f"{node['host']}:{node['port']}" for node in cluster.nodes())
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": self.topic,
                "linger.ms": 0,
                "log_level": 0,
                "socket.timeout.ms": SILENCE_MS,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        )
        self._is_over = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run)
        self.committed = Counter()
        self.transactions = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *raised):
        self._is_over.set()
        self._thread.join()
        if self._error is not None and raised[0] is None:
            raise self._error

    def goes_on(self, transactions=20):
        """Wait until so many more transactions are done."""
        enough = self.transactions + transactions
        until(lambda: self.transactions >= enough or self._error, "librdkafka goes on")

    def check(self, cluster):
        """What it was told to be committed is there once, and nothing else is."""

        async def scenario():
            async with client_of(cluster) as client:
                await assert_holds(client, self.topic, [*self.committed.elements()])

        within_deadline(scenario())

    def _run(self):
        try:
            _until_done(self._producer.init_transactions)
            while not self._is_over.is_set():
                self._transact()
                self.transactions += 1
        except BaseException as error:  # noqa: BLE001 - whoever started it is told
            self._error = error

    def _transact(self):
        values = [b"%d-%d" % (self.transactions, partition) for partition in range(PARTITIONS)]
        if self.transactions % ABORTED_EVERY == ABORTED_EVERY - 1:
            self._attempt([b"aborted", *values[1:]], self._producer.abort_transaction)
            return
        while not self._attempt(values, self._producer.commit_transaction):
            pass
        self.committed.update(values)

    def _attempt(self, values, end):
        """Try a transaction; False where it had to be aborted."""
        try:
            self._producer.begin_transaction()
            for partition, value in enumerate(values):
                self._producer.produce(self.topic, value, partition=partition)
            _until_done(end)
        except confluent_kafka.KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _until_done(self._producer.abort_transaction)
            return False
        return True


def _until_done(call):
    """Ask again where librdkafka says that this helps: nothing is done twice by it."""
    while True:
        try:
            call(WAIT_S)
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return
