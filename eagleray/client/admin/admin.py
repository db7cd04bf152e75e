"""The asyncio admin: topics, records, replicas, users, transactions and groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Self, get_args

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
from eagleray.broker.groups.events import DeleteGroup, DeleteOffsets, ListGroups
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, PartitionImage
from eagleray.broker.partitions.events import DeleteRecords, DescribePartition, PartitionDescribed
from eagleray.client import validation
from eagleray.client.admin.blocking import BlockingAdmin
from eagleray.client.admin.credential_admin import CredentialAdmin
from eagleray.client.admin.descriptions import GroupOffset, PartitionDescription, TopicConfigs, TopicDescription
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.config import check_choice
from eagleray.client.controller_calls import ask_controller
from eagleray.client.errors import (
    EaglerayError,
    GroupNotFound,
    RefusedError,
    RetriableError,
    TopicNotFound,
    TopicRefused,
    error_for,
)
from eagleray.client.lookups import any_error, ask_group, commit_offsets, fetch_offsets, list_offsets
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.client.settings import IsolationLevel
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from eagleray.protocol.errors import ErrorCode


class AsyncAdmin(CredentialAdmin, BlockingAdmin):
    """Creates, changes, describes and deletes what a cluster holds.

        async with cluster.admin as admin:
            await admin.create_topic("orders", partitions=12, configs={"retention.ms": "86400000"})
            for partition in (await admin.describe_topic("orders")).partitions:
                print(partition.leader, partition.high_watermark)

    Owns: nothing. A call that gets no answer is repeated until its time is up; creating and deleting tolerate that the
    attempt before was carried out after all.
    """

    def __init__(self, runtime: ClientRuntime, retry_policy: RetryPolicy | None = None) -> None:
        super().__init__(runtime, retry_policy or RetryPolicy())

    # Topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | float | bool] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Create a topic; -1 means the cluster's default. Each replica of a partition is on a machine of its own."""
        topic = NewTopic(
            validation.new_topic(name),
            validation.partition_count(partitions, has_default=True),
            validation.replication_factor(replication_factor),
            validation.configs(configs or {}),
        )
        tolerated = {ErrorCode.TOPIC_ALREADY_EXISTS} if exist_ok else set()
        await self._change(f"creating topic {name!r}", Question(CreateTopics, (topic,)), tolerated=tolerated)
        await self._runtime.view.find_topic(name, self._retry_policy.total_ms)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and everything in it; raises TopicNotFound where there is none."""
        validation.topic(name)
        await self._change(f"deleting topic {name!r}", Question(DeleteTopics, (name,)))
        while name in self._runtime.view.partitions:
            await self._runtime.view.refreshed()

    async def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, this many in all; records with keys may go elsewhere from then on."""
        validation.topic(name)
        validation.partition_count(partitions)
        await self._change(f"growing topic {name!r}", Question(GrowTopic, name, partitions))
        while len(self._runtime.view.partitions.get(name, ())) < partitions:
            await self._runtime.view.refreshed()

    async def alter_topic(self, name: str, changes: Mapping[str, str | float | bool | None]) -> None:
        """Set settings of a topic; None takes one back to its default."""
        validation.topic(name)
        question = Question(AlterTopicConfigs, name, validation.config_changes(changes))
        await self._change(f"changing topic {name!r}", question)

    async def _change(
        self, doing: str, question: Question[TopicsAnswered], *, tolerated: Iterable[ErrorCode] = ()
    ) -> None:
        """Have the controller change something; what a lost attempt has done already is no error of the next."""
        accepted = {_NONE, *tolerated}

        def refusals(reply: TopicsAnswered) -> list[ErrorCode]:
            return [result.error_code for result in reply.results if result.error_code not in accepted]

        def error_of(reply: TopicsAnswered, may_be_done: bool) -> ErrorCode:
            if may_be_done:
                accepted.update(_DONE_BEFORE.get(question.message_type, ()))
            return next((code for code in refusals(reply) if code is not _UNKNOWN), _NONE)

        answer = await ask_controller(
            self._runtime,
            doing,
            question,
            retry_policy=self._retry_policy,
            error_of=error_of,
            exception_for=_topic_error,
        )
        if refusals(answer):
            # A broker may learn of a topic later, so its clients ask again; the controller knows them all.
            raise _topic_error(_UNKNOWN, doing, answer)
        await self._runtime.view.refreshed()

    async def list_topics(self, *, internal: bool = False, max_age_ms: int = -1) -> dict[str, int]:
        """Return the topics, each with its number of partitions, from what is known where that is not too old."""
        await self._runtime.view.refreshed_within(max_age_ms)
        known = self._runtime.view.partitions
        return {name: len(names) for name, names in sorted(known.items()) if internal or not name.startswith("__")}

    async def describe_topic(self, name: str) -> TopicDescription:
        """Return a topic with its partitions, their leaders and offsets; the offsets of one without a leader are -1."""
        validation.topic(name)
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
        return await self._ask_leader(partition, "describing", Question(DescribePartition, partition))

    async def describe_configs(self, topic: str) -> TopicConfigs:
        """Return the settings of a topic that are in force."""
        validation.topic(topic)
        view = self._runtime.view
        reply = await call_with_retries(
            self._runtime,
            view.any_node,
            f"describing the settings of topic {topic!r}",
            Question(DescribeConfigs, topic),
            retry_policy=self._retry_policy,
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

        Each leader waits until the other replicas in sync have deleted them as well; asking again is harmless.
        """
        wanted = validation.offsets_to_delete(before)
        validation.timeout_ms("timeout_ms", timeout_ms)
        await self._require(wanted)
        questions = (
            self._ask_leader(partition, "deleting records of", Question(DeleteRecords, partition, offset, timeout_ms))
            for partition, offset in wanted.items()
        )
        replies = await asyncio.gather(*questions)
        return {name: reply.log_start_offset for name, reply in zip(wanted, replies, strict=True)}

    async def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], isolation: IsolationLevel = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offsets of timestamps: -1 the end, -2 the beginning, -3 the largest timestamp.

        With read_committed a partition ends at its last stable offset.
        """
        wanted = validation.timestamps_to_list(timestamps_ms)
        check_choice("isolation", isolation, get_args(IsolationLevel))
        await self._require(wanted)
        listed = await list_offsets(self._runtime, wanted, Isolation[isolation.upper()], self._retry_policy)
        return {name: OffsetAndTimestamp(found.offset, found.timestamp) for name, found in listed.items()}

    async def _require(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise TopicNotFound for partitions that there are none of, which would be waited for otherwise."""
        view = self._runtime.view
        if not all(partition in view.leaders for partition in partitions):
            await view.refreshed()
        for partition in partitions:
            if partition not in view.leaders:
                raise TopicNotFound(f"there is no partition {partition}.", _UNKNOWN)

    # Groups

    async def list_groups(self) -> list[str]:
        """Return the groups that have committed offsets or members."""
        replies = await self._ask_all_leaders(CONSUMER_OFFSETS, "listing groups", Question(ListGroups))
        return sorted({group.name for reply in replies for group in reply.groups})

    async def describe_group(self, group: str) -> list[GroupOffset]:
        """Return how far a group has come in each partition, and where the partition ends.

        Raises GroupNotFound where there is no such group.
        """
        validation.group(group)
        offsets = await fetch_offsets(self._runtime, group, None, self._retry_policy)
        if not offsets and group not in await self.list_groups():
            raise GroupNotFound(f"there is no group {group!r}.", ErrorCode.GROUP_ID_NOT_FOUND)
        known = {name: found for name, found in offsets.items() if name in self._runtime.view.leaders}
        ends = await list_offsets(
            self._runtime, dict.fromkeys(known, -1), Isolation.READ_UNCOMMITTED, self._retry_policy
        )
        return [
            GroupOffset(name, found.offset, ends[name].offset, found.metadata) for name, found in sorted(known.items())
        ]

    async def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Set offsets of a group, in place of its consumers."""
        metadata = ConsumerGroupMetadata(validation.group(group))
        await commit_offsets(self._runtime, metadata, offsets, self._retry_policy)

    async def delete_group_offsets(self, group: str, *partitions: TopicPartition) -> None:
        """Delete the offsets of a group in these partitions."""
        question = Question(DeleteOffsets, validation.group(group), validation.partitions(partitions))
        await ask_group(self._runtime, group, "deleting offsets of", question, self._retry_policy, error_of=any_error)

    async def delete_group(self, group: str) -> None:
        """Delete a group."""
        question = Question(DeleteGroup, validation.group(group))
        await ask_group(self._runtime, group, "deleting", question, self._retry_policy, error_of=any_error)

    # Incarnation

    async def close(self) -> None:
        """Do nothing: an admin owns nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


_NONE = ErrorCode.NONE
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_DONE_BEFORE: dict[object, tuple[ErrorCode, ...]] = {
    CreateTopics: (ErrorCode.TOPIC_ALREADY_EXISTS,),
    DeleteTopics: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    GrowTopic: (ErrorCode.INVALID_PARTITIONS,),
}
"""What the second attempt is told where the first was carried out without an answer."""


def _unless_unknown(reply: ConfigsDescribed) -> ErrorCode:
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
