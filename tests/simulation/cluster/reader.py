"""A consumer of a simulated cluster, and the operator who sets the cluster up and moves things about."""

from typing import TYPE_CHECKING

from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.broker.controller.events import CreateTopics, NewTopic, PlanNodes
from eagleray.broker.controller.replica_events import DrainNodes, ElectLeaders, PartitionMove, ReassignPartitions
from eagleray.broker.groups.events import CommitOffsets, FetchOffsets, OffsetToCommit
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.partitions.events import (
    EARLIEST_TIMESTAMP,
    DeleteRecords,
    Fetch,
    FetchedPartition,
    FetchPartition,
    ListOffset,
)
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import scan_batches
from tests.simulation.cluster.client import Client
from tests.simulation.cluster.places import INPUTS, OFFSETS, READING_GROUP, SOURCE, TARGET, TRANSFORM_GROUP
from tests.simulation.schedule import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness


TALKS_TO_GROUPS = 0.2


class Reader(Client):
    """Reads committed records of one partition from each node that says that it leads, in order.

    Now and then it commits how far it is, and in each of its incarnations it goes on from there.
    """

    def __init__(self, harness: "Harness", partition: TopicPartition) -> None:
        super().__init__(harness, f"reader of {partition}")
        self.partition = partition
        self.offset = 0
        self._commits = 0

    async def run(self) -> None:
        await self._find_where_it_was()
        while True:
            await self.think(120)
            if self.harness.schedule.happens(TALKS_TO_GROUPS):
                await self.chance.choice([self._commit, self._watch_transformer])()
            target = self.leader_of(self.partition) if self.harness.schedule.happens(0.8) else self.any_node()
            wanted = (FetchPartition(self.partition, self.offset, 1000),)
            reply = await self.ask(target, Fetch, wanted, Isolation.READ_COMMITTED, 50)
            if reply is None:
                await self.look_around()
                continue
            (found,) = reply.partitions
            if found.error_code is ErrorCode.NONE:
                self._take(found)
            elif found.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._find_the_beginning(target)
            else:
                await self.look_around()

    async def _find_where_it_was(self) -> None:
        while True:
            # It commits outside of transactions, so what is not stable cannot be its own.
            is_stable = self.harness.schedule.happens(0.5)
            wanted = READING_GROUP, (self.partition,), is_stable
            reply = await self.ask(self.leader_of(OFFSETS), FetchOffsets, *wanted)
            if reply is not None and reply.error_code is ErrorCode.NONE:
                (found,) = reply.offsets
                if found.error_code is not ErrorCode.NONE:
                    raise Violation(f"{self.name} cannot know where it was: {found}")
                self.offset = max(found.offset, 0)
                return
            await self.look_around()

    async def _commit(self) -> None:
        """Try to commit; whether that works is seen later."""
        self._commits += 1
        wanted = OffsetToCommit(self.partition, self.offset, metadata=f"{self.name} {self._commits}")
        reply = await self.ask(self.leader_of(OFFSETS), CommitOffsets, READING_GROUP, (wanted,))
        if reply is None or reply.error_code is not ErrorCode.NONE:
            await self.look_around()

    async def _watch_transformer(self) -> None:
        """Ask how far others are, any node that may believe to know; what is said is looked at where it is said."""
        is_stable = self.harness.schedule.happens(0.7)
        target = self.leader_of(OFFSETS) if self.harness.schedule.happens(0.5) else self.any_node()
        await self.ask(target, FetchOffsets, TRANSFORM_GROUP, INPUTS, is_stable)

    async def _find_the_beginning(self, target: int) -> None:
        """Go on where the log begins, for what comes before that was deleted; nothing else is out of range.

        But one who led before, and does not know that others have gone on, may say so of what came after it. Consumers
        name the leader epoch that they know, and are safe from that; this one asks any node.
        """
        reply = await self.ask(target, ListOffset, self.partition, EARLIEST_TIMESTAMP)
        if reply is None or reply.error_code is not ErrorCode.NONE:
            return
        if reply.offset > self.offset:
            self.offset = reply.offset
        elif self.harness.watch.image.leader_of(self.partition) == target:
            raise Violation(f"{self.name} is at {self.offset}, which is said to be out of range: {reply}")
        else:
            self.harness.schedule.fired["out of range, says one who led before"] += 1
            await self.look_around()

    def _take(self, found: FetchedPartition) -> None:
        self.offset = max(self.offset, found.log_start_offset)
        scan = scan_batches(found.records)
        if scan.stopped_by is not None and not scan.missing_bytes:
            # Like any consumer it looks at what it gets; the node will find out, too.
            self.harness.schedule.fired["rotten batch read"] += 1
        for batch in scan.batches:
            self.harness.watch.was_read(self.partition, batch, found.aborted_transactions)
            if batch.header.base_offset > self.offset:
                raise Violation(f"{self.name} is at {self.offset} and was given {batch.header.base_offset}")
            self.offset = max(self.offset, batch.header.next_offset)


class Operator(Client):
    """Plans the nodes and creates the topics, and then does what it is told, without looking at what comes of it."""

    def __init__(self, harness: "Harness") -> None:
        super().__init__(harness, "operator")
        self._orders: list[tuple[object, ...]] = []

    async def run(self) -> None:
        controller = ControllerChannel(self.peers, self.harness.controllers, reply_timeout_s=0.5)
        plan = tuple(
            PlannedNode(machine.node_id, machine.spec.roles, machine=machine.spec.machine)
            for machine in self.harness.machines.values()
        )
        await self._until_done(controller, PlanNodes, plan)
        while not await self._has_created(controller):
            await self.think(100)
        self.is_done = True
        while True:
            await self.think(50)
            while self._orders:
                message_type, *fields = self._orders.pop(0)
                if message_type is DeleteRecords:
                    await self.look_around()
                    await self.ask(self.leader_of(fields[0]), DeleteRecords, *fields)
                else:
                    controller.ask(lambda reply: None, message_type, *fields)

    async def _until_done(self, controller: ControllerChannel, message_type: object, *fields: object) -> None:
        while True:
            reply = await self._call(controller, message_type, *fields)
            if reply is not None and reply.error_code is ErrorCode.NONE:
                return
            await self.think(100)

    async def _has_created(self, controller: ControllerChannel) -> bool:
        fault_plan = self.harness.fault_plan
        configs = {
            "min.insync.replicas": str(fault_plan.least_in_sync),
            "segment.bytes": "2048",
            "index.interval.bytes": "200",
            "flush": fault_plan.flush.value,
        }
        source = NewTopic(SOURCE, len(INPUTS), fault_plan.replication_factor, configs)
        target = NewTopic(TARGET, 1, fault_plan.replication_factor, configs)
        reply = await self._call(controller, CreateTopics, (source, target))
        done = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
        return reply is not None and all(result.error_code in done for result in reply.results)

    async def _call(self, controller: ControllerChannel, message_type: object, *fields: object) -> object:
        try:
            return await controller.call(message_type, *fields)
        except Exception:  # noqa: BLE001 - no node has answered
            return None

    # Orders

    def move(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        self._orders.append((ReassignPartitions, (PartitionMove(partition, target),)))

    def drain(self, node_id: int, *, undo: bool = False) -> None:
        self._orders.append((DrainNodes, None, node_id, undo))

    def elect_preferred(self) -> None:
        self._orders.append((ElectLeaders, None))

    def delete_records(self, partition: TopicPartition, before_offset: int) -> None:
        self._orders.append((DeleteRecords, partition, before_offset, 500))
