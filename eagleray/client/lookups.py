"""Offsets: where logs begin and end, and how far groups have come. For consumers and the admin alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import starmap

from eagleray.actors.lanes.link import Reply
from eagleray.broker.controller.events import GetMetadata
from eagleray.broker.groups.events import CommitOffsets, FetchOffsets, OffsetsCommitted, OffsetsFetched
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.partitions.events import ListOffset, OffsetListed
from eagleray.client import validation
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.controller_calls import ask_controller
from eagleray.client.errors import TopicNotFound
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata, offsets_to_commit
from eagleray.protocol.errors import ErrorCode


async def refresh_from_controller(runtime: ClientRuntime, retry_policy: RetryPolicy) -> None:
    """Learn what the controller itself knows, which is newer than what any other node may have."""
    reply = await ask_controller(runtime, "reading the metadata", Question(GetMetadata), retry_policy=retry_policy)
    if reply.image is not None:
        runtime.view.update(reply.image)


async def find_topics(
    runtime: ClientRuntime, topics: Iterable[str], retry_policy: RetryPolicy
) -> dict[str, tuple[TopicPartition, ...]]:
    """Return the partitions of topics; one that is unknown even to the controller is not waited for."""
    wanted, view = tuple(dict.fromkeys(topics)), runtime.view
    if not view.partitions.keys() >= set(wanted):
        await refresh_from_controller(runtime, retry_policy)
    missing = [topic for topic in wanted if topic not in view.partitions]
    if missing:
        raise TopicNotFound(f"there is no topic {', '.join(map(repr, missing))}.")
    return {topic: view.partitions[topic] for topic in wanted}


async def check_partitions(
    runtime: ClientRuntime, partitions: Iterable[TopicPartition], retry_policy: RetryPolicy
) -> None:
    """Raise TopicNotFound for a partition that is unknown even to the controller."""
    wanted, view = tuple(partitions), runtime.view
    if all(partition in view.leaders for partition in wanted):
        return
    await refresh_from_controller(runtime, retry_policy)
    for partition in wanted:
        if partition not in view.leaders:
            known = view.partitions.get(partition.topic)
            has = "there is no such topic" if known is None else f"the topic has partitions 0 to {len(known) - 1}"
            raise TopicNotFound(f"there is no partition {partition}: {has}.")


async def list_offsets(
    runtime: ClientRuntime, wanted: Mapping[TopicPartition, int], isolation: Isolation, retry_policy: RetryPolicy
) -> dict[TopicPartition, OffsetListed]:
    """Ask leaders which offsets timestamps, or names in their place, stand for; what is not there is not awaited."""

    async def ask(partition: TopicPartition, timestamp: int) -> OffsetListed:
        return await call_with_retries(
            runtime,
            lambda: runtime.view.leaders.get(partition, NO_NODE),
            f"looking up an offset of {partition}",
            Question(ListOffset, partition, timestamp, isolation),
            retry_policy=retry_policy,
        )

    await check_partitions(runtime, wanted, retry_policy)
    return dict(zip(wanted, await asyncio.gather(*starmap(ask, wanted.items())), strict=True))


async def fetch_offsets(
    runtime: ClientRuntime, group: str, partitions: Iterable[TopicPartition] | None, retry_policy: RetryPolicy
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Ask how far a group has come; waits for transactions that are about to say so.

    Partitions that the group has no offset for are left out.
    """
    wanted = None if partitions is None else tuple(partitions)
    # Only what no transaction may still change.
    question = Question(FetchOffsets, group, wanted, True)
    reply = await ask_group(runtime, group, "reading the offsets of", question, retry_policy, error_of=any_error)
    return {
        found.partition: OffsetAndMetadata(found.offset, found.metadata, found.leader_epoch)
        for found in reply.offsets
        if found.offset >= 0
    }


async def ask_group(
    runtime: ClientRuntime,
    group: str,
    doing: str,
    question: Question[Reply],
    retry_policy: RetryPolicy,
    *,
    error_of: Callable[[Reply], ErrorCode],
) -> Reply:
    """Ask the coordinator of a group, and again where `error_of` its answer may pass."""
    return await call_with_retries(
        runtime,
        lambda: runtime.view.group_coordinator(group),
        f"{doing} group {group!r}",
        question,
        retry_policy=retry_policy,
        error_of=error_of,
    )


def any_error(reply: OffsetsFetched | OffsetsCommitted) -> ErrorCode:
    """Return the error of a reply as a whole, or the first of its parts."""
    none: ErrorCode = ErrorCode.NONE
    if reply.error_code is not none:
        error_code: ErrorCode = reply.error_code
        return error_code
    parts = (
        (offset.error_code for offset in reply.offsets)
        if isinstance(reply, OffsetsFetched)
        else iter(reply.partition_errors)
    )
    return next((error_code for error_code in parts if error_code is not none), none)


async def commit_offsets(
    runtime: ClientRuntime,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
    retry_policy: RetryPolicy,
) -> None:
    """Say how far a group has come."""
    wanted = offsets_to_commit(validation.offsets_to_commit(offsets))
    question = Question(
        CommitOffsets, group.group_id, wanted, group.generation, group.member_id, group.group_instance_id
    )
    await ask_group(runtime, group.group_id, "committing offsets of", question, retry_policy, error_of=any_error)
