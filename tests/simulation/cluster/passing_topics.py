"""Topics that come and go in a simulated cluster, while everything goes wrong: what is acknowledged goes with them."""

from typing import TYPE_CHECKING

from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.broker.controller.events import CreateTopics, DeleteTopics, NewTopic
from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.broker.log import Flush
from eagleray.broker.partitions.events import ALL_IN_SYNC, Produce
from eagleray.broker.transactions.events import InitProducerId
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch
from tests.simulation.cluster.client import Client
from tests.simulation.cluster.places import PASSING
from tests.simulation.cluster.producers import PRODUCE_TIMEOUT_MS
from tests.simulation.schedule import Violation
from tests.support.batches import NOW_MS

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

TOPICS = 4
MOST_PARTITIONS = 2
MOST_BATCHES = 6
LONGEST_PAUSE_MS = 100
STAYS = 0.3
"""How often a topic stays until the end; of the others a part gets its name again."""


class TopicOwner(Client):
    """Creates topics one after the other, writes into each, and has most of them deleted when all was acknowledged.

    The names are few, so that a topic comes after another of its name, which some node may have missed.
    """

    def __init__(self, harness: "Harness", number: int, configs: dict[str, str]) -> None:
        super().__init__(harness, f"owner of topics {number}")
        self._names = [f"{PASSING}{number}{letter}" for letter in "abc"]
        self._left = TOPICS
        self._configs = configs
        self._is_flushed = configs["flush"] == Flush.COMMIT or len(harness.machines) > 1

    async def run(self) -> None:
        self._controller = ControllerChannel(self.peers, self.harness.controllers, reply_timeout_s=0.5)
        while self._left and self._names:
            name = self.chance.choice(self._names)
            topic_id, partitions = await self._create(name)
            await self._write(name, topic_id, partitions)
            if self.harness.schedule.happens(STAYS):
                self._names.remove(name)
            else:
                await self._delete(name, topic_id)
            self._left -= 1
        self.is_done = True

    async def _create(self, name: str) -> tuple[bytes, int]:
        wanted = NewTopic(
            name,
            self.chance.randint(1, MOST_PARTITIONS),
            self.harness.fault_plan.replication_factor,
            {"segment.bytes": "1024", "index.interval.bytes": "200"} | self._configs,
        )
        while True:
            result = await self._ask_controller(CreateTopics, (wanted,))
            if result is ErrorCode.NONE or result is ErrorCode.TOPIC_ALREADY_EXISTS:
                # An answer may have got lost; only this client makes topics of the name.
                topic = self.harness.watch.image.topics.get(name)
                if topic is not None:
                    self.harness.schedule.fired["topic created"] += 1
                    return topic.topic_id, len(topic.partitions)
            await self.think(100)

    async def _delete(self, name: str, topic_id: bytes) -> None:
        """Have it deleted, and not one that has its name by then, however late a question comes."""
        while topic_id not in self.harness.watch.image.deleted_topics:
            await self._ask_controller(DeleteTopics, (name,), {name: topic_id})
            await self.think(100)
        self.harness.schedule.fired["topic deleted"] += 1

    async def _ask_controller(self, message_type: object, *fields: object) -> ErrorCode | None:
        try:
            reply = await self._controller.call(message_type, *fields)
        except Exception:  # noqa: BLE001 - no node has answered
            return None
        return reply.results[0].error_code if reply.results else None

    async def _write(self, name: str, topic_id: bytes, partitions: int) -> None:
        """Write batches, each of which is there once, and for good when it is acknowledged.

        What is flushed late may be lost with the power, and with it what a leader knows of producers: it has none.
        """
        identity = await self._identify() if self._is_flushed else NO_PRODUCER
        sequences = dict.fromkeys((TopicPartition(name, number) for number in range(partitions)), 0)
        for number in range(self.chance.randint(0, MOST_BATCHES)):
            partition = self.chance.choice([*sequences])
            value = b"%s %d %s" % (topic_id.hex().encode(), number, b"x" * self.chance.choice([0, 20, 400]))
            sequence = sequences[partition] if self._is_flushed else -1
            data = build_batch(
                [NewRecord(value, key=name.encode(), timestamp=NOW_MS)],
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=sequence,
            )
            base_offset = await self._produce(partition, data)
            told = identity.producer_id, identity.epoch, sequence
            self.harness.watch.passing.was_told(partition, data, told, base_offset)
            sequences[partition] += 1
            await self.think(min(self.harness.fault_plan.longest_pause_ms, LONGEST_PAUSE_MS))

    async def _identify(self) -> ProducerIdentity:
        while True:
            reply = await self.ask(self.any_node(), InitProducerId, None)
            if reply is not None and reply.error_code is ErrorCode.NONE:
                producer: ProducerIdentity = reply.producer
                return producer
            await self.think(100)

    async def _produce(self, partition: TopicPartition, data: bytes) -> int:
        while True:
            leader = self.leader_of(partition)
            reply = await self.ask(leader, Produce, partition, data, ALL_IN_SYNC, None, 1, PRODUCE_TIMEOUT_MS)
            if reply is not None and reply.error_code is ErrorCode.NONE:
                offset: int = reply.base_offset
                return offset
            if reply is not None and not reply.error_code.is_retriable:
                raise Violation(f"{self.name} was told {ErrorCode(reply.error_code).name}: {reply}")
            await self.look_around()
