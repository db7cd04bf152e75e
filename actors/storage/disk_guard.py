"""Looks at the disk of a node now and then, and keeps a reserve on it that is given up when the disk is full."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from eagleray.actors.common.storage_config import StorageConfig
from eagleray.actors.storage.disk import Disk
from eagleray.broker.runtime.disk_watch import LOOK_WITH_ROOM_MS, DiskState, DiskWatch, Watermarks

_log = logging.getLogger(__name__)

RESERVE_SUFFIX: Final = ".reserve"


class DiskGuard:
    """Knows whether the node may write what clients send, and says so to those who ask and in the log.

    Owns: the reserve, a file of nothing but room. It goes when the disk is full, so that metadata can still be written
    by which topics are deleted, and the node can start; it comes back when there is room again. A node has a reserve of
    its own, because the nodes of a machine may have disks of their own.
    On failure: a disk that cannot even be looked at changes nothing; what is written then says what is wrong.
    """

    def __init__(
        self, disk: Disk, data_dir: str, node_id: int, config: StorageConfig, steady_ms: Callable[[], int]
    ) -> None:
        self._disk = disk
        self._data_dir = data_dir
        self._path = f"{data_dir}/nodes/{node_id}{RESERVE_SUFFIX}"
        self._steady_ms = steady_ms
        marks = Watermarks(config.storage_low_free_bytes, config.storage_min_free_bytes, config.storage_reserve_bytes)
        self.watch = DiskWatch(marks, config.storage_flush_timeout_ms)
        self._has_reserve = disk.exists(self._path)
        self._last_problem = ""
        self.on_due: Callable[[], None] = lambda: None
        """Called when the disk has to be looked at sooner than was said."""

    @property
    def is_full(self) -> bool:
        """Whether what is not needed has to go at once."""
        return self.watch.state is DiskState.FULL

    @property
    def next_due_ms(self) -> int:
        """When to look again, by the steady clock."""
        return self.watch.next_look_ms

    def look(self, *, flushing_since_ms: int | None = None) -> None:
        """Look at the disk, and give up or take the reserve."""
        now_ms = self._steady_ms()
        try:
            space = self._disk.space(self._data_dir)
        except OSError as error:
            _log.warning("%s cannot be looked at: %s", self._data_dir, error)
            self.watch.next_look_ms = now_ms + LOOK_WITH_ROOM_MS
            return
        if self.watch.looked(space, now_ms, flushing_since_ms=flushing_since_ms):
            self._say()
        wants = self.watch.wants_reserve(has_reserve=self._has_reserve)
        if wants is not self._has_reserve:
            self._has_reserve = self._take() if wants else self._give_up()

    def refused(self, error: OSError) -> None:
        """Take note that a log was refused a write."""
        if self.watch.refused(error, self._steady_ms()):
            self._say()
            self.on_due()

    def _say(self) -> None:
        state, space = self.watch.state, self.watch.space
        if self.watch.refusal:
            _log.error("%s is %s; clients have to wait: %s", self._data_dir, state, self.watch.refusal)
        elif space is not None:
            level = logging.WARNING if state is DiskState.LOW else logging.INFO
            _log.log(level, "%s: %s of %s bytes are free", self._data_dir, space.free_bytes, space.total_bytes)

    def _take(self) -> bool:
        try:
            self._disk.allocate(self._path, self.watch.reserve_bytes)
        except OSError as error:
            if self._last_problem != str(error):
                self._last_problem = str(error)
                _log.warning("the reserve cannot be made: %s", error)
            return False
        return True

    def _give_up(self) -> bool:
        try:
            self._disk.remove(self._path)
        except OSError as error:
            _log.warning("the reserve cannot be given up: %s", error)
            return True
        _log.info("gave up the reserve, %s: metadata and the logs' own files have its room", self._path)
        return False

    def describe(self) -> dict[str, Any]:
        """What a status shows of the disk."""
        space = self.watch.space
        return {
            "path": self._data_dir,
            "state": str(self.watch.state),
            "free_bytes": None if space is None else space.free_bytes,
            "total_bytes": None if space is None else space.total_bytes,
            "has_reserve": self._has_reserve,
            "refusal": self.watch.refusal,
        }
