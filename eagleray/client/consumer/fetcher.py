"""Keeps one fetch under way to each leader, so that records are there when the application asks for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from eagleray.actors.lanes.messages import Malformed
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.partitions.events import Fetch, Fetched, FetchedPartition, FetchPartition
from eagleray.client.config import ConsumerConfig
from eagleray.client.consumer.fetched_batches import UNKNOWN, PartitionState, unpack
from eagleray.client.errors import CorruptRecords, error_for
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerRecord
from eagleray.protocol.errors import ErrorCode

READ_AHEAD: Final = 2
"""How many fetches of a partition may wait for the application before no more is fetched."""

_Asked = list[tuple[PartitionState, int, int]]
"""The partitions of a fetch, each with its version and the offset asked for."""


class RecordsAhead(deque[ConsumerRecord]):
    """What both consumers yield and return from, the first record first.

    Owns: those records, in memory. They do not count as read: a position that is shown or committed is that of the
    first of its partition, until `popleft` yields it or `take` returns it. A partition that is given up or sought
    elsewhere takes its records along. An application's thread takes from it only while no call of it is under way on
    the loop.
    """

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Give up to so many records to a `poll`."""
        return [self.popleft() for _ in range(min(limit, len(self)))]

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Return, for each partition that has records here, the offset of its first one."""
        return {record.topic_partition: record.offset for record in reversed(self)}

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of all other partitions."""
        self._replace([record for record in self if record.topic_partition in partitions])

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of partitions."""
        self._replace([record for record in self if record.topic_partition not in partitions])

    def _replace(self, records: list[ConsumerRecord]) -> None:
        # In place, because an iterator of the application holds on to this very object.
        self.clear()
        self.extend(records)


class Fetcher:
    """The assigned partitions, and the fetches that are under way for them.

    Owns: the positions, and what the application has not been given yet. It knows no loop; peers call it with replies,
    and it tells `on_news` when there is something to take or to look up. What comes back for a partition that has been
    sought elsewhere meanwhile is dropped.
    """

    def __init__(self, runtime: ClientRuntime, config: ConsumerConfig, on_news: Callable[[], None]) -> None:
        self._runtime = runtime
        self._config = config
        self._retry_policy = RetryPolicy.of(config)
        self._on_news = on_news
        self.isolation = Isolation[config.isolation_level.upper()]
        self.states: dict[TopicPartition, PartitionState] = {}
        self.ahead = RecordsAhead()
        """What was taken for an iteration that has not yielded it yet."""

        self._under_way: dict[int, tuple[int, int, _Asked]] = {}
        self._fetches = 0
        self._turn = 0
        self._retries = 0
        self.is_watched = False
        self.is_closed = False

    def assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Read these partitions and no others; those that stay keep their positions."""
        known = self.states
        self.states = {name: known.get(name) or PartitionState(name) for name in partitions}
        self.ahead.keep(self.states)

    def add(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Read these partitions too, from where they are looked up."""
        for name in partitions:
            self.states.setdefault(name, PartitionState(name))

    def remove(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Read these partitions no more, and drop what was fetched of them."""
        for name in partitions:
            self.states.pop(name, None)
        self.ahead.forget(partitions)

    # Fetching

    def pump(self) -> None:
        """Begin a fetch to every leader that has none and something to give."""
        if self.is_closed:
            return
        for node_id, states in self._fetchable().items():
            self._fetch(node_id, states)

    def _fetchable(self) -> dict[int, list[PartitionState]]:
        now_ms, leaders = self._runtime.now_ms(), self._runtime.view.leaders
        by_node: dict[int, list[PartitionState]] = {}
        for state in self.states.values():
            wants = state.position != UNKNOWN and not state.is_paused and state.error is None
            if not wants or state.buffers >= READ_AHEAD or state.is_fetching or state.retry_at_ms > now_ms:
                continue
            node_id = leaders.get(state.partition, NO_NODE)
            if node_id == NO_NODE:
                self._try_later(state)
            elif node_id not in self._under_way:
                by_node.setdefault(node_id, []).append(state)
        return by_node

    def _fetch(self, node_id: int, states: list[PartitionState]) -> None:
        config, view = self._config, self._runtime.view
        self._turn += 1
        # The limit on bytes is used up in the order of the request; let another partition be first each time.
        first = self._turn % len(states)
        states = states[first:] + states[:first]
        wanted = tuple(
            FetchPartition(
                state.partition,
                state.fetch_offset,
                config.max_partition_fetch_bytes,
                view.leader_epoch(state.partition),
            )
            for state in states
        )
        asked = [(state, state.version, state.fetch_offset) for state in states]
        for state in states:
            state.is_fetching = True
        self._fetches += 1
        self._under_way[node_id] = (self._fetches, self._runtime.now_ms(), asked)
        if not self.is_watched:
            self._runtime.watch(self)
        limits = (self.isolation, config.fetch_max_wait_ms, config.fetch_min_bytes, config.fetch_max_bytes)
        self._runtime.ask(node_id, partial(self._on_fetched, node_id, self._fetches), Fetch, wanted, *limits)

    def _on_fetched(self, node_id: int, number: int, reply: Fetched | Malformed | None) -> None:
        under_way = self._under_way.get(node_id)
        if under_way is None or under_way[0] != number or self.is_closed:
            return
        del self._under_way[node_id]
        asked = under_way[2]
        for state, _, _ in asked:
            state.is_fetching = False
        if reply is None:
            for state, _, _ in asked:
                self._try_later(state)
        elif isinstance(reply, Malformed):
            for state, _, offset in asked:
                state.error = error_for(reply.error_code, f"reading {state.partition} from {offset!r}", reply.message)
        else:
            self._retries = 0
            found = {partition.partition: partition for partition in reply.partitions}
            for state, version, offset in asked:
                if state.version == version and state.partition in found:
                    self._on_partition(state, offset, found[state.partition])
        self.pump()
        self._on_news()

    def _on_partition(self, state: PartitionState, offset: int, found: FetchedPartition) -> None:
        error_code = found.error_code
        if error_code is ErrorCode.NONE:
            if found.records:
                self._add(state, offset, found)
        elif error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_out_of_range(state, offset, found)
        elif error_code.is_retriable:
            self._try_later(state)
        else:
            state.error = error_for(error_code, f"reading {state.partition} from offset {offset}")

    def _add(self, state: PartitionState, offset: int, found: FetchedPartition) -> None:
        try:
            state.add(unpack(found, offset, self.isolation))
        except CorruptRecords as error:
            state.error = error

    def _on_out_of_range(self, state: PartitionState, offset: int, found: FetchedPartition) -> None:
        if state.buffers:
            # What was fetched before is still for the application; only then is it time to ask again.
            self._pause(state, self._config.retry_backoff_ms)
        elif self._config.auto_offset_reset == "none":
            known = f"the log has {found.log_start_offset} to {found.high_watermark}"
            error = error_for(ErrorCode.OFFSET_OUT_OF_RANGE, f"reading {state.partition} from offset {offset}", known)
            state.error = error
        else:
            state.seek(UNKNOWN, EARLIEST if self._config.auto_offset_reset == "earliest" else LATEST)

    def _try_later(self, state: PartitionState) -> None:
        """Ask again after a pause, the leader that the partition has then."""
        pause_ms = self._retry_policy.pause_ms(self._retries)
        self._retries += 1
        self._runtime.view.refresh()
        self._pause(state, pause_ms)

    def _pause(self, state: PartitionState, pause_ms: int) -> None:
        state.retry_at_ms = self._runtime.now_ms() + pause_ms
        self._runtime.later(pause_ms + 1, self.pump)

    def tick(self, now_ms: int) -> bool:
        """Take fetches that were never answered as failed."""
        longest_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
        for node_id, (number, sent_ms, _) in list(self._under_way.items()):
            if now_ms - sent_ms >= longest_ms:
                self._on_fetched(node_id, number, None)
        return bool(self._under_way)

    # Taking

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Give up to so many records to the application, then fetch what there is room for."""
        records: list[ConsumerRecord] = []
        for state in list(self.states.values()):
            if state.is_paused:
                continue
            if state.buffers:
                self._take_from(state, limit, records)
            elif state.error is not None and not records:
                raise state.error
            if len(records) >= limit:
                break
        self.pump()
        return records

    def _take_from(self, state: PartitionState, limit: int, records: list[ConsumerRecord]) -> None:
        try:
            state.take(limit - len(records), records)
        except CorruptRecords as error:
            # What came before it is handed out first; the next call raises.
            if not records:
                raise
            state.error = error
        if len(records) >= limit:
            # Let the others come first the next time.
            self.states[state.partition] = self.states.pop(state.partition)

    def close(self) -> None:
        """Fetch no more."""
        self.is_closed = True
        self.ahead.clear()
        self._under_way.clear()


EARLIEST: Final = -2
LATEST: Final = -1
