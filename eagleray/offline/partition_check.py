"""Verifying the directory of one partition, by the same code that opens it in a node."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log import LogDamaged, LogError, PartitionLog, Surroundings
from eagleray.broker.log.checkpoint import Checkpoint, read_checkpoint
from eagleray.broker.log.partition_metadata import decode_partition_metadata
from eagleray.broker.log.scrubbing import Scrub
from eagleray.broker.log.settling import ALONE
from eagleray.broker.log.torn_or_rotten import Verdict
from eagleray.offline.findings import Finding, Severity, or_unreadable
from eagleray.offline.overlay import Overlay
from eagleray.offline.partition_opening import Opening, opened
from eagleray.offline.segment_check import check_batches, check_indexes
from eagleray.offline.small_files_check import METADATA_FILE, check_small_files

_STEP_BYTES = 1024 * 1024


def check_partition(directory: str, surroundings: Surroundings = ALONE) -> list[Finding]:
    """Read every file of a partition's directory, and say what is wrong. Nothing is changed."""
    files, name = Overlay(), directory.rpartition("/")[2]
    found = [*check_small_files(files, directory)]
    found += or_unreadable(directory, _check_topic_id(files, directory))
    is_closed, may_have_gaps = _is_closed(files, directory), _may_have_gaps(files, directory)
    found += or_unreadable(directory, check_indexes(files, directory, is_last_closed=is_closed))
    damage = [*or_unreadable(directory, _check_log(directory, surroundings))]
    if any(finding.severity is Severity.DAMAGE for finding in damage):
        damage += or_unreadable(directory, check_batches(Overlay(), directory, may_have_gaps=may_have_gaps))
    found += damage
    return [replace(finding, partition=name) for finding in found]


def _is_closed(files: FileSystem, directory: str) -> bool:
    checkpoint = _checkpoint(files, directory)
    return checkpoint is not None and checkpoint.closed_cleanly


def _may_have_gaps(files: FileSystem, directory: str) -> bool:
    checkpoint = _checkpoint(files, directory)
    return checkpoint is None or checkpoint.may_have_gaps


def _checkpoint(files: FileSystem, directory: str) -> Checkpoint | None:
    try:
        return read_checkpoint(files, directory).checkpoint
    except (LogDamaged, OSError):
        return None


def _check_topic_id(files: FileSystem, directory: str) -> Iterator[Finding]:
    """Compare the two copies of the topic's id."""
    path = f"{directory}/{METADATA_FILE}"
    checkpoint = _checkpoint(files, directory)
    second = "" if checkpoint is None else checkpoint.topic_id
    first = decode_partition_metadata(files.read_bytes(path)) if files.exists(path) else None
    if first is not None and second and first.hex() != second:
        yield Finding(
            severity=Severity.DAMAGE,
            path=path,
            what=f"it names topic id {first.hex()}, and the checkpoint beside it {second}: one of them is wrong",
            help="`eagleray storage strays list` says what is known of the directory",
        )


def _check_log(directory: str, surroundings: Surroundings) -> Iterator[Finding]:
    with opened(directory, surroundings) as opening:
        yield from _check_opening(directory, opening, surroundings)


def _check_opening(directory: str, opening: Opening, surroundings: Surroundings) -> Iterator[Finding]:
    if opening.log is None:
        yield _damage(directory, str(opening.error), _help_of(surroundings))
        return
    recovery = opening.log.recovery
    if recovery.verdict is Verdict.CUT:
        yield Finding(
            severity=Severity.NOTICE,
            path=directory,
            what=f"the last write was torn: the next opening cuts {recovery.cut_bytes} bytes behind offset "
            f"{recovery.log_end_offset}, which were never acknowledged, and keeps them",
        )
    elif recovery.verdict is not None:
        yield _damage(
            directory,
            f"the log is valid up to offset {recovery.log_end_offset}, and was known to go on to "
            f"{recovery.known_end_offset}: what lies behind had not been flushed when the machine went down. The next "
            f"opening cuts {recovery.cut_bytes} bytes, and keeps them ({recovery.verdict})",
            _help_of(surroundings),
        )
    yield from _scrub(directory, opening.log, surroundings)


def _scrub(directory: str, log: PartitionLog, surroundings: Surroundings) -> Iterator[Finding]:
    scrub = Scrub(log, to_the_end=True)
    try:
        while scrub.step(_STEP_BYTES):
            pass
    except LogError as error:
        yield _damage(directory, str(error), _help_of(surroundings))


def _help_of(surroundings: Surroundings) -> str:
    if surroundings.others_in_sync:
        return "other replicas are in sync, by the metadata here: start the node, and it copies the log from them"
    return ""


def _damage(directory: str, what: str, help_text: str) -> Finding:
    return Finding(severity=Severity.DAMAGE, path=directory, what=what, help=help_text)
