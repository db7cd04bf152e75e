"""Flushing a log beside its work: what was appended by then is put on stable storage in another thread.

The thread has its own handles of the segments' files, so that the log may go on, be cut or be closed meanwhile. What it
has flushed is written to `recovery-point`, which refers to a generation of the checkpoint: another generation may have
cut the log, and then it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from eagleray.broker.checked_file import FileDamaged, decode_checked
from eagleray.broker.filesystem import File, FileSystem, FlushFailed, write_atomically
from eagleray.broker.generations import summed
from eagleray.broker.log import names
from eagleray.broker.log.checkpoint import Checkpoint

_VERSION = 1


class RecoveryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far a log was flushed since a generation of its checkpoint was written."""

    version: int = _VERSION
    sequence: int
    """Of the checkpoint."""

    topic_id: str
    recovery_point: int


class BackgroundFlush:
    """One flush of a log, from `begin_flush` to `finish_flush`.

    Owns: handles of the files that it flushes. `run` may be called in any thread, once.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        files: Sequence[File],
        checkpoint: Checkpoint,
        *,
        end_offset: int,
        new_names: int,
        rewinds: int,
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._files = files
        self._checkpoint = checkpoint
        self.end_offset = end_offset
        self.new_names = new_names
        self.rewinds = rewinds

    def run(self) -> FlushFailed | None:
        """Flush; return why that failed, and nothing may be taken for flushed."""
        try:
            for file in self._files:
                file.flush()
            if self.new_names:
                self._file_system.flush_directory(self._directory)
        except OSError as error:
            return FlushFailed(*error.args)
        finally:
            for file in self._files:
                with suppress(OSError):
                    file.close()
        # Where it cannot be written, the next opening reads more.
        with suppress(OSError):
            self._note()
        return None

    def _note(self) -> None:
        checkpoint = self._checkpoint
        noted = RecoveryPoint(
            sequence=checkpoint.sequence, topic_id=checkpoint.topic_id, recovery_point=self.end_offset
        )
        write_atomically(self._file_system, _path(self._directory), summed(msgspec.json.encode(noted) + b"\n"))


def with_recovery_point(file_system: FileSystem, directory: str, checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint with what was flushed after it was written."""
    path = _path(directory)
    if not file_system.exists(path):
        return checkpoint
    try:
        noted = decode_checked(file_system.read_bytes(path), RecoveryPoint)
    except FileDamaged:
        return checkpoint
    is_of_this = (noted.version, noted.sequence, noted.topic_id) == (_VERSION, checkpoint.sequence, checkpoint.topic_id)
    if not is_of_this or noted.recovery_point <= checkpoint.recovery_point:
        return checkpoint
    return msgspec.structs.replace(checkpoint, recovery_point=noted.recovery_point)


def _path(directory: str) -> str:
    return f"{directory}/{names.RECOVERY_POINT_FILE}"
