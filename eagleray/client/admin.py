"""The asyncio admin: topics, records, replicas, transactions and groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Self

from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    ConfigsDescribed,
    CreateTopics,
    DeleteTopics,
    DescribeConfigs,
    GrowTopic,
    NewTopic,
    TopicsAnswered,
)
from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.controller.topics import CONSUMER_OFFSETS, PartitionImage
from eagleray.broker.groups.events import DeleteGroup, DeleteOffsets, GroupsListed, ListGroups
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import DeleteRecords, DescribePartition, PartitionDescribed, RecordsDeleted
from eagleray.client.calls import Patience, call_patiently
from eagleray.client.controller_calls import ask_controller
from eagleray.client.descriptions import GroupOffset, PartitionDescription, TopicConfigs, TopicDescription
from eagleray.client.errors import (
    EaglerayError,
    RefusedError,
    RetriableError,
    TopicNotFound,
    TopicRefused,
    error_for,
)
from eagleray.client.lookups import commit_offsets, fetch_offsets, list_offsets
from eagleray.client.replica_admin import ReplicaAdmin
from eagleray.client.runtime import ClientRuntime
from eagleray.client.transaction_admin import TransactionAdmin
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from eagleray.protocol.errors import ErrorCode


class AsyncAdmin(ReplicaAdmin, TransactionAdmin):
    """Creates, changes, describes and deletes what a cluster holds.

        async with cluster.admin as admin:
            await admin.create_topic("orders", partitions=12, configs={"retention.ms": "86400000"})
            for partition in (await admin.describe_topic("orders")).partitions:
                print(partition.leader, partition.high_watermark)

    Owns: nothing. A call that gets no answer is repeated until its time is up; creating and deleting tolerate that the
    attempt before was carried out after all.
    """

    def __init__(self, runtime: ClientRuntime, patience: Patience | None = None) -> None:
        super().__init__(runtime, patience or Patience())

    # Topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Create a topic; -1 means the cluster's default. Replicas are on as many different machines."""
        topic = NewTopic(name, partitions, replication_factor, dict(configs or {}))
        tolerated = {ErrorCode.TOPIC_ALREADY_EXISTS} if exist_ok else set()
        await self._change(f"creating topic {name!r}", CreateTopics, (topic,), tolerated=tolerated)
        await self._runtime.view.find_topic(name, self._patience.total_ms)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and everything in it."""
        await self._change(f"deleting topic {name!r}", DeleteTopics, (name,))
        while name in self._runtime.view.partitions:
            await self._runtime.view.refreshed()

    async def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, this many in all; records with keys may go elsewhere from then on."""
        await self._change(f"growing topic {name!r}", GrowTopic, name, partitions)
        while len(self._runtime.view.partitions.get(name, ())) < partitions:
            await self._runtime.view.refreshed()

    async def alter_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set settings of a topic; None takes one back to its default."""
        await self._change(f"changing topic {name!r}", AlterTopicConfigs, name, dict(changes))

    async def _change(
        self, doing: str, message_type: type, *fields: object, tolerated: Iterable[ErrorCode] = ()
    ) -> TopicsAnswered:
        """Have the controller change something; what a lost attempt has done already is no error of the next."""
        accepted = set(tolerated)

        def error_of(reply: Any, is_repeated: bool) -> ErrorCode:  # noqa: ANN401 - TopicsAnswered
            if is_repeated:
                accepted.update(_DONE_BEFORE.get(message_type, ()))
            codes = (result.error_code for result in reply.results)
            return next((code for code in codes if code is not _NONE and code not in accepted), _NONE)

        answer: TopicsAnswered = await ask_controller(
            self._runtime,
            doing,
            message_type,
            *fields,
            patience=self._patience,
            error_of=error_of,
            exception_for=_topic_error,
        )
        await self._runtime.view.refreshed()
        return answer

    async def list_topics(self, *, internal: bool = False) -> dict[str, int]:
        """Return the topics, each with its number of partitions."""
        await self._runtime.view.refreshed()
        known = self._runtime.view.partitions
        return {name: len(names) for name, names in sorted(known.items()) if internal or not name.startswith("__")}

    async def describe_topic(self, name: str) -> TopicDescription:
        """Return a topic with where each of its partitions stands; the offsets of one without a leader are -1."""
        await self._runtime.view.refreshed()
        topic = self._runtime.view.image.topics.get(name)
        if topic is None:
            raise TopicNotFound(f"there is no topic {name!r}.")
        names = self._runtime.view.partitions[name]
        described = await asyncio.gather(*map(self._describe, names, topic.partitions))
        partitions = tuple(
            PartitionDescription(
                partition.partition,
                image.leader,
                found.leader_epoch,
                tuple(image.replicas),
                tuple(image.isr),
                found.log_start_offset,
                found.last_stable_offset,
                found.high_watermark,
                found.log_end_offset,
                found.size_bytes,
                tuple(image.adding),
                tuple(image.removing),
            )
            for partition, image, found in zip(names, topic.partitions, described, strict=True)
        )
        return TopicDescription(name, topic.topic_id.hex(), dict(topic.configs), partitions)

    async def _describe(self, partition: TopicPartition, image: PartitionImage) -> PartitionDescribed:
        if image.leader == NO_NODE:
            return PartitionDescribed(0, ErrorCode.LEADER_NOT_AVAILABLE, image.leader_epoch)
        reply: PartitionDescribed = await self._ask_leader(partition, "describing", DescribePartition)
        return reply

    async def describe_configs(self, topic: str) -> TopicConfigs:
        """Return every setting of a topic as it counts."""
        view = self._runtime.view
        reply: ConfigsDescribed = await call_patiently(
            self._runtime,
            view.any_node,
            f"describing the settings of topic {topic!r}",
            DescribeConfigs,
            topic,
            patience=self._patience,
            error_of=_unless_unknown,
        )
        if reply.error_code is not _NONE:
            raise TopicNotFound(f"there is no topic {topic!r}.", reply.error_code)
        return TopicConfigs(reply.configs, reply.explicit)

    # Records

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int = 30_000
    ) -> dict[TopicPartition, int]:
        """Delete records before an offset of each partition (-1: all); return where the partitions begin then.

        Each leader waits so long until the other replicas in sync have deleted them as well; asking again is harmless.
        """
        questions = (
            self._ask_leader(partition, "deleting records of", DeleteRecords, offset, timeout_ms)
            for partition, offset in before.items()
        )
        replies: list[RecordsDeleted] = await asyncio.gather(*questions)
        return {name: reply.log_start_offset for name, reply in zip(before, replies, strict=True)}

    async def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offsets of timestamps: -1 the end, -2 the beginning, -3 the largest timestamp."""
        listed = await list_offsets(self._runtime, timestamps_ms, isolation, self._patience)
        return {name: OffsetAndTimestamp(found.offset, found.timestamp) for name, found in listed.items()}

    # Groups

    async def list_groups(self) -> list[str]:
        """Return the groups that have committed offsets or members."""
        replies: list[GroupsListed] = await self._ask_all_leaders(CONSUMER_OFFSETS, "listing groups", ListGroups)
        return sorted({group.name for reply in replies for group in reply.groups})

    async def describe_group(self, group: str) -> list[GroupOffset]:
        """Return how far a group has come in each partition, and where the partition ends."""
        offsets = await fetch_offsets(self._runtime, group, None, self._patience)
        known = {name: found for name, found in offsets.items() if name in self._runtime.view.leaders}
        ends = await list_offsets(self._runtime, dict.fromkeys(known, -1), Isolation.READ_UNCOMMITTED, self._patience)
        return [
            GroupOffset(name, found.offset, ends[name].offset, found.metadata) for name, found in sorted(known.items())
        ]

    async def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Say how far a group has come, in the place of its consumers."""
        await commit_offsets(self._runtime, ConsumerGroupMetadata(group), offsets, self._patience)

    async def delete_group_offsets(self, group: str, *partitions: TopicPartition) -> None:
        """Have a group forget how far it has come in partitions."""
        await self._ask_group(group, "deleting offsets of", DeleteOffsets, partitions)

    async def delete_group(self, group: str) -> None:
        """Have a group forgotten."""
        await self._ask_group(group, "deleting", DeleteGroup)

    async def _ask_group(self, group: str, doing: str, message_type: type, *fields: object) -> None:
        await call_patiently(
            self._runtime,
            lambda: self._runtime.view.group_coordinator(group),
            f"{doing} group {group!r}",
            message_type,
            group,
            *fields,
            patience=self._patience,
        )

    # Life

    async def close(self) -> None:
        """Do nothing: an admin owns nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


_NONE = ErrorCode.NONE
_DONE_BEFORE: dict[type, tuple[ErrorCode, ...]] = {
    CreateTopics: (ErrorCode.TOPIC_ALREADY_EXISTS,),
    DeleteTopics: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    GrowTopic: (ErrorCode.INVALID_PARTITIONS,),
}
"""What the second attempt is told where the first was carried out without an answer."""


def _unless_unknown(reply: Any) -> ErrorCode:  # noqa: ANN401 - ConfigsDescribed
    """For a topic that does not exist, asking again changes nothing."""
    error_code: ErrorCode = reply.error_code
    return _NONE if error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error_code


def _topic_error(error_code: ErrorCode, doing: str, reply: TopicsAnswered) -> EaglerayError:
    """Say what the controller has said about the topic in question."""
    said = next((result.message for result in reply.results if result.error_code is error_code), None)
    error = error_for(error_code, doing, said)
    if isinstance(error, RetriableError | RefusedError):
        return error
    # A code that would mean something else to a producer.
    return TopicRefused(error.message, error_code)
