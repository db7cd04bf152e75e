"""What a node would do if it opened a partition's directory now, found without doing it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Final

import msgspec

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log import Flush, LogConfig, LogDamaged, LogError, PartitionLog, Surroundings
from eagleray.broker.log.checkpoint import read_checkpoint
from eagleray.broker.log.config import CONFIG_KEYS
from eagleray.broker.log.settling import ALONE
from eagleray.offline.overlay import Overlay

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class Opening(msgspec.Struct, frozen=True):
    """How the opening of a log has ended."""

    files: Overlay
    """The disk as the opening would leave it."""

    log: PartitionLog | None
    error: LogError | None = None
    """Why there is no log."""


@contextmanager
def opened(directory: str, surroundings: Surroundings = ALONE) -> Iterator[Opening]:
    """Open a log as a node does, on an overlay of its disk: no file changes."""
    files = Overlay()
    try:
        log = PartitionLog.open(
            files, directory, config_of(files, directory), now_ms=now_ms(), surroundings=surroundings
        )
    except LogError as error:
        yield Opening(files, None, error)
        return
    try:
        yield Opening(files, log)
    finally:
        for segment in log.segments:
            segment.close()


def config_of(files: FileSystem, directory: str, settings: Mapping[str, str] = NO_SETTINGS) -> LogConfig:
    """Return the settings with which a log is opened: those of its topic, as far as they are known."""
    config = LogConfig.parse({key: value for key, value in settings.items() if key in CONFIG_KEYS})
    with suppress(LogDamaged, OSError):
        if read_checkpoint(files, directory).checkpoint.flushes_first:
            return msgspec.structs.replace(config, flush=Flush.COMMIT)
    return config


def now_ms() -> int:
    """The time of day."""
    return time.time_ns() // 1_000_000
