"""Clients of a simulated cluster: producers that repeat until they are answered, and a consumer."""

from typing import TYPE_CHECKING, Any

from eagleray.protocol.errors import ErrorCode
from tests.simulation.parts import ProduceAnswer, ProduceRequest, ReadAnswer, ReadRequest
from tests.simulation.schedule import Violation
from tests.support.batches import data_batch, whole_batches

if TYPE_CHECKING:
    from tests.simulation.world import World

ANSWER_TIMEOUT_MS = 900
RETRIED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
}


class SimulatedProducer:
    """Writes batches in order, each again and again with the same sequence number until it is acknowledged."""

    def __init__(self, world: "World", producer_id: int, batches: int) -> None:
        self._world = world
        self._producer_id = producer_id
        self._left = batches
        self._sequence = 0
        self._count = 0
        self._attempt = 0
        self._records = b""
        self._target = world.schedule.chance.choice(list(world.nodes))
        self.name = f"producer {producer_id}"
        world.network.connect(self.name, self.receive)
        world.schedule.after(world.schedule.chance.randint(0, 100), self._next)

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def _next(self) -> None:
        if self._left == 0:
            return
        chance = self._world.schedule.chance
        self._count = chance.randint(1, 3)
        value = b"%d:%d:" % (self._producer_id, self._sequence) + b"x" * chance.choice([0, 20, 200])
        batch = data_batch(
            self._count,
            producer_id=self._producer_id,
            sequence=self._sequence,
            value=value,
            timestamps_ms=[1_700_000_000_000] * self._count,
        )
        self._records = bytes(batch.view)
        self._send()

    def _send(self) -> None:
        self._attempt += 1
        attempt = self._attempt
        request = ProduceRequest(self._producer_id * 1_000_000 + attempt, self._records)
        self._world.network.send(self.name, self._target, request)
        self._world.schedule.after(ANSWER_TIMEOUT_MS, lambda: self._give_up(attempt))

    def _give_up(self, attempt: int) -> None:
        if attempt == self._attempt and self._left:
            self._world.schedule.fired["producer repeats"] += 1
            self._try_elsewhere()

    def _try_elsewhere(self) -> None:
        """Ask where the leader is, or guess."""
        leader = self._world.controller.state.leader
        chance = self._world.schedule.chance
        self._target = leader if leader in self._world.nodes and chance.random() < 0.7 else self._guess()
        self._send()

    def _guess(self) -> int:
        return self._world.schedule.chance.choice(list(self._world.nodes))

    def receive(self, source: object, message: Any) -> None:
        assert isinstance(message, ProduceAnswer)
        if message.request_id != self._producer_id * 1_000_000 + self._attempt or not self._left:
            return
        if message.error_code == ErrorCode.NONE:
            self._world.checks.was_told(self._producer_id, self._sequence, self._count, message.base_offset)
            self._sequence += self._count
            self._left -= 1
            self._attempt += 1
            self._world.schedule.after(self._world.schedule.chance.randint(0, 30), self._next)
        elif message.error_code in RETRIED:
            self._attempt += 1
            self._world.schedule.after(
                self._world.schedule.chance.randint(5, 60), self._try_elsewhere_once(self._attempt)
            )
        else:
            raise Violation(f"{self.name} was refused with {ErrorCode(message.error_code).name}")

    def _try_elsewhere_once(self, attempt: int) -> Any:
        def again() -> None:
            if self._attempt == attempt:
                self._try_elsewhere()

        return again


class SimulatedConsumer:
    """Reads committed records from whoever says that it leads, in order, and never goes back."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.offset = 0
        self._attempt = 0
        self.name = "consumer"
        world.network.connect(self.name, self.receive)
        self._ask()

    def _ask(self) -> None:
        self._attempt += 1
        chance = self._world.schedule.chance
        target = chance.choice(list(self._world.nodes))
        self._world.network.send(self.name, target, ReadRequest(self._attempt, self.offset))
        self._world.schedule.after(chance.randint(20, 120), self._ask)

    def receive(self, source: object, message: Any) -> None:
        assert isinstance(message, ReadAnswer)
        if not message.is_leader or message.request_id != self._attempt:
            return
        self.offset = max(self.offset, message.log_start_offset)
        for batch in whole_batches(message.records):
            self._world.checks.was_read(batch)
            if batch.header.base_offset > self.offset:
                raise Violation(f"the consumer is at {self.offset} and was given {batch.header.base_offset}")
            self.offset = max(self.offset, batch.header.next_offset)
