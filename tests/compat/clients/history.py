"""A topic as it is hardest to read: committed, aborted and open transactions, and plain records behind the open one."""

from tests.compat.clients.librdkafka import plain_producer, transactional_producer
from tests.support.clusters import fresh


class History:
    """Writes the topic; each client then reads it with its own consumer.

    `stable` is what a reader of committed records sees while the last transaction is open, `rest` what follows when it
    is committed by `finish`, and `everything` what a reader of uncommitted records sees at once.
    """

    def __init__(self, bootstrap_servers, topic):
        self.topic = topic
        self.everything = [b"committed 1", b"aborted 1", b"committed 2", b"aborted 2", b"plain 1", b"open", b"plain 2"]
        self.stable = [b"committed 1", b"committed 2", b"plain 1"]
        self.rest = [b"open", b"plain 2"]
        self._bootstrap_servers = bootstrap_servers
        self._open = None

    def __enter__(self):
        producer = transactional_producer(self._bootstrap_servers, fresh("history"))
        for value in self.everything[:4]:
            producer.begin_transaction()
            producer.produce(self.topic, value)
            if value.startswith(b"committed"):
                producer.commit_transaction()
            else:
                # An abort may throw away what has not been sent yet; the record shall be in the log.
                producer.flush()
                producer.abort_transaction()
        self._plain(b"plain 1")
        producer.begin_transaction()
        producer.produce(self.topic, b"open")
        producer.flush()
        self._plain(b"plain 2")
        self._open = producer
        return self

    def _plain(self, value):
        producer = plain_producer(self._bootstrap_servers)
        producer.produce(self.topic, value)
        assert producer.flush(20) == 0

    def finish(self):
        """Commit the open transaction."""
        self._open.commit_transaction()
        self._open = None

    def __exit__(self, *raised):
        if self._open is not None:
            self._open.abort_transaction()
