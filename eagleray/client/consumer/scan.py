"""Reads a range of offsets as the batches that the log holds, for readers that decode many records at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.partitions.events import Fetch, Fetched, FetchPartition
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.consumer.fetched_batches import FetchedBatches, unpack
from eagleray.client.errors import EaglerayError, OffsetOutOfRange, error_for
from eagleray.client.loop_thread import LoopThread
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch

_WAIT_MS: Final = 500
_EMPTY_FETCHES: Final = 60
"""How often a leader may have nothing where there must be something, before that is taken for a loss."""


async def fetch_batches(
    runtime: ClientRuntime, partition: TopicPartition, offset: int, isolation: Isolation, max_bytes: int
) -> FetchedBatches:
    """Read from an offset on; what comes back covers at least one batch, unless the log ends here for now."""
    wanted = FetchPartition(partition, offset, max_bytes)
    reply = await call_with_retries(
        runtime,
        lambda: runtime.view.leaders.get(partition, NO_NODE),
        f"reading {partition} from offset {offset}",
        Question(Fetch, (wanted,), isolation, _WAIT_MS, 1, max_bytes),
        retry_policy=RetryPolicy(),
        error_of=_error_of,
        exception_for=_exception_for,
    )
    # To check and to cut a megabyte of batches takes a while; what else is on the loop need not wait for all of it.
    await asyncio.sleep(0)
    return unpack(reply.partitions[0], offset, isolation)


def _error_of(reply: Fetched) -> ErrorCode:
    error_code: ErrorCode = reply.partitions[0].error_code
    return error_code


def _exception_for(error_code: ErrorCode, doing: str, reply: Fetched) -> EaglerayError:
    found = reply.partitions[0]
    is_outside = error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    known = f"the log has only {found.log_start_offset} to {found.high_watermark}" if is_outside else None
    return error_for(error_code, doing, known)


def scan(  # noqa: PLR0917 - behind `SyncCluster.scan`, which has names for them
    thread: LoopThread,
    runtime: ClientRuntime,
    partition: TopicPartition,
    start: int,
    end: int,
    isolation: Isolation,
    fetch_bytes: int,
) -> Iterator[list[RecordBatch]]:
    """Yield the visible batches of the offsets from `start` up to `end`; raises OffsetOutOfRange where they are gone.

    While one fetch is being worked on, the next is on its way.
    """
    offset, empty_fetches = start, 0
    under_way = thread.submit(fetch_batches(runtime, partition, offset, isolation, fetch_bytes))
    try:
        while offset < end:
            found = under_way.result()
            empty_fetches = 0 if found.next_offset > offset else empty_fetches + 1
            if empty_fetches > _EMPTY_FETCHES:
                raise OffsetOutOfRange(f"{partition} has nothing at offset {offset}, but has to reach to {end}.")
            offset = found.next_offset
            if offset < end:
                under_way = thread.submit(fetch_batches(runtime, partition, offset, isolation, fetch_bytes))
            batches = [batch for batch in found.batches if batch.header.base_offset < end]
            if batches:
                yield batches
    finally:
        under_way.cancel()
