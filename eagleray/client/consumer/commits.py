"""Commits of a consumer's positions, by the application and by themselves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from eagleray.broker.identities import TopicPartition
from eagleray.client.config import ConsumerConfig
from eagleray.client.consumer.rebalances import Rebalancer
from eagleray.client.errors import CommitFailed, EaglerayError
from eagleray.client.lookups import commit_offsets
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import OffsetAndMetadata
from eagleray.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class Commits:
    """Has the group keep offsets, in the name of its member where the consumer is one.

    Owns: the commit that is under way by itself, of which there is one at a time.
    """

    def __init__(
        self,
        runtime: ClientRuntime,
        config: ConsumerConfig,
        group: Rebalancer,
        retry_policy: RetryPolicy,
        positions: Callable[[], dict[TopicPartition, int]],
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._group = group
        self._retry_policy = retry_policy
        self._positions = positions
        self._task: asyncio.Task[None] | None = None
        self._next_ms = runtime.now_ms() + config.auto_commit_interval_ms

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Commit offsets; a member whose epoch has moved on meanwhile commits with the new one."""
        while offsets:
            # A rebalance between two tries gives the member another epoch.
            group = self._group.metadata()
            try:
                await commit_offsets(self._runtime, group, offsets, self._retry_policy)
            except CommitFailed as error:
                is_stale = error.error_code is ErrorCode.STALE_MEMBER_EPOCH
                if not is_stale or not await self._group.next_epoch(group):
                    raise
            else:
                return

    async def commit_before_revocation(self) -> None:
        """Commit, where that is automatic, before partitions are given up."""
        if self._config.enable_auto_commit:
            await self.commit_quietly(self._positions())

    def commit_if_due(self) -> None:
        """Commit in the background, where that is automatic and its interval is over."""
        now_ms = self._runtime.now_ms()
        if self._config.enable_auto_commit and now_ms >= self._next_ms and self._task is None:
            self._next_ms = now_ms + self._config.auto_commit_interval_ms
            self._task = self._runtime.loop.create_task(self._commit_in_background(self._positions()))

    async def _commit_in_background(self, positions: Mapping[TopicPartition, int]) -> None:
        try:
            await self.commit_quietly(positions)
        finally:
            self._task = None

    async def commit_quietly(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit, and only warn where that fails."""
        try:
            await self.commit(positions)
        except EaglerayError as error:
            logger.warning("offsets were not committed and will be with the next ones: %s", error)

    def close(self) -> None:
        """Commit nothing more."""
        if self._task is not None:
            self._task.cancel()
