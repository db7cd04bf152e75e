"""Repairing one partition: what can be made again is, and what is lost goes only where a person accepts that.

Nothing is removed: each file that is replaced is kept beside it, under a name that ends in `.damaged`, and what a
person gives up is kept by the node that cuts it. A log itself is changed by the node alone, by its own rules;
`accept-loss` is how a person tells it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from eagleray.broker.filesystem import FileSystem, LocalFileSystem, write_atomically
from eagleray.broker.log import LogError, PartitionLog, Surroundings, names
from eagleray.broker.log.accepted_loss import accept_loss, accepted_offset, is_checkpoint_given_up
from eagleray.broker.log.checkpoint import read_checkpoint
from eagleray.broker.log.errors import LossNotAccepted
from eagleray.broker.log.settling import ALONE
from eagleray.broker.metadata.directories import partition_of
from eagleray.offline.findings import Finding, Severity
from eagleray.offline.layout import LOGS, find_partition, lock_partition
from eagleray.offline.metadata import KnownMetadata, read_metadata
from eagleray.offline.node_files_check import check_node_files
from eagleray.offline.overlay import Overlay
from eagleray.offline.partition_check import check_partition
from eagleray.offline.partition_opening import config_of, now_ms, opened

_SIDE_SUFFIX = ".damaged"


class Loss(msgspec.Struct, frozen=True):
    """What would be lost if a person accepted that."""

    offset: int | None
    """Everything from here on; None where it is what the checkpoint said."""

    end_offset: int
    """Where the log would end."""

    known_end_offset: int
    """Up to where it is known to have gone, where that is further."""

    cut_bytes: int
    kept_files: tuple[str, ...]
    is_accepted: bool
    """Whether a person has accepted it before, and the node has not acted on it yet."""


class Plan(msgspec.Struct, kw_only=True):
    """What there is to repair in one partition."""

    data_dir: str
    partition: str
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    """Of the topic, as far as they are known."""

    derived: list[Finding] = msgspec.field(default_factory=list)
    """What is made again from the batches."""

    loss: Loss | None = None
    """What only a person can decide."""

    others: list[Finding] = msgspec.field(default_factory=list)
    """What is wrong, and not for this command to mend; each says what helps."""

    @property
    def directory(self) -> str:
        """Where the partition's files are."""
        return f"{self.data_dir}/{LOGS}/{self.partition}"


def plan_repair(path: str, partition: str) -> Plan:
    """Look at a partition, and say what there is to repair. Nothing is changed."""
    data_dir = find_partition(path, partition)
    plan = Plan(data_dir=data_dir, partition=partition)
    known = _metadata(data_dir)
    surroundings = known.surroundings_of(partition_of(partition))
    plan.settings = dict(known.settings_of(partition_of(partition)))
    found = [finding for finding in check_partition(plan.directory, surroundings) if finding.is_problem]
    with opened(plan.directory, surroundings) as opening:
        if isinstance(opening.error, LossNotAccepted):
            plan.loss = _loss(plan.directory, opening.error.offset, surroundings)
        is_cut = opening.log is None or opening.log.recovery.verdict is not None
    derived = [finding for finding in found if finding.severity is Severity.DERIVED]
    plan.others = [finding for finding in found if finding not in derived]
    # A node that cuts a log makes all of it anew by itself.
    plan.derived = [] if is_cut else derived
    return plan


def _metadata(data_dir: str) -> KnownMetadata:
    identities, _ = check_node_files(Overlay(), data_dir)
    return read_metadata(data_dir, [each.node_id for each in identities])[0]


def _loss(directory: str, offset: int | None, surroundings: Surroundings) -> Loss | None:
    """Let the loss be accepted on an overlay, and look at what the opening makes of it."""
    files = Overlay()
    is_accepted = (
        is_checkpoint_given_up(files, directory) if offset is None else accepted_offset(files, directory) == offset
    )
    accept_loss(files, directory, offset)
    try:
        log = PartitionLog.open(
            files, directory, config_of(files, directory), now_ms=now_ms(), surroundings=surroundings
        )
    except LogError:
        return None
    for segment in log.segments:
        segment.close()
    recovery = log.recovery
    return Loss(
        offset,
        log.log_end_offset,
        max(recovery.known_end_offset, log.log_end_offset),
        recovery.cut_bytes,
        recovery.kept_files,
        is_accepted,
    )


def accept(plan: Plan) -> None:
    """Write down that a person accepts the loss of a plan, for the node that opens the log next.

    Raises DirectoryInUse. Nothing else changes.
    """
    assert plan.loss is not None, "there is a loss to accept"
    lock = lock_partition(plan.data_dir, plan.partition)
    try:
        accept_loss(LocalFileSystem(), plan.directory, plan.loss.offset)
    finally:
        lock.release()


def rebuild(plan: Plan) -> list[str]:
    """Make the derived files of a plan again, and return the names under which the damaged ones are kept.

    Raises DirectoryInUse, and LogError where the disk does not let it; what was kept stays then.
    """
    files, directory = LocalFileSystem(), plan.directory
    lock = lock_partition(plan.data_dir, plan.partition)
    try:
        wrong = {finding.path for finding in plan.derived}
        kept = [*_keep_all(files, directory, wrong)]
        for path in wrong:
            if path.endswith((names.SNAPSHOT_SUFFIX, names.BOOKMARK_FILE)):
                files.remove(path)
        _remove_indexes(files, directory, wrong)
        _open_once(files, plan, wrong)
        return kept
    finally:
        lock.release()


def _keep_all(files: FileSystem, directory: str, paths: Iterable[str]) -> Iterator[str]:
    """Copy what is about to be replaced, where it is there."""
    taken = {*files.list_directory(directory)}
    for path in sorted(paths):
        name = path.rpartition("/")[2]
        if name in taken:
            kept, number = name + _SIDE_SUFFIX, 1
            while kept in taken:
                kept, number = f"{name}{_SIDE_SUFFIX}.{number}", number + 1
            taken.add(kept)
            write_atomically(files, f"{directory}/{kept}", files.read_bytes(path))
            yield kept


def _remove_indexes(files: FileSystem, directory: str, wrong: set[str]) -> None:
    """Remove all indexes of each segment that has a wrong one: the opening makes them anew where there are none."""
    for base_offset in {_base_offset(path) for path in wrong if path.endswith(names.INDEX_FILE_SUFFIXES)}:
        for suffix in names.INDEX_FILE_SUFFIXES:
            files.remove(names.segment_file(directory, base_offset, suffix))


def _open_once(files: FileSystem, plan: Plan, wrong: set[str]) -> None:
    """Open the log as a node does that ends right after it, and write what it would write when it closes."""
    directory = plan.directory
    config = config_of(files, directory, plan.settings)
    is_closed = read_checkpoint(files, directory).checkpoint.closed_cleanly
    log = PartitionLog.open(files, directory, config, now_ms=now_ms(), surroundings=ALONE)
    try:
        for path in sorted(wrong):
            if path.endswith(names.SNAPSHOT_SUFFIX):
                write_atomically(files, path, log.producers_before(_base_offset(path)))
        last = names.segment_file(directory, log.active_segment.base_offset, "")
        if is_closed and any(path.startswith(last) and path.endswith(names.INDEX_FILE_SUFFIXES) for path in wrong):
            log.active_segment.write_indexes()
    finally:
        for segment in log.segments:
            segment.close()


def _base_offset(path: str) -> int:
    base_offset = names.base_offset_of(path.rpartition("/")[2])
    assert base_offset is not None, f"{path} is named after an offset"
    return base_offset
