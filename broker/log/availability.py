"""Whether a log may be used, and what becomes of it when its disk fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eagleray.broker.filesystem import FileSystem, FlushFailed
from eagleray.broker.log.bookmark import try_to_remove_bookmark
from eagleray.broker.log.checkpoint import note_failed_flush
from eagleray.broker.log.errors import LogOffline, LogReadFailed, LogWriteFailed
from eagleray.protocol.errors import ProtocolError


class Availability:
    """Online until the log is closed or its disk fails in the middle of a change; then offline for good.

    Opening the log anew finishes what was begun, and handles a flush that failed.
    """

    __slots__ = ("_close_files", "_directory", "_file_system", "is_online")

    def __init__(self, file_system: FileSystem, directory: str, close_files: Callable[[], None]) -> None:
        self._file_system = file_system
        self._directory = directory
        self._close_files = close_files
        self.is_online = True

    def require(self) -> None:
        """Raise LogOffline unless the log may be used."""
        if not self.is_online:
            raise LogOffline(f"{self._directory}: the log is closed or failed; open it anew")

    def end(self) -> None:
        """Go offline and give the files back."""
        self.is_online = False
        self._close_files()

    @contextmanager
    def or_offline(self, doing: str) -> Iterator[None]:
        """Make a change that cannot be left half done: where the disk fails, the log goes offline."""
        try:
            yield
        except OSError as error:
            self.end()
            # The cause may be an index that is not on the disk as it should be, and only the whole segment tells.
            try_to_remove_bookmark(self._file_system, self._directory)
            if isinstance(error, FlushFailed):
                note_failed_flush(self._file_system, self._directory)
            raise LogOffline(f"{self._directory}: {doing} failed, open the log anew: {error}") from error

    @contextmanager
    def writing(self, otherwise: str) -> Iterator[None]:
        """Write something that the log is sound without: where that fails, it can be tried again."""
        self.require()
        try:
            yield
        except OSError as error:
            raise LogWriteFailed(f"{self._directory}: {otherwise}: {error}") from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Do something that only reads: where it fails, nothing has changed."""
        self.require()
        try:
            yield
        except (OSError, ProtocolError) as error:
            raise LogReadFailed(f"{self._directory}: reading failed: {error}") from error
