"""A producer of transaction version 1 as Kafka's clients are: it speaks by connections, and moves on to another one.

What it has sent by a connection that it has left comes late, when its next transaction is open already.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from eagleray.actors.roles.coordinators import coordinator_of_transaction
from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from tests.simulation.cluster.kafka_connections import LONGEST_LATE_MS, KafkaConnection
from tests.simulation.cluster.places import INPUTS, OFFSETS
from tests.simulation.cluster.producers import TransactionalProducer
from tests.support.history import GroupOffset, Outcome, Transaction
from tests.support.version_1_producer import VERSIONS, error_of

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

WITH_OFFSETS, STALLS, GIVES_OFFSETS_UP = 0.7, 0.3, 0.7
PATIENCE_S = 0.3
"""How long a client waits for an answer before it moves on to another connection."""

DAWDLES = 0.3
LONGEST_DAWDLE_MS = 800
"""Long enough for a request that the transaction before has left behind to come while this one is open."""

NOT_PRODUCING = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")


class Told(msgspec.Struct, frozen=True):
    """What a response comes to, as the answers of the lanes have it."""

    error_code: ErrorCode
    producer: ProducerIdentity = NO_PRODUCER


class Version1Producer(TransactionalProducer):
    """Writes transactions, some with offsets of a group of its own, by one connection to each coordinator.

    It waits for each answer, for a while; then it gives the connection up and repeats its request by another. Offsets
    it may give up as well: it aborts, and its next transaction is to have offsets, and has none.
    """

    def __init__(self, harness: "Harness", name: str, transactions: int) -> None:
        super().__init__(harness, name, transactions)
        self.group = f"group-of-{name}"
        self._connections: dict[int, KafkaConnection] = {}
        self._offset = 0
        self._gave_up = False

    def crash(self) -> None:
        for connection in self._connections.values():
            connection.leave()
        self._connections = {}
        super().crash()

    # Requests

    async def _initialize(self) -> ProducerIdentity:
        self._sequences = {}
        timeout_ms = self.harness.fault_plan.transaction_timeout_ms
        request = init_producer_id.InitProducerIdRequest(self.name, timeout_ms)
        return (await self._until_done(self._coordinator, request)).producer

    async def _transact(self) -> None:
        places = [place for place in INPUTS if self.harness.schedule.happens(0.7)] or [INPUTS[0]]
        transaction = self._begin(places)
        gave_up, self._gave_up = self._gave_up, False
        commits = gave_up or self.harness.schedule.happens(0.5)
        has_offsets = gave_up or self.harness.schedule.happens(WITH_OFFSETS)
        if has_offsets:
            await self._add_offsets()
        if gave_up:
            await self.think(LONGEST_LATE_MS)
        for place in places:
            await self._until_done(self._coordinator, self._adding(place))
            await self._produce(place, [each for each in transaction.records if each.partition == place], self.name)
            await self._dawdle()
        if has_offsets and not gave_up:
            commits = await self._commit_offset(places[0]) and commits
            await self._dawdle()
        identity = self._identity
        request = end_txn.EndTxnRequest(self.name, identity.producer_id, identity.epoch, commits)
        await self._until_done(self._coordinator, request)
        self._know(Outcome.COMMITTED if commits else Outcome.ABORTED)
        self._left -= 1

    async def _dawdle(self) -> None:
        if self.harness.schedule.happens(DAWDLES):
            await self.think(LONGEST_DAWDLE_MS)

    def _adding(self, place: TopicPartition) -> object:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=(add_partitions_to_txn.AddPartitionsToTxnTopic(place.topic, (place.partition,)),),
        )

    async def _add_offsets(self) -> None:
        identity = self._identity
        request = add_offsets_to_txn.AddOffsetsToTxnRequest(self.name, identity.producer_id, identity.epoch, self.group)
        await self._until_done(self._coordinator, request)

    async def _commit_offset(self, place: TopicPartition) -> bool:
        """Note how far the group is, beyond all that any transaction has noted before; or give that up."""
        self._offset += 1
        noted = self.history[-1]
        offsets = (GroupOffset(self.group, place, self._offset),)
        self.history[-1] = Transaction(noted.name, noted.records, offsets, noted.outcome)
        partition = txn_offset_commit.TxnOffsetCommitRequestPartition(
            place.partition, self._offset, committed_metadata=str(noted.name)
        )
        request = txn_offset_commit.TxnOffsetCommitRequest(
            self.name,
            self.group,
            self._identity.producer_id,
            self._identity.epoch,
            topics=(txn_offset_commit.TxnOffsetCommitRequestTopic(place.topic, partitions=(partition,)),),
        )
        connection = self._connections.get(self.leader_of(OFFSETS))
        if connection is not None and self.harness.schedule.happens(STALLS):
            connection.stall()
        while await self._once(self.leader_of(OFFSETS), request) is None:
            has_moved_on = self.leader_of(OFFSETS) not in self._connections
            if has_moved_on and self.harness.schedule.happens(GIVES_OFFSETS_UP):
                self.harness.schedule.fired["client of version 1 gave offsets up"] += 1
                self._know(Outcome.ABORTED)
                self._gave_up = True
                return False
        return True

    # Connections

    def _coordinator(self) -> int:
        return coordinator_of_transaction(self.image, self.name)

    async def _until_done(self, find_node: Callable[[], int], request: Any) -> Told:
        """Ask until the request is carried out: on the same connection where its answer says so, else on another."""
        while (told := await self._once(find_node(), request)) is None:
            pass
        return told

    async def _once(self, node_id: int, request: Any) -> Told | None:
        """Ask once; return None where it is to be asked again."""
        told = await self._ask_by_connection(node_id, request)
        if told is not None and told.error_code is ErrorCode.NONE:
            return told
        self._go_on_after(told)
        if told is None or told.error_code.name in NOT_PRODUCING:
            await self.look_around()
        else:
            await self.think(60)
        return None

    async def _ask_by_connection(self, node_id: int, request: Any) -> Told | None:
        """Ask by the connection with a node; where no answer comes in time, leave it."""
        if node_id < 0:
            return None
        connection = self._connections.get(node_id)
        if connection is None or not connection.is_open:
            connection = self._connections[node_id] = KafkaConnection(self, self.harness.machines[node_id])
        try:
            async with asyncio.timeout(PATIENCE_S):
                body = await connection.ask(request, VERSIONS[type(request)])
        except (TimeoutError, ConnectionResetError):
            self.harness.schedule.fired["client of version 1 moved on"] += 1
            connection.leave()
            del self._connections[node_id]
            return None
        if isinstance(body, init_producer_id.InitProducerIdResponse):
            return Told(ErrorCode(body.error_code), ProducerIdentity(body.producer_id, body.producer_epoch))
        return Told(ErrorCode(error_of(body)))
