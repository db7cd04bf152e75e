"""What a client knows of the cluster: its nodes, its topics, and who leads what."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from eagleray.actors.lanes.messages import Malformed
from eagleray.broker.controller.events import GetMetadata, MetadataAnswered
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE, ProcessRole
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.broker.transactions.pools.names import log_partition_of
from eagleray.client.errors import NotConnected, TopicNotFound
from eagleray.client.ports import Asks, Peers, Timer

if TYPE_CHECKING:
    import asyncio


_REFRESH_PAUSE_MS: Final = 20
_SILENCE_MS: Final = 500
"""How long one node may be silent before the next is asked: its machine may be gone, and then nothing says so."""


class Runtime(Asks, Protocol):
    """What the view needs of the runtime that has it."""

    loop: asyncio.AbstractEventLoop
    peers: Peers

    def now_ms(self) -> int:
        """Return a time that never falls."""

    def later(self, delay_ms: float, callback: Callable[[], None], /) -> Timer:
        """Call back after a while."""


class ClusterView:
    """The newest image that any node has given, and tables made from it for senders.

    Owns: the image. One question to the cluster is under way at a time, for all clients together, to one node after the
    other until one answers; an image older than the one that is known is ignored. Stale tables do no harm: a node that
    is not the leader says so.
    """

    def __init__(self, runtime: Runtime, image: MetadataImage) -> None:
        self._runtime = runtime
        self.image = image
        self.leaders: dict[TopicPartition, int] = {}
        """The leader of each partition; NO_NODE while it has none."""

        self.partitions: dict[str, tuple[TopicPartition, ...]] = {}
        self._wanted_by: list[Callable[[], None]] = []
        self._is_asking = False
        self._is_closed = False
        self._heard_ms: int | None = None
        """When a node last gave its image; what the view was made with may be of any age."""
        self._pause: Timer | None = None
        self._silence: Timer | None = None
        self._turn = 0
        self._question = 0
        self._nodes_left = 0
        self._controller_turn = 0
        self.update(image)

    # The image

    def update(self, image: MetadataImage) -> None:
        """Take an image, unless a newer one is known."""
        if image.version < self.image.version:
            return
        gone, self.image = self.image.nodes.keys() - image.nodes.keys(), image
        self._runtime.peers.learn(image.nodes)
        self._runtime.peers.forget(gone)
        leaders: dict[TopicPartition, int] = {}
        partitions: dict[str, tuple[TopicPartition, ...]] = {}
        for name, topic in image.topics.items():
            names = partitions[name] = tuple(TopicPartition(name, number) for number in range(len(topic.partitions)))
            leaders.update(zip(names, (partition.leader for partition in topic.partitions), strict=True))
        self.leaders, self.partitions = leaders, partitions

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the epoch of a partition's leader, -1 where it is not known."""
        return self.image.leader_epoch_of(partition)

    @property
    def controllers(self) -> list[int]:
        """The nodes of which one takes changes of topics."""
        return sorted(node_id for node_id, node in self.image.nodes.items() if ProcessRole.CONTROLLER in node.roles)

    def controller(self) -> int:
        """Return the node that takes changes of topics, as far as one knows."""
        controllers = self.controllers
        return controllers[self._controller_turn % len(controllers)] if controllers else NO_NODE

    def try_next_controller(self) -> None:
        """Take another node for the controller: this one said that it is not, or nothing."""
        self._controller_turn += 1

    def any_node(self) -> int:
        """Return some node, another each time."""
        nodes = sorted(self.image.nodes)
        self._turn += 1
        return nodes[self._turn % len(nodes)] if nodes else NO_NODE

    def transaction_partition(self, transactional_id: str) -> TopicPartition | None:
        """Return the partition of the transaction log whose leader coordinates a transactional id."""
        partitions = self.partitions.get(TRANSACTION_STATE)
        return partitions[log_partition_of(transactional_id, len(partitions))] if partitions else None

    def group_partition(self, group: str) -> TopicPartition | None:
        """Return the partition of the offsets topic whose leader coordinates a group."""
        partitions = self.partitions.get(CONSUMER_OFFSETS)
        return partitions[partition_for_name(group, len(partitions))] if partitions else None

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Return the node that coordinates a transactional id."""
        partition = self.transaction_partition(transactional_id)
        return NO_NODE if partition is None else self.leaders[partition]

    def group_coordinator(self, group: str) -> int:
        """Return the node that coordinates a group."""
        partition = self.group_partition(group)
        return NO_NODE if partition is None else self.leaders[partition]

    def any_transaction_coordinator(self) -> int:
        """Return some node that gives out producer ids, another each time where there are several."""
        led_by = {self.leaders[partition] for partition in self.partitions.get(TRANSACTION_STATE, ())}
        coordinators = sorted(led_by - {NO_NODE})
        self._turn += 1
        return coordinators[self._turn % len(coordinators)] if coordinators else NO_NODE

    # Refreshing

    def refresh(self, when_done: Callable[[], None] | None = None) -> None:
        """Ask the cluster for news, now or after the pause that keeps questions rare; then call back."""
        if when_done is not None:
            self._wanted_by.append(when_done)
        if not self._is_asking and self._pause is None:
            self._ask()

    def _ask(self) -> None:
        self._pause = None
        nodes = sorted(self.image.nodes)
        if not nodes:
            self._pause = self._runtime.later(_REFRESH_PAUSE_MS, self._on_nobody)
            return
        self._is_asking = True
        self._nodes_left = len(nodes)
        self._ask_next()

    def _ask_next(self) -> None:
        self._nodes_left -= 1
        self._question += 1
        on_reply = partial(self._on_reply, self._question)
        self._silence = self._runtime.later(_SILENCE_MS, partial(on_reply, None))
        self._runtime.ask(self.any_node(), on_reply, GetMetadata)

    def _on_reply(self, question: int, reply: MetadataAnswered | Malformed | None) -> None:
        image = None
        if isinstance(reply, MetadataAnswered) and reply.has_image:
            image = reply.image
        if image is not None:
            self._heard_ms = self._runtime.now_ms()
            self.update(image)
        if question != self._question or not self._is_asking or self._is_closed:
            return
        self._stop_waiting()
        if image is None and self._nodes_left > 0:
            self._ask_next()
            return
        self._is_asking = False
        self._pause = self._runtime.later(_REFRESH_PAUSE_MS, self._pause_over)
        self._answer_all()

    def _stop_waiting(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _on_nobody(self) -> None:
        """No node is known that could be asked; the clients that wait may look for one."""
        self._pause = None
        self._answer_all()

    def _answer_all(self) -> None:
        wanted_by, self._wanted_by = self._wanted_by, []
        for when_done in wanted_by:
            when_done()

    def _pause_over(self) -> None:
        self._pause = None
        if self._wanted_by:
            self._ask()

    def close(self) -> None:
        """Stop asking."""
        self._is_closed = True
        self._stop_waiting()
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    async def refreshed(self) -> None:
        """Wait for the answer to a question that is asked from now on, if there is one at all."""
        done: asyncio.Future[None] = self._runtime.loop.create_future()
        self.refresh(lambda: None if done.done() else done.set_result(None))
        await done

    async def refreshed_within(self, max_age_ms: int) -> None:
        """Wait for news, unless the last are not older than this."""
        if self._heard_ms is None or self._runtime.now_ms() - self._heard_ms > max_age_ms:
            await self.refreshed()

    async def find_topic(self, topic: str, max_block_ms: int) -> tuple[TopicPartition, ...]:
        """Return the partitions of a topic; wait for one that is not known, but not for longer than this."""
        deadline_ms = self._runtime.now_ms() + max_block_ms
        while topic not in self.partitions:
            if self._runtime.now_ms() >= deadline_ms:
                if not self.image.nodes:
                    raise NotConnected(f"no node has been heard of within {max_block_ms} ms.")
                raise TopicNotFound(f"there is no topic {topic!r} after {max_block_ms} ms.")
            await self.refreshed()
        return self.partitions[topic]
