"""Requests of Kafka's clients to the nodes of a cluster in memory, on real connections without sockets."""

from collections.abc import Callable
from typing import Any

from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.broker.groups.events import CommitOffsets, OffsetToCommit
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Message
from eagleray.broker.partitions.events import Produce, TransactionVerified, VerifyTransaction
from eagleray.broker.transactions.events import AddPartitions, InitProducerId
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import data_batch
from tests.support.cluster_in_memory import COORDINATOR, GROUPS, LEADER_A, ClusterInMemory
from tests.support.kafka_peer import Peer


class KafkaCluster(ClusterInMemory):
    """A cluster to whose nodes Kafka's clients speak."""

    async def request(self, request: Any, *, node: int = LEADER_A, version: int = -1) -> Any:
        """Send a request to a node, in the newest version unless told otherwise, and return what comes back."""
        peer = Peer(self.nodes[node].listener)
        peer.send(request, SERVED[request.wire.api_key].highest if version == -1 else version)
        return (await peer.response()).body

    # What there has to be before it can be described

    async def ask_node_for(self, node: int, message_type: Callable[..., Message], *fields: object) -> Any:
        """Ask a role of a node for something, as its peers do."""
        return await self.peers.call(node, message_type, *fields)

    async def produce(self, partition: TopicPartition, count: int = 1) -> None:
        await self._write(partition, data_batch(count=count))

    async def open_transaction(self, transactional_id: str, *partitions: TopicPartition) -> ProducerIdentity:
        """Begin a transaction that has written a record to each partition."""
        reply = await self.ask_node_for(COORDINATOR, InitProducerId, transactional_id)
        producer: ProducerIdentity = reply.producer
        await self.ask_node_for(COORDINATOR, AddPartitions, transactional_id, producer, partitions)
        for partition in partitions:
            batch = data_batch(producer_id=producer.producer_id, epoch=producer.epoch, sequence=0, transactional=True)
            await self._write(partition, batch, transactional_id)
        return producer

    async def leave_hanging(self, partition: TopicPartition, producer: ProducerIdentity) -> None:
        """Open a transaction in a partition behind its coordinator's back, as only a broken cluster does."""
        leader = self.image.leader_of(partition)
        (role,) = self.nodes[leader]._roles
        batch = data_batch(producer_id=producer.producer_id, epoch=producer.epoch, sequence=0, transactional=True)

        def verify(question: VerifyTransaction) -> None:
            role.post(TransactionVerified(partition, producer.producer_id, question.verification_id, ErrorCode.NONE))

        verifier = role._verifier  # type: ignore[attr-defined] # the role of a leader has one
        verifier.verify, before = verify, verifier.verify
        try:
            await self._write(partition, batch, "unknown")
        finally:
            verifier.verify = before

    async def _write(self, partition: TopicPartition, batch: Any, transactional_id: str | None = None) -> None:
        leader = self.image.leader_of(partition)
        reply = await self.ask_node_for(leader, Produce, partition, bytes(batch.view), -1, transactional_id)
        assert reply.error_code is ErrorCode.NONE, reply

    async def commit_offset(self, group: str, partition: TopicPartition, offset: int) -> None:
        reply = await self.ask_node_for(GROUPS, CommitOffsets, group, (OffsetToCommit(partition, offset),))
        assert reply.error_code is ErrorCode.NONE, reply
