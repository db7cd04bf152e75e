"""The image that a node keeps on its disk, written off the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Final

from eagleray.actors.common.node_timer import NodeTimer
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.kept_image import KeptImage, write_kept_image

_log = logging.getLogger(__name__)

INTERVAL_MS: Final = 1_000
"""An image is written as a whole, however little has changed."""


class ImageKeeper:
    """Keeps the newest image of a node: the first at once, the others at most once in `INTERVAL_MS`.

    Owns: the two generations of the file, and the thread that writes them. Persists: an image, flushed; a crash leaves
    the one before. Where it cannot be written, that is tried again after the interval: the node needs it only where the
    metadata log is lost. After a restart it goes on with the next generation.
    """

    def __init__(
        self,
        disk: FileSystem,
        data_dir: str,
        node_id: int,
        *,
        sequence: int,
        loop: asyncio.AbstractEventLoop,
        timer: NodeTimer,
        steady_ms: Callable[[], int],
    ) -> None:
        """Begin after the generation that was found, which is 0 where there is none."""
        self._disk, self._data_dir, self._node_id = disk, data_dir, node_id
        self._sequence = sequence
        self._loop, self._timer, self._steady_ms = loop, timer, steady_ms
        self._latest: MetadataImage = EMPTY_IMAGE
        self._written: MetadataImage = EMPTY_IMAGE
        self._is_waiting = False

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix="keep-image")

    def take(self, image: MetadataImage) -> None:
        """Keep an image soon; at once, where none was kept before. Raises OSError in that case."""
        self._latest = image
        if not self._sequence:
            self._write(self._next())
        elif not self._is_waiting and image is not self._written:
            self._is_waiting = True
            self._timer.set(self._on_due, self._steady_ms() + INTERVAL_MS)

    def close(self) -> None:
        """Keep the newest image, if it is not kept yet."""
        if self._latest is self._written:
            return
        try:
            self._write(self._next())
        except OSError as error:
            _log.warning("the last metadata of node %s could not be kept: %s", self._node_id, error)

    def _next(self) -> KeptImage:
        self._sequence += 1
        self._written = self._latest
        return KeptImage(sequence=self._sequence, image=self._latest)

    def _write(self, kept: KeptImage) -> None:
        write_kept_image(self._disk, self._data_dir, self._node_id, kept)

    def _on_due(self) -> None:
        self._loop.run_in_executor(self._executor, self._write, self._next()).add_done_callback(self._done)

    def _done(self, future: asyncio.Future[None]) -> None:
        self._is_waiting = False
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            _log.warning("the metadata of node %s could not be kept: %s", self._node_id, error)
            self._written = EMPTY_IMAGE
        if self._written is not self._latest:
            self.take(self._latest)
