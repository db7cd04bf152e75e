"""What all clients on one event loop share."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.transactions.origin import Origin
from eagleray.client.metadata import ClusterView
from eagleray.client.ports import Peers, Timer, Watched

TICK_MS = 200

Result = TypeVar("Result")


def settle(future: asyncio.Future[Result], result: Result) -> None:
    """Let what waits for a future go on, unless it has given up waiting."""
    if not future.done():
        future.set_result(result)


def wall_clock_ms() -> int:
    """Return the time of day, for timestamps of records."""
    return int(time.time() * 1000)


def client_id() -> str:
    """Return the name of this process among the clients of a cluster."""
    return f"eagleray-{os.getpid()}"


class ClientRuntime:
    """The peers, the metadata, the clock and the one ticker of all producers and consumers on a loop.

    Owns: the view of the cluster. Nothing runs while no client waits for anything: the ticker stops with the last one
    that does, and what is gathered in one turn is sent in it, with what all clients of the peers ask.
    """

    def __init__(
        self,
        peers: Peers,
        image: MetadataImage = EMPTY_IMAGE,
        *,
        cluster: str = "",
        wall_ms: Callable[[], int] = wall_clock_ms,
        origin: Origin | None = None,
        ray_namespace: str = "",
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.peers = peers
        self._turn = peers.turn
        self.ask = peers.ask
        self.cluster = cluster
        self.wall_ms = wall_ms
        self.origin = origin or Origin(client_id=client_id())
        """What the transactions of this process are known by to those who wait for their end."""

        self.ray_namespace = ray_namespace
        """Where the named actors of this program are; empty where it is not in Ray."""

        self._seconds = self.loop.time
        self.view = ClusterView(self, image)
        peers.on_silence = self.view.refresh
        peers.hears_malformed = True
        self._watched: set[Watched] = set()
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

    def drain_soon(self, drain: Callable[[], None]) -> None:
        """Let a client send what it has gathered, in the next turn; to be asked once a turn, by any thread."""
        if self.is_on_loop():
            self._turn.act(drain)
        else:
            self.loop.call_soon_threadsafe(drain)

    def watch(self, watched: Watched) -> None:
        """Tell a client about time, until it has nothing to wait for."""
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

    def close(self) -> None:
        """Stop the ticker."""
        self._watched.clear()
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
