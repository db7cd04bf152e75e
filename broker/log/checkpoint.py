"""The few facts about a log that its segments do not tell, in one small file."""

from __future__ import annotations

from contextlib import suppress

import msgspec
from crc32c import crc32c

from eagleray.broker.filesystem import FileSystem, write_atomically
from eagleray.broker.log import names
from eagleray.broker.log.bookmark import try_to_remove_bookmark

_VERSION = 1
_CHECKSUM = b"crc32c %08x\n"


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a partition's directory says about itself.

    Kafka keeps these in files that all partitions of a disk share. Here several actors own partitions of one disk,
    and two writers cannot share a file, so each partition has its own. A checksum stands on its first line, because
    a single wrong digit could let a whole log be taken for deleted.
    """

    version: int = _VERSION
    log_start_offset: int = 0
    """Records below were deleted on request, even where their segment is still there."""

    high_watermark: int = 0
    """A lower bound: what had been replicated when the file was written."""

    recovery_point: int = 0
    """Everything below is on stable storage: even after a loss of power only what lies behind needs checking."""

    cleaned_up_to: int = 0
    """Compaction has been over everything below."""

    boot_id: str = ""
    """The boot in which the log was last open. The same boot still has every byte that was written, flushed or not."""

    closed_cleanly: bool = False
    """The indexes and the newest snapshot were complete when the log was closed, and the recovery point was its end."""

    failed_flush_boot_id: str = ""
    """A boot in which a flush failed. What lies behind the recovery point is then perhaps only in its page cache, and
    as long as it lasts no flush writes it any more: it has to be written again."""

    flushes_first: bool = False
    """Everything that was acknowledged was flushed before, and will be until another checkpoint says otherwise."""

    @property
    def survives_loss_of_power(self) -> bool:
        """Whether everything that was acknowledged is there after a boot, if the disk has kept what it was given."""
        return (self.closed_cleanly or self.flushes_first) and not self.failed_flush_boot_id

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"
        return _CHECKSUM % crc32c(text) + text

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint | None:
        """Read the file; None where it is damaged or of another version."""
        checksum, text = data[: len(_CHECKSUM % 0)], data[len(_CHECKSUM % 0) :]
        if checksum != _CHECKSUM % crc32c(text):
            return None
        try:
            checkpoint = msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return checkpoint if checkpoint.version == _VERSION else None


def read_checkpoint(file_system: FileSystem, directory: str) -> Checkpoint:
    """Return what the directory says; one that promises nothing where the file is missing or damaged."""
    path = _path(directory)
    data = file_system.read_bytes(path) if file_system.exists(path) else b""
    return Checkpoint.decode(data) or Checkpoint()


def write_checkpoint(file_system: FileSystem, directory: str, checkpoint: Checkpoint) -> None:
    """Replace what the directory says."""
    write_atomically(file_system, _path(directory), checkpoint.encode())


def note_failed_flush(file_system: FileSystem, directory: str) -> None:
    """Have the next opening distrust the page cache, if the disk that failed to flush still takes a note of it."""
    try_to_remove_bookmark(file_system, directory)
    with suppress(OSError):
        checkpoint = read_checkpoint(file_system, directory)
        noted = msgspec.structs.replace(checkpoint, failed_flush_boot_id=file_system.boot_id())
        write_checkpoint(file_system, directory, noted)


def _path(directory: str) -> str:
    return f"{directory}/{names.CHECKPOINT_FILE}"
