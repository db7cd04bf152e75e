"""Offsets: where logs begin and end, and how far groups have come. For consumers and the admin alike."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.groups.events import CommitOffsets, FetchOffsets, OffsetsFetched
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import ListOffset, OffsetListed
from eagleray.client.calls import Patience, call_patiently
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata, offsets_to_commit
from eagleray.protocol.errors import ErrorCode


async def list_offset(
    runtime: ClientRuntime, partition: TopicPartition, timestamp: int, isolation: Isolation, patience: Patience
) -> OffsetListed:
    """Ask a partition's leader which offset a timestamp, or a name in place of one, stands for."""
    reply: OffsetListed = await call_patiently(
        runtime,
        lambda: runtime.view.leaders.get(partition, NO_NODE),
        f"looking up an offset of {partition}",
        ListOffset,
        partition,
        timestamp,
        isolation,
        patience=patience,
    )
    return reply


async def list_offsets(
    runtime: ClientRuntime, wanted: Mapping[TopicPartition, int], isolation: Isolation, patience: Patience
) -> dict[TopicPartition, OffsetListed]:
    """The same for many partitions at once."""
    questions = (
        list_offset(runtime, partition, timestamp, isolation, patience) for partition, timestamp in wanted.items()
    )
    return dict(zip(wanted, await asyncio.gather(*questions), strict=True))


async def fetch_offsets(
    runtime: ClientRuntime, group: str, partitions: Iterable[TopicPartition] | None, patience: Patience
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Ask how far a group has come; waits for transactions that are about to say so.

    Partitions that the group has no offset for are left out.
    """
    reply: OffsetsFetched = await call_patiently(
        runtime,
        lambda: runtime.view.group_coordinator(group),
        f"reading the offsets of group {group!r}",
        FetchOffsets,
        group,
        None if partitions is None else tuple(partitions),
        True,  # only what no transaction may still change
        patience=patience,
        error_of=any_error,
    )
    return {
        found.partition: OffsetAndMetadata(found.offset, found.metadata, found.leader_epoch)
        for found in reply.offsets
        if found.offset >= 0
    }


def any_error(reply: Any) -> ErrorCode:  # noqa: ANN401 - OffsetsFetched or OffsetsCommitted
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
    patience: Patience,
) -> None:
    """Say how far a group has come."""
    await call_patiently(
        runtime,
        lambda: runtime.view.group_coordinator(group.group_id),
        f"committing offsets of group {group.group_id!r}",
        CommitOffsets,
        group.group_id,
        offsets_to_commit(offsets),
        group.generation,
        group.member_id,
        group.group_instance_id,
        patience=patience,
        error_of=any_error,
    )
