"""librdkafka's load on a broker, in a process of its own; prints one line of JSON.

python -m benchmarks.kafka.librdkafka_load transactions BOOTSTRAP TOPIC '{"producers": 8, "seconds": 3}'
"""

import json
import sys
import threading
import time
from array import array
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from msgspec import Struct
from msgspec.json import decode

from benchmarks.kafka.percentiles import percentiles

INIT_SECONDS = 60
WARM_UP_SECONDS = 0.5
END_TO_END_PER_SECOND = 500


class Options(Struct, frozen=True):
    """What a load is told; each takes what it needs."""

    seconds: float
    producers: int = 1
    records: int = 1
    partitions: int = 8
    size: int = 100


def transactions(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Each producer on a thread of its own, one transaction after the other."""
    workers = [Transactor(bootstrap, topic, number, options) for number in range(options.producers)]
    began = time.perf_counter()
    counts_from = began + WARM_UP_SECONDS
    for worker in workers:
        worker.begin(counts_from, counts_from + options.seconds)
    for worker in workers:
        worker.join()
    failures = [worker.failure for worker in workers if worker.failure]
    if failures:
        raise failures[0]
    latencies_ms = [each for worker in workers for each in worker.latencies_ms]
    return {"rate": len(latencies_ms) / options.seconds, **percentiles(latencies_ms)}


class Transactor(threading.Thread):
    """One transactional producer; a latency is the time from `begin_transaction` until the commit has returned."""

    def __init__(self, bootstrap: str, topic: str, number: int, options: Options) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._options = options
        self._first = number
        # Records are sent by the commit's flush at the latest; waiting for more would be waiting for nothing.
        config = {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{number}", "linger.ms": 0}
        self._producer = Producer(config)
        self._producer.init_transactions(INIT_SECONDS)
        self.latencies_ms = array("d")
        self.failure: Exception | None = None

    def begin(self, counts_from: float, ends_at: float) -> None:
        self._counts_from, self._ends_at = counts_from, ends_at
        self.start()

    def run(self) -> None:
        try:
            while (now := time.perf_counter()) < self._ends_at:
                self._transact()
                if now >= self._counts_from:
                    self.latencies_ms.append((time.perf_counter() - now) * 1000)
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self.failure = error

    def _transact(self) -> None:
        value = bytes(self._options.size)
        self._producer.begin_transaction()
        for place in range(self._options.records):
            partition = (self._first + place) % self._options.partitions
            self._producer.produce(self._topic, value, partition=partition)
        self._producer.commit_transaction()


def produce(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """A plain producer with librdkafka's own batching, as fast as it can."""
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 200_000})
    value = bytes(options.size)
    failed: list[KafkaError] = []
    note_failure = _failure_noter(failed)
    count = 0
    began = time.perf_counter()
    ends_at = began + options.seconds
    while time.perf_counter() < ends_at:
        for _ in range(500):
            try:
                producer.produce(topic, value, on_delivery=note_failure)
            except BufferError:
                producer.poll(0.01)
            else:
                count += 1
        producer.poll(0)
    producer.flush(60)
    seconds = time.perf_counter() - began
    if failed:
        raise RuntimeError(f"{len(failed)} records were lost, the first by {failed[0]}")
    return {"mb_per_second": count * options.size / seconds / 1e6}


def _failure_noter(failed: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    return note


def fetch(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Fill a topic, and read everything that it holds."""
    produce(bootstrap, topic, options)
    # With its defaults the client stands still for a second whenever its queue is full, and measures that.
    pace = {"fetch.queue.backoff.ms": 10}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.partition.eof": True} | pace)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(options.partitions)])
    began, size_bytes, ended = time.perf_counter(), 0, 0
    while ended < options.partitions:
        # A call returns when it has all that it was asked for, or its time is up: the last one waits that long.
        for message in consumer.consume(10_000, timeout=0.02):
            if message.error() is None:
                size_bytes += len(message)
            else:
                ended += 1
    seconds = time.perf_counter() - began
    consumer.close()
    return {"mb_per_second": size_bytes / seconds / 1e6}


def end_to_end(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """From `produce` to the consumer's hands, at a rate that is no load."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(options.partitions)])
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    sender = threading.Thread(target=_send_stamps, args=(producer, topic, options), daemon=True)
    latencies_ms = array("d")
    sender.start()
    while sender.is_alive():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            latencies_ms.append((time.perf_counter_ns() - int(message.value())) / 1e6)
    consumer.close()
    # The first ones pay for connections and for what both sides do once.
    return percentiles(latencies_ms[END_TO_END_PER_SECOND // 2 :])


def _send_stamps(producer: Producer, topic: str, options: Options) -> None:
    began = time.perf_counter()
    for number in range(int(END_TO_END_PER_SECOND * options.seconds)):
        time.sleep(max(0.0, began + number / END_TO_END_PER_SECOND - time.perf_counter()))
        stamp = b"%d" % time.perf_counter_ns()
        producer.produce(topic, stamp.ljust(options.size), partition=number % options.partitions)
        producer.poll(0)
    producer.flush(30)


LOADS: dict[str, Callable[[str, str, Options], dict[str, float]]] = {
    "transactions": transactions,
    "produce": produce,
    "fetch": fetch,
    "end_to_end": end_to_end,
}


def main() -> None:
    name, bootstrap, topic, options = sys.argv[1:]
    print(json.dumps(LOADS[name](bootstrap, topic, decode(options, type=Options))))


if __name__ == "__main__":
    main()
