"""Clients of a simulated cluster: producers that repeat until they are answered, and a consumer."""

from typing import TYPE_CHECKING, Any

from eagleray.broker.log import NewMarker
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.protocol.errors import ErrorCode
from tests.simulation.partition.parts import MarkerRequest, ProduceAnswer, ProduceRequest, ReadAnswer, ReadRequest
from tests.simulation.schedule import Violation
from tests.support.batches import data_batch, whole_batches

if TYPE_CHECKING:
    from tests.simulation.partition.harness import PartitionHarness

ANSWER_TIMEOUT_MS = 900
RETRIED = {
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
}


class SimulatedProducer:
    """Writes batches in order, each again and again with the same sequence number until it is acknowledged."""

    def __init__(self, harness: "PartitionHarness", producer_id: int, requests: int) -> None:
        self._harness = harness
        self._producer_id = producer_id
        self._epoch = 0
        self._left = requests
        self._sequence = 0
        self._count = 0
        self._attempt = 0
        self._body: bytes | NewMarker = b""
        self._target = harness.schedule.chance.choice(list(harness.nodes))
        self.name = f"producer {producer_id}"
        harness.network.connect(self.name, self.receive)
        harness.schedule.after(harness.schedule.chance.randint(0, 100), self._next)

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def _next(self) -> None:
        if self._left:
            self._body = self._make()
            self._send()

    def _make(self) -> bytes | NewMarker:
        return self._make_batch(transactional=False)

    def _make_batch(self, *, transactional: bool) -> bytes:
        chance = self._harness.schedule.chance
        self._count = chance.randint(1, 3)
        batch = data_batch(
            self._count,
            producer_id=self._producer_id,
            epoch=self._epoch,
            sequence=self._sequence,
            transactional=transactional,
            value=b"%d:%d:" % (self._producer_id, self._sequence) + b"x" * chance.choice([0, 20, 200]),
        )
        return bytes(batch.view)

    def _accepted(self, base_offset: int) -> None:
        told = (self._producer_id, self._epoch, self._sequence)
        self._harness.checks.was_told(told, self._count, base_offset)
        self._sequence += self._count

    def _send(self) -> None:
        self._attempt += 1
        attempt = self._attempt
        request_id = self._producer_id * 1_000_000 + attempt
        is_marker = isinstance(self._body, NewMarker)
        request = (MarkerRequest if is_marker else ProduceRequest)(request_id, self._body)
        self._harness.network.send(self.name, self._target, request)
        self._harness.schedule.after(ANSWER_TIMEOUT_MS, lambda: self._give_up(attempt))

    def _give_up(self, attempt: int) -> None:
        if attempt == self._attempt and self._left:
            self._harness.schedule.fired["producer repeats"] += 1
            self._try_elsewhere()

    def _try_elsewhere(self) -> None:
        """Ask where the leader is, or guess."""
        leader = self._harness.controller.state.leader
        chance = self._harness.schedule.chance
        self._target = leader if leader in self._harness.nodes and chance.random() < 0.7 else self._guess()
        self._send()

    def _guess(self) -> int:
        return self._harness.schedule.chance.choice(list(self._harness.nodes))

    def receive(self, source: object, message: Any) -> None:
        assert isinstance(message, ProduceAnswer)
        if message.request_id != self._producer_id * 1_000_000 + self._attempt or not self._left:
            return
        if message.error_code == ErrorCode.NONE:
            self._accepted(message.base_offset)
            self._left -= 1
            self._attempt += 1
            pause_ms = self._harness.schedule.chance.randint(0, self._harness.fault_plan.longest_pause_ms)
            self._harness.schedule.after(pause_ms, self._next)
        elif message.error_code in RETRIED:
            self._attempt += 1
            self._harness.schedule.after(
                self._harness.schedule.chance.randint(5, 60), self._try_elsewhere_once(self._attempt)
            )
        else:
            raise Violation(f"{self.name} was refused with {ErrorCode(message.error_code).name}")

    def _try_elsewhere_once(self, attempt: int) -> Any:
        def again() -> None:
            if self._attempt == attempt:
                self._try_elsewhere()

        return again


class TransactionalProducer(SimulatedProducer):
    """Writes transactions of some batches, each ended by a marker, as its coordinator would write it."""

    def __init__(self, harness: "PartitionHarness", producer_id: int, requests: int) -> None:
        super().__init__(harness, producer_id, requests)
        self._batches_left = 1

    def _make(self) -> bytes | NewMarker:
        if self._batches_left and self._left > 1:
            return self._make_batch(transactional=True)
        # The marker has the epoch that comes after the transaction, so that a late repeat cannot end the next one.
        commits = self._harness.schedule.happens(0.5)
        self._harness.checks.decided(self._producer_id, self._epoch, commits=commits)
        return NewMarker(self._producer_id, self._epoch + 1, commits, 0, IMPLICIT_VERSION)

    def _accepted(self, base_offset: int) -> None:
        if isinstance(self._body, NewMarker):
            self._epoch, self._sequence = self._epoch + 1, 0
            self._batches_left = self._harness.schedule.chance.randint(1, 4)
            self._harness.schedule.fired["transaction committed" if self._body.commit else "transaction aborted"] += 1
        else:
            super()._accepted(base_offset)
            self._batches_left -= 1


class SimulatedConsumer:
    """Reads committed records from each node that says that it leads, in order, and never goes back."""

    def __init__(self, harness: "PartitionHarness") -> None:
        self._harness = harness
        self.offset = 0
        self._attempt = 0
        self.name = "consumer"
        harness.network.connect(self.name, self.receive)
        self._ask()

    def _ask(self) -> None:
        self._attempt += 1
        chance = self._harness.schedule.chance
        target = chance.choice(list(self._harness.nodes))
        self._harness.network.send(self.name, target, ReadRequest(self._attempt, self.offset))
        self._harness.schedule.after(chance.randint(20, 120), self._ask)

    def receive(self, source: object, message: Any) -> None:
        assert isinstance(message, ReadAnswer)
        if not message.is_leader or message.request_id != self._attempt:
            return
        self.offset = max(self.offset, message.log_start_offset)
        for batch in whole_batches(message.records):
            self._harness.checks.was_read(batch, message.aborted)
            if batch.header.base_offset > self.offset:
                raise Violation(f"the consumer is at {self.offset} and was given {batch.header.base_offset}")
            self.offset = max(self.offset, batch.header.next_offset)
