"""The checkpoint of a log: its start offset, high watermark, recovery point and clean shutdown, in one small file."""

from __future__ import annotations

import contextlib
from contextlib import suppress

import msgspec

from eagleray.broker.checked_file import FileDamaged, decode_checked, encode_checked
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.generations import read_generations, write_generation
from eagleray.broker.log import names
from eagleray.broker.log.bookmark import try_to_remove_bookmark
from eagleray.broker.log.errors import LogDamaged

_VERSION = 2


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a partition's directory says about itself.

    Kafka keeps these in files that all partitions of a disk share. Here several actors own partitions of one disk, and
    two writers cannot share a file, so each partition has its own, in two generations. The first line is a checksum,
    because a single wrong digit could make a whole log pass for deleted. Version 1 had one generation, and neither the
    topic's id nor the epochs.
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
    """Everything that was acknowledged had been flushed before, and will be until another checkpoint says otherwise."""

    may_have_gaps: bool = True
    """Whether offsets may be missing between batches, because the log was compacted here or by a leader. Otherwise a
    gap is damage. Unknown of a log that an earlier release has written."""

    sequence: int = 0
    """The number of the generation."""

    topic_id: str = ""
    """The id of the topic, in hexadecimal digits: the second copy of what `partition.metadata` says."""

    partition: int = -1
    """The number of the partition, by which directories of one topic that were swapped are told apart."""

    epochs: tuple[tuple[int, int], ...] = ()
    """The leader epochs and where each begins, as far as they were known when this was written: the second copy of
    `leader-epoch-checkpoint`."""

    @property
    def survives_loss_of_power(self) -> bool:
        """Whether everything that was acknowledged is there after a boot, if the disk has kept what was flushed."""
        return (self.closed_cleanly or self.flushes_first) and not self.failed_flush_boot_id

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return encode_checked(self)

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint | None:
        """Read the file; None where it is damaged. LogDamaged where a later release has written it."""
        try:
            checkpoint = decode_checked(data, cls)
        except FileDamaged:
            return None
        if checkpoint.version > _VERSION:
            raise LogDamaged(
                f"the checkpoint has version {checkpoint.version}, and this release knows {_VERSION} at most: "
                "open the log with the release that has written it, or with a later one"
            )
        return checkpoint


class ReadCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint of a directory, and how far it can be believed."""

    checkpoint: Checkpoint
    is_newest: bool = True
    """Whether no other can have been newer: one that cannot be read may have said that less is certain."""


def read_checkpoint(file_system: FileSystem, directory: str) -> ReadCheckpoint:
    """Return the newest valid checkpoint of a directory.

    A directory without batches needs none. LogDamaged where there should be one, and none can be read.
    """
    found = read_generations(file_system, _path(directory), Checkpoint.decode)
    if found.newest is not None and not found.damaged:
        return ReadCheckpoint(found.newest)
    if found.newest is not None:
        return ReadCheckpoint(_as_far_as_certain(found.newest), is_newest=False)
    if found.damaged or _has_batches(file_system, directory):
        raise LogDamaged(f"{directory}: no checkpoint can be read ({found.damaged} damaged)")
    return ReadCheckpoint(Checkpoint(may_have_gaps=False))


def _as_far_as_certain(checkpoint: Checkpoint) -> Checkpoint:
    """What still holds of a checkpoint after which another was written: that so much was flushed and replicated."""
    return msgspec.structs.replace(
        checkpoint, boot_id="", closed_cleanly=False, flushes_first=False, may_have_gaps=True
    )


def _has_batches(file_system: FileSystem, directory: str) -> bool:
    if not file_system.exists(directory):
        return False
    logs = (name for name in file_system.list_directory(directory) if name.endswith(names.LOG_SUFFIX))
    return any(_size_of(file_system, f"{directory}/{name}") for name in logs)


def _size_of(file_system: FileSystem, path: str) -> int:
    with contextlib.closing(file_system.open(path)) as file:
        return file.size()


def write_checkpoint(file_system: FileSystem, directory: str, checkpoint: Checkpoint) -> Checkpoint:
    """Write the next generation, and return it."""
    written = msgspec.structs.replace(checkpoint, version=_VERSION, sequence=checkpoint.sequence + 1)
    write_generation(file_system, _path(directory), written.sequence, written.encode())
    return written


def note_failed_flush(file_system: FileSystem, directory: str) -> None:
    """Make the next opening distrust the page cache, if the disk that failed to flush can still write a note of it."""
    try_to_remove_bookmark(file_system, directory)
    with suppress(OSError, LogDamaged):
        checkpoint = read_checkpoint(file_system, directory).checkpoint
        noted = msgspec.structs.replace(checkpoint, failed_flush_boot_id=file_system.boot_id())
        write_checkpoint(file_system, directory, noted)


def _path(directory: str) -> str:
    return f"{directory}/{names.CHECKPOINT_FILE}"
