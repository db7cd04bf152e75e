"""Reading the small files of a partition's directory for what no batch tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from eagleray.broker.checked_file import FileDamaged, decode_checked
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.generations import SECOND_SUFFIX
from eagleray.broker.log import LogDamaged, names
from eagleray.broker.log.bookmark import read_bookmark
from eagleray.broker.log.checkpoint import Checkpoint
from eagleray.broker.log.epoch_file import read_epochs
from eagleray.broker.log.flushing import RecoveryPoint
from eagleray.broker.log.partition_metadata import decode_partition_metadata
from eagleray.broker.log.producer_snapshot import decode_snapshot
from eagleray.offline.findings import Finding, Severity, or_unreadable

METADATA_FILE = "partition.metadata"
_REBUILT = "it is made anew from the batches when the partition is opened"


def check_small_files(files: FileSystem, directory: str) -> Iterator[Finding]:
    """Yield what is wrong with the small files of a partition, each by itself."""
    found = files.list_directory(directory)
    for name in found:
        check = _CHECKS.get(name) or (_check_snapshot if name.endswith(names.SNAPSHOT_SUFFIX) else _check_leftover)
        yield from or_unreadable(f"{directory}/{name}", check(files, directory, name))
    if METADATA_FILE not in found and found:
        yield _damage(
            directory,
            METADATA_FILE,
            "it is missing: nothing says of which topic these records are, so no node opens them",
            "`eagleray storage strays list` says what is known of them",
        )


def _check_checkpoint(files: FileSystem, directory: str, name: str) -> Iterator[Finding]:
    try:
        checkpoint = Checkpoint.decode(files.read_bytes(f"{directory}/{name}"))
    except LogDamaged as error:
        yield _damage(directory, name, str(error), "")
        return
    if checkpoint is None:
        yield _damage(
            directory,
            name,
            "a generation of the checkpoint cannot be read: where the log starts, and up to where it was replicated "
            "and flushed. Where the other one can, that counts, and the whole log is read when it is opened next",
            "",
        )


def _check_partition_metadata(files: FileSystem, directory: str, name: str) -> Iterator[Finding]:
    if decode_partition_metadata(files.read_bytes(f"{directory}/{name}")) is None:
        yield _damage(
            directory,
            name,
            "it names no topic id that can be read, so no node opens the directory",
            "`eagleray storage strays list` says what is known of it, and `eagleray storage strays adopt` writes the "
            "file anew where that is certain",
        )


def _check_epochs(files: FileSystem, directory: str, name: str) -> Iterator[Finding]:
    if read_epochs(files, directory) is None:
        yield _derived(directory, name, f"the leader epochs are not those that were written; {_REBUILT}")


def _check_bookmark(files: FileSystem, directory: str, name: str) -> Iterator[Finding]:
    if read_bookmark(files, directory) is None:
        yield _derived(directory, name, "the bookmark cannot be read; the last segment is then scanned from its start")


def _check_recovery_point(files: FileSystem, directory: str, name: str) -> Iterator[Finding]:
    try:
        decode_checked(files.read_bytes(f"{directory}/{name}"), RecoveryPoint)
    except FileDamaged as error:
        yield _damage(
            directory,
            name,
            f"up to where the log was flushed since its checkpoint cannot be read ({error}): after another boot of the "
            "machine, the log may be cut behind the checkpoint's recovery point where it is not valid",
            "",
        )


def _check_snapshot(files: FileSystem, directory: str, name: str) -> Iterator[Finding]:
    if decode_snapshot(files.read_bytes(f"{directory}/{name}")) is None:
        yield _derived(
            directory, name, "the producers cannot be read; an older snapshot and the batches behind it serve instead"
        )


def _check_leftover(_: FileSystem, directory: str, name: str) -> Iterator[Finding]:
    rest = name[20:] if names.base_offset_of(name) is not None else ""
    what = help_text = ""
    if name == names.ACCEPT_LOSS_FILE:
        what = "a person has accepted a loss; the node acts on it when it opens the partition next"
    elif rest.startswith(names.TORN_SUFFIX):
        what = "the bytes of a write that was torn off when a process died; none of them was acknowledged"
    elif rest.startswith(names.CUT_SUFFIX):
        what = "batches that were cut off this log, and may have been acknowledged; they are kept, and not served"
        help_text = f"`eagleray storage dump {directory}/{name}` shows them"
    elif rest == names.DELETED_SUFFIX:
        what = (
            "all below the offset in its name was deleted while the disk was full; the next checkpoint takes its place"
        )
    elif name.endswith((names.TEMPORARY_SUFFIX, names.CLEANED_SUFFIX, names.SWAP_SUFFIX)):
        what = "a crash has left it half made; it goes when the partition is opened"
    elif not rest.startswith((names.LOG_SUFFIX, *names.INDEX_FILE_SUFFIXES)) and name not in _OTHERS:
        what = "this release does not know the file; it is left alone"
    if what:
        yield Finding(severity=Severity.NOTICE, path=f"{directory}/{name}", what=what, help=help_text)


_OTHERS = frozenset({names.EPOCH_CHECKSUM_FILE, "quorum-state", "quorum-state" + SECOND_SUFFIX})
_CHECKS: dict[str, Callable[[FileSystem, str, str], Iterator[Finding]]] = {
    names.CHECKPOINT_FILE: _check_checkpoint,
    names.CHECKPOINT_FILE + SECOND_SUFFIX: _check_checkpoint,
    METADATA_FILE: _check_partition_metadata,
    names.LEADER_EPOCH_FILE: _check_epochs,
    names.BOOKMARK_FILE: _check_bookmark,
    names.RECOVERY_POINT_FILE: _check_recovery_point,
}


def _damage(directory: str, name: str, what: str, help_text: str) -> Finding:
    return Finding(severity=Severity.DAMAGE, path=f"{directory}/{name}", what=what, help=help_text)


def _derived(directory: str, name: str, what: str) -> Finding:
    return Finding(severity=Severity.DERIVED, path=f"{directory}/{name}", what=what, help=repair_command(directory))


def repair_command(directory: str) -> str:
    """The command that makes anew what can be made anew."""
    data_dir, _, name = directory.rpartition("/")
    return f"`eagleray storage repair {data_dir.rpartition('/')[0]} --partition {name}` makes it anew"
