"""What all clients on one event loop share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from eagleray.actors.lanes.link import Fields, Reply, RequestType
from eagleray.actors.messages import Malformed
from eagleray.broker.controller.image import EMPTY_IMAGE, MetadataImage
from eagleray.client.metadata import ClusterView
from eagleray.client.ports import Drainable, Peers, Timer, Watched

TICK_MS = 200


def wall_clock_ms() -> int:
    """Return the time of day, for timestamps of records."""
    return int(time.time() * 1000)


class ClientRuntime:
    """The peers, the metadata, the clock and the one ticker of all producers and consumers on a loop.

    Owns: the view of the cluster. Nothing runs while no client waits for anything: the ticker stops with the last one
    that does, and what is gathered in one turn of the loop is sent at its end, with one callback for all clients.
    """

    def __init__(
        self,
        peers: Peers,
        image: MetadataImage = EMPTY_IMAGE,
        *,
        cluster: str = "",
        wall_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.peers = peers
        self.ask = peers.ask
        self.cluster = cluster
        self.wall_ms = wall_ms
        self._seconds = self.loop.time
        self.view = ClusterView(self, image)
        peers.on_silence = self.view.refresh
        peers.hears_malformed = True
        self._watched: set[Watched] = set()
        self._dirty: list[Drainable] = []
        self._ticker: asyncio.TimerHandle | None = None
        self._thread_id = threading.get_ident()

    def is_on_loop(self) -> bool:
        """Whether this is the thread of the loop."""
        return threading.get_ident() == self._thread_id

    def now_ms(self) -> int:
        """Return a time that never falls, to measure how long things take."""
        return int(self._seconds() * 1000)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call back after a while."""
        return self.loop.call_later(delay_ms / 1000, callback)

    def drain_soon(self, drainable: Drainable) -> None:
        """Let a client send what it has gathered at the end of this turn; to be asked once a turn, by any thread."""
        if not self.is_on_loop():
            self.loop.call_soon_threadsafe(drainable.drain)
            return
        self._dirty.append(drainable)
        if len(self._dirty) == 1:
            self.loop.call_soon(self._drain_all)

    def _drain_all(self) -> None:
        dirty, self._dirty = self._dirty, []
        for drainable in dirty:
            drainable.drain()

    def watch(self, watched: Watched) -> None:
        """Tell somebody about time, until it has nothing to wait for."""
        watched.is_watched = True
        self._watched.add(watched)
        if self._ticker is None:
            self._ticker = self.loop.call_later(TICK_MS / 1000, self._tick)

    def _tick(self) -> None:
        self._ticker = None
        now_ms = self.now_ms()
        for watched in list(self._watched):
            if not watched.tick(now_ms):
                watched.is_watched = False
                self._watched.discard(watched)
        if self._watched:
            self._ticker = self.loop.call_later(TICK_MS / 1000, self._tick)

    async def call(
        self,
        node_id: int,
        timeout_ms: float,
        message_type: RequestType[Fields, Reply],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> Reply | Malformed | None:
        """Ask a node and return its reply, or None where there is none in time."""
        reply: asyncio.Future[Reply | Malformed | None] = self.loop.create_future()

        def settle(message: Reply | Malformed | None = None) -> None:
            if not reply.done():
                reply.set_result(message)

        timer = self.loop.call_later(timeout_ms / 1000, settle)
        self.ask(node_id, settle, message_type, *fields, **named)
        try:
            return await reply
        finally:
            timer.cancel()

    def close(self) -> None:
        """Stop the ticker."""
        self._watched.clear()
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
