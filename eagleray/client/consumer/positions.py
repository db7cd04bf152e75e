"""Where a consumer begins in partitions that it has no position in yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.client.calls import pause
from eagleray.client.config import ConsumerConfig
from eagleray.client.consumer.fetched_batches import UNKNOWN, PartitionState
from eagleray.client.consumer.fetcher import EARLIEST, LATEST, Fetcher
from eagleray.client.errors import NoOffset, TopicNotFound
from eagleray.client.lookups import check_partitions, fetch_offsets, list_offsets
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime


class Positions(msgspec.Struct, eq=False):
    """Looks positions up in the background: where the group is, or by the reset policy.

    Owns: the look-up that is under way, and the error of the last one until `raise_error` gives it to the application.
    """

    _runtime: ClientRuntime
    _config: ConsumerConfig
    _fetcher: Fetcher
    _retry_policy: RetryPolicy
    _on_news: Callable[[], None]
    _task: asyncio.Task[None] | None = None
    _error: Exception | None = None
    waits_for_topics: bool = False
    """Whether a partition that does not exist is waited for: its group will take it back, or it comes soon."""

    def known(self) -> dict[TopicPartition, int]:
        """Return the offsets behind what the application has taken, of all partitions that have one yet."""
        states = self._fetcher.states.values()
        known = {state.partition: state.position for state in states if state.position != UNKNOWN}
        return known | self._fetcher.ahead.first_offsets()

    def look_up(self) -> None:
        """Find out where to begin in partitions without a position, in the background."""
        if not self._missing():
            self._fetcher.pump()
        elif self._task is None and self._error is None:
            self._task = self._runtime.loop.create_task(self._look_up_all())

    def _missing(self) -> list[PartitionState]:
        return [state for state in self._fetcher.states.values() if state.position == UNKNOWN]

    async def _look_up_all(self) -> None:
        try:
            while states := self._missing():
                await self._look_up_or_wait(states)
        except Exception as error:  # noqa: BLE001 - whatever it is, the application has to see it
            # What was revoked while the question was under way is not for this consumer any more.
            if self._missing():
                self._error = error
        finally:
            self._task = None
        self._fetcher.pump()
        self._on_news()

    async def _look_up_or_wait(self, states: list[PartitionState]) -> None:
        try:
            await self._look_up_these(states)
        except TopicNotFound:
            if not self.waits_for_topics:
                raise
            await pause(self._runtime, self._retry_policy.backoff_max_ms)

    async def _look_up_these(self, states: list[PartitionState]) -> None:
        versions = {state: state.version for state in states}
        await check_partitions(self._runtime, [state.partition for state in states], self._retry_policy)
        found: dict[TopicPartition, int] = {}
        wanted = [state.partition for state in states if state.reset_to is None]
        if wanted and self._config.group_id is not None:
            committed = await fetch_offsets(self._runtime, self._config.group_id, wanted, self._retry_policy)
            found = {partition: offset.offset for partition, offset in committed.items()}
        ends = {state.partition: self._end_for(state) for state in states if state.partition not in found}
        listed = await list_offsets(self._runtime, ends, self._fetcher.isolation, self._retry_policy)
        found |= {partition: offset.offset for partition, offset in listed.items()}
        for state, version in versions.items():
            if state.version == version:
                state.seek(found[state.partition])

    def _end_for(self, state: PartitionState) -> int:
        if state.reset_to is not None:
            return state.reset_to
        policy = self._config.auto_offset_reset
        if policy == "none":
            raise NoOffset(f"there is no offset of group {self._config.group_id!r} for {state.partition}.")
        return EARLIEST if policy == "earliest" else LATEST

    def raise_error(self) -> None:
        """Raise what went wrong, once."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """Look nothing up any more."""
        if self._task is not None:
            self._task.cancel()
