"""The leader epoch checkpoint, which is Kafka's file, and a second file with its checksum.

By the epochs replicas find up to where they agree, and truncate what lies behind. Kafka's format has no checksum, and a
wrong digit mostly gives another valid file. So `leader-epoch-checkpoint.checksum` says what the file may hold: while a
new one is written, the old or the new. Anything else is damage, and the epochs are read from the batches instead.
"""

from __future__ import annotations

from crc32c import crc32c

from eagleray.broker.filesystem import FileSystem, replace_file, write_atomically
from eagleray.broker.log import names
from eagleray.broker.log.leader_epochs import LeaderEpochs

_CHECKSUM = b"crc32c %08x\n"


def read_epochs(file_system: FileSystem, directory: str) -> LeaderEpochs | None:
    """Return the epochs of a directory; None where the file is missing, or holds what was never written there."""
    data = _read(file_system, f"{directory}/{names.LEADER_EPOCH_FILE}")
    if data is None or not _may_be(data, _read(file_system, f"{directory}/{names.EPOCH_CHECKSUM_FILE}")):
        return None
    return LeaderEpochs.decode(data)


def write_epochs(file_system: FileSystem, directory: str, epochs: LeaderEpochs) -> None:
    """Replace the epochs, if they have changed, on stable storage.

    The checksum is not flushed: a loss of power that takes it costs a scan of the batches.
    """
    if not epochs.is_dirty:
        return
    path, checksum_path = f"{directory}/{names.LEADER_EPOCH_FILE}", f"{directory}/{names.EPOCH_CHECKSUM_FILE}"
    old, new = _read(file_system, path), epochs.encode()
    is_old_sound = old is not None and _may_be(old, _read(file_system, checksum_path))
    possible = [old, new] if old is not None and is_old_sound else [new]
    replace_file(file_system, checksum_path, b"".join(_CHECKSUM % crc32c(data) for data in possible))
    write_atomically(file_system, path, new)
    epochs.is_dirty = False


def _may_be(data: bytes, checksums: bytes | None) -> bool:
    """Whether a file is one that was written; one without checksums, as of Kafka, is accepted as it is."""
    return checksums is None or (_CHECKSUM % crc32c(data)) in checksums.splitlines(keepends=True)


def _read(file_system: FileSystem, path: str) -> bytes | None:
    try:
        return file_system.read_bytes(path)
    except FileNotFoundError:
        return None
