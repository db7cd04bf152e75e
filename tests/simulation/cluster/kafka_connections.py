"""Connections of Kafka's clients over the simulated network: the real listener reads real bytes, however late.

What TCP promises holds: the bytes of one connection arrive in order, each once, or the connection breaks. Nothing holds
between two connections, so what a client has sent by one that it has given up may come behind what it sends by another.
Bytes are late also when the cluster is well: then its clients have the most transactions.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eagleray.actors.kafka_server.connection import Connection
from eagleray.protocol.codec import decode_response, encode_request
from eagleray.protocol.framing import FrameReader

if TYPE_CHECKING:
    from tests.simulation.cluster.client import Client
    from tests.simulation.cluster.machine import SimulatedMachine

LATE, ENDS_LATE = 0.2, 0.5
LONGEST_LATE_MS = 1500
CUT_LOOK_MS = 50
MOST_RESPONSE_BYTES = 1 << 20


class Direction:
    """What one end has sent to the other, in order; a piece that is late holds up those behind it."""

    def __init__(self, client: "Client", source: object, target: object) -> None:
        self._harness = client.harness
        self._ends = source, target
        self._sent: deque[Callable[[], None]] = deque()
        self.is_stalled = False
        """Whether the next piece will be late for sure."""

    def send(self, arrive: Callable[[], None]) -> None:
        self._sent.append(arrive)
        if len(self._sent) == 1:
            self._carry()

    def _carry(self) -> None:
        schedule = self._harness.schedule
        delay_ms = schedule.chance.randint(1, 4)
        is_stalled, self.is_stalled = self.is_stalled, False
        if is_stalled or schedule.happens(LATE):
            schedule.fired["bytes of a client late"] += 1
            delay_ms += schedule.chance.randint(5, LONGEST_LATE_MS)
        schedule.after(delay_ms, self._arrive)

    def _arrive(self) -> None:
        if self._harness.network.is_cut(*self._ends):
            self._harness.schedule.after(CUT_LOOK_MS, self._arrive)
            return
        arrive = self._sent.popleft()
        arrive()
        if self._sent:
            self._carry()


class _NodesEnd:
    """The transport that a node's listener writes to."""

    def __init__(self, connection: "KafkaConnection", peer: str) -> None:
        self._connection = connection
        self._peer = peer

    def get_extra_info(self, name: str) -> object:
        return (self._peer, 4711) if name == "peername" else None

    def write(self, data: bytes) -> None:
        self._connection.to_client.send(lambda: self._connection.received(bytes(data)))

    def writelines(self, buffers: Any) -> None:
        self.write(b"".join(buffers))

    def close(self) -> None:
        self._connection.to_client.send(self._connection.broken)

    abort = close

    def pause_reading(self) -> None:
        """The client waits for each answer, so there is nothing more to read."""

    resume_reading = pause_reading


class KafkaConnection:
    """A client's connection with a node: one request at a time, which is answered, or breaks with the connection."""

    def __init__(self, client: "Client", machine: "SimulatedMachine") -> None:
        self._client = client
        self._machine = machine
        self._node_process = machine.process
        self._to_node = Direction(client, client.name, machine.node_id)
        self.to_client = Direction(client, machine.node_id, client.name)
        self._protocol: Connection | None = None
        self._frames = FrameReader(MOST_RESPONSE_BYTES)
        self._answer: asyncio.Future[bytes] | None = None
        self._asked = 0
        self.is_open = True
        self._to_node.send(lambda: self._at_node(self._accept))

    # The client's end

    def stall(self) -> None:
        """Have what is asked next come late."""
        self._to_node.is_stalled = True

    async def ask(self, request: Any, version: int) -> Any:
        """Send a request and return its response; ConnectionResetError where the connection breaks instead."""
        if not self.is_open:
            raise ConnectionResetError
        self._asked += 1
        number, self._answer = self._asked, asyncio.get_running_loop().create_future()
        data = encode_request(request, version, number, self._client.name)
        self._to_node.send(lambda: self._at_node(self._read, type(request).__name__, bytes(data)))
        response = decode_response(await self._answer, request.wire.api_key, version)
        assert response.header.correlation_id == number
        return response.body

    def leave(self) -> None:
        """Give the connection up. What was sent by it is still read, however late, and then, perhaps later, its end."""
        if not self.is_open:
            return
        self.is_open = False
        schedule = self._client.harness.schedule
        end_ms = schedule.chance.randint(0, LONGEST_LATE_MS) if schedule.happens(ENDS_LATE) else 0
        schedule.after(end_ms, lambda: self._to_node.send(lambda: self._at_node(self._close)))

    def received(self, data: bytes) -> None:
        if self.is_open:
            for frame in self._frames.feed(data):
                self._client.at_loop(self._take, bytes(frame))

    def _take(self, frame: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(frame)

    def broken(self) -> None:
        if self.is_open:
            self.is_open = False
            self._client.at_loop(self._break_off)

    def _break_off(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError())

    # The node's end

    def _at_node(self, act: Callable[..., None], *fields: object) -> None:
        """Let the process of the node do it, if that is still the one that the client has connected to."""
        machine = self._machine
        if machine.loop is None or machine.process != self._node_process:
            self.to_client.send(self.broken)
        else:
            machine.loop.run(act, *fields)

    def _accept(self) -> None:
        assert self._machine.node is not None
        self._protocol = Connection(self._machine.node.listener)
        self._protocol.connection_made(_NodesEnd(self, self._client.name))  # type: ignore[arg-type]

    def _read(self, name: str, data: bytes) -> None:
        assert self._protocol is not None
        if not self.is_open:
            self._client.harness.schedule.fired[f"late request read: {name}"] += 1
        self._protocol.data_received(data)

    def _close(self) -> None:
        assert self._protocol is not None
        self._protocol.connection_lost(None)
