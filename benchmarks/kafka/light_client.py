"""A light transactional producer on Kafka's wire: an asyncio Protocol, callbacks, and requests that are encoded once.

It is given to both brokers alike. Each producer has connections of its own, as a real one has, and one request in
flight; what it costs is reported beside what it measures.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast

from benchmarks.kafka.frames import CLIENT_ID, SIZE_BYTES, Frames, Place, Versions, decoded
from eagleray.protocol.codec import encode_request
from eagleray.protocol.errors import ErrorCode, ErrorKind
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.find_coordinator import FindCoordinatorRequest
from eagleray.protocol.messages.init_producer_id import InitProducerIdRequest
from eagleray.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

# The pause before asking again. Real clients wait 20 ms and more; a shorter one charges a broker less for a client's
# patience, and a much shorter one costs it more in answers than it gains.
RETRY_SECONDS = 0.005
TRANSACTION_KEY = 1
TRANSACTION_TIMEOUT_MS = 60_000
FIND_COORDINATOR_VERSION = 4
INIT_PRODUCER_ID_VERSION = 4
METADATA_VERSION = 12
INITS_AT_ONCE = 50

OnFrame = Callable[[bytes], None]
Address = tuple[str, int]


class Connection(asyncio.Protocol):
    """One connection with one request in flight; the answer goes to the callback of its request."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._on_frame: OnFrame | None = None
        self.lost: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def send(self, frame: bytes | bytearray, on_frame: OnFrame) -> None:
        assert self._transport is not None
        self._on_frame = on_frame
        # The frame is patched later, and a transport may keep what it cannot send at once.
        self._transport.write(bytes(frame))

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        if len(received) < SIZE_BYTES or len(received) < SIZE_BYTES + int.from_bytes(received[:SIZE_BYTES]):
            self._received = received
            return
        self._received = b""
        on_frame = self._on_frame
        assert on_frame is not None
        on_frame(received[SIZE_BYTES:])

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = error or ConnectionResetError("the broker has closed the connection")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401 - the response to the request
        """Ask and wait, for what is not hot."""
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.send(encode_request(request, version, 0, CLIENT_ID), answered.set_result)
        async with asyncio.timeout(30):
            return decoded(await answered, type(request), version)


async def connect(address: Address) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, *address)
    return connection


class LightProducer:
    """One transaction after the other, of one record each; `transact` calls back when the commit was answered."""

    def __init__(self, transactional_id: str, place: Place, versions: Versions, value: bytes) -> None:
        self.transactional_id = transactional_id
        self.place = place
        self._versions = versions
        self._frames = Frames(transactional_id, place, versions, value)
        self._loop = asyncio.get_running_loop()
        self.retries = 0
        self.failure: str | None = None

    async def prepare(self, coordinator: Address, leader: Address) -> None:
        """Connect, and get an identity."""
        self._coordinator = await connect(coordinator)
        self._leader = self._coordinator if leader == coordinator else await connect(leader)
        request = InitProducerIdRequest(self.transactional_id, TRANSACTION_TIMEOUT_MS)
        while True:
            reply = await self._coordinator.ask(request, INIT_PRODUCER_ID_VERSION)
            if reply.error_code == 0:
                break
            if not is_retriable(reply.error_code):
                raise RuntimeError(f"InitProducerId: {ErrorCode(reply.error_code).name}")
            await asyncio.sleep(RETRY_SECONDS)
        self._frames.take_identity(reply.producer_id, reply.producer_epoch)

    def transact(self, on_done: Callable[["LightProducer"], None]) -> None:
        self._on_done = on_done
        if self._versions.adds_partitions:
            self._add_partitions()
        else:
            self._produce()

    def _add_partitions(self) -> None:
        self._coordinator.send(self._frames.add_partitions, self._added)

    def _added(self, response: bytes) -> None:
        if (code := self._frames.added_error(response)) == 0:
            self._produce()
        else:
            self._failed("AddPartitionsToTxn", code, self._add_partitions)

    def _produce(self) -> None:
        self._leader.send(self._frames.produce, self._produced)

    def _produced(self, response: bytes) -> None:
        if (code := self._frames.produced_error(response)) == 0:
            self._end()
        else:
            self._failed("Produce", code, self._produce)

    def _end(self) -> None:
        self._coordinator.send(self._frames.end_txn, self._ended)

    def _ended(self, response: bytes) -> None:
        if (code := self._frames.ended_error(response)) == 0:
            self._frames.next_transaction(response)
            self._on_done(self)
        else:
            self._failed("EndTxn", code, self._end)

    def _failed(self, step: str, code: int, again: Callable[[], None]) -> None:
        if is_retriable(code):
            self.retries += 1
            self._loop.call_later(RETRY_SECONDS, again)
            return
        self.failure = f"{step}: {ErrorCode(code).name}"
        self._on_done(self)

    def close(self) -> None:
        self._coordinator.close()
        self._leader.close()


def is_retriable(code: int) -> bool:
    return ErrorCode(code).kind in {ErrorKind.RETRIABLE, ErrorKind.REFRESH_RETRIABLE}


async def prepare_all(bootstrap: Address, producers: Iterable[LightProducer]) -> None:
    """Have every producer connected to its coordinator and its leader, with an identity."""
    waiting = list(producers)
    connection = await connect(bootstrap)
    leaders = await find_leaders(connection, waiting[0].place.topic)
    for first in range(0, len(waiting), INITS_AT_ONCE):
        some = waiting[first : first + INITS_AT_ONCE]
        coordinators = await find_coordinators(connection, [each.transactional_id for each in some])
        await asyncio.gather(
            *(each.prepare(coordinators[each.transactional_id], leaders[each.place.partition]) for each in some)
        )
    connection.close()


async def find_leaders(connection: Connection, topic: str) -> dict[int, Address]:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    while True:
        reply = await connection.ask(request, METADATA_VERSION)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in reply.brokers}
        (found,) = reply.topics
        if found.error_code == 0 and all(each.leader_id in brokers for each in found.partitions):
            return {each.partition_index: brokers[each.leader_id] for each in found.partitions}
        await asyncio.sleep(RETRY_SECONDS)


async def find_coordinators(connection: Connection, ids: list[str]) -> dict[str, Address]:
    found: dict[str, Address] = {}
    while len(found) < len(ids):
        missing = tuple(each for each in ids if each not in found)
        request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=missing)
        reply = await connection.ask(request, FIND_COORDINATOR_VERSION)
        found |= {each.key: (each.host, each.port) for each in reply.coordinators if each.error_code == 0}
        await asyncio.sleep(RETRY_SECONDS)
    return found
