"""Sending from threads: a record goes into its batch in the caller's own thread."""

from __future__ import annotations

import threading
import time

from eagleray.client.config import ProducerConfig
from eagleray.client.loop_thread import LoopThread
from eagleray.client.producer.accumulator import WaitingSend
from eagleray.client.producer.batches import Delivery
from eagleray.client.producer.record_fields import HeadersLike, OnDelivery
from eagleray.client.producer.sender import Sender


class BlockingSender:
    """Gives records to a sender whose loop runs in another thread, and blocks only while buffer.memory is full."""

    def __init__(self, thread: LoopThread, sender: Sender, config: ProducerConfig) -> None:
        self._thread = thread
        self._sender = sender
        self._take = sender.send
        self._config = config

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Take a record, and return what waits for its place in the log where that is wanted.

        What is wrong with the record itself is raised. A record for a topic that is not known is taken, and fails
        after max.block.ms where there is none. `on_delivery(metadata, error)` is called on the loop's thread.
        """
        try:
            taken = self._take(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            if type(taken) is Delivery:
                return taken
        except BaseException as error:
            # An interrupt may come before the sender has begun; what has to wait for room is known to it from there on.
            self._sender.send_failed(error)
            raise
        return self._when_room(taken)

    def _when_room(self, waiting: WaitingSend) -> Delivery:
        deadline = time.monotonic() + self._config.max_block_ms / 1000
        try:
            while True:
                left_seconds = deadline - time.monotonic()
                if left_seconds <= 0:
                    self._sender.no_room()
                self._thread.check()
                has_room = threading.Event()
                if self._sender.when_room(has_room.set):
                    has_room.wait(left_seconds)
                if type(delivery := self._sender.send_again(waiting)) is Delivery:
                    return delivery
        except BaseException as error:
            self._sender.give_up(waiting, error)
            raise
