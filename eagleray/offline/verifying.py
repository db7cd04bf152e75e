"""Verifying a whole data directory: every file of its nodes, its partitions and its metadata."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from eagleray.actors.storage.put_aside import FOLDER as PUT_ASIDE
from eagleray.broker.log.names import DELETE_SUFFIX
from eagleray.broker.metadata.directories import partition_of
from eagleray.broker.metadata.topics import INTERNAL_TOPICS
from eagleray.offline.findings import Finding, Severity, has_problems
from eagleray.offline.layout import (
    LOGS,
    METADATA_DIRECTORY,
    data_directories,
    find_partition,
    is_open_in_a_node,
    partition_directories,
)
from eagleray.offline.metadata import KnownMetadata, read_metadata
from eagleray.offline.node_files_check import check_node_files
from eagleray.offline.overlay import Overlay
from eagleray.offline.partition_check import check_partition
from eagleray.offline.small_files_check import METADATA_FILE
from eagleray.offline.strays import strays_among


class Verified(msgspec.Struct, kw_only=True):
    """What the look at one data directory has come to."""

    data_dir: str
    cluster_id: str = ""
    node_ids: tuple[int, ...] = ()
    partitions: list[str] = msgspec.field(default_factory=list)
    """Those that were read."""

    in_use: list[str] = msgspec.field(default_factory=list)
    """Those that a running node has open, which were not."""

    findings: list[Finding] = msgspec.field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether everything was read, and nothing is wrong."""
        return not self.in_use and not has_problems(self.findings)


def verify(path: str, partition: str = "") -> list[Verified]:
    """Read every file of the data directories at a path, or of one partition. Nothing is changed."""
    if partition:
        return [_verify_partition(find_partition(path, partition), partition)]
    return [_verify_directory(each) for each in data_directories(path)]


def _begin(data_dir: str) -> tuple[Verified, KnownMetadata]:
    identities, found = check_node_files(Overlay(), data_dir)
    node_ids = tuple(sorted(each.node_id for each in identities))
    known, about_metadata = read_metadata(data_dir, node_ids)
    if not is_open_in_a_node(data_dir, METADATA_DIRECTORY):
        found += about_metadata
    cluster_id = next((each.cluster_id for each in identities if each.cluster_id), "")
    return Verified(data_dir=data_dir, cluster_id=cluster_id, node_ids=node_ids, findings=found), known


def _verify_partition(data_dir: str, name: str) -> Verified:
    verified, known = _begin(data_dir)
    verified.findings = [finding for finding in verified.findings if finding.partition == name]
    _look_at(verified, name, known)
    return verified


def _verify_directory(data_dir: str) -> Verified:
    verified, known = _begin(data_dir)
    names = partition_directories(data_dir)
    for name in names:
        if name.endswith(DELETE_SUFFIX):
            verified.findings.append(
                _notice(f"{data_dir}/{LOGS}/{name}", "it was put aside, and is removed by the node after a while")
            )
        elif partition_of(name) is not None:
            _look_at(verified, name, known)
    said = {finding.partition for finding in verified.findings if finding.path.endswith(METADATA_FILE)}
    verified.findings += (finding for finding in _strays(data_dir, known) if finding.partition not in said)
    verified.findings += _put_aside(data_dir)
    verified.findings += _missing(data_dir, names, known)
    return verified


def _look_at(verified: Verified, name: str, known: KnownMetadata) -> None:
    if is_open_in_a_node(verified.data_dir, name):
        verified.in_use.append(name)
        return
    verified.partitions.append(name)
    directory = f"{verified.data_dir}/{LOGS}/{name}"
    verified.findings += check_partition(directory, known.surroundings_of(partition_of(name)))


def _strays(data_dir: str, known: KnownMetadata) -> Iterator[Finding]:
    for stray in strays_among(data_dir, known):
        yield Finding(
            severity=Severity.DAMAGE,
            path=f"{data_dir}/{LOGS}/{stray.name}",
            partition=stray.name,
            what=f"a stray, which is neither served nor removed: {stray.why}",
            help=f"`eagleray storage strays list {data_dir}` says what is known of it",
        )


def _put_aside(data_dir: str) -> Iterator[Finding]:
    files, folder = Overlay(), f"{data_dir}/{PUT_ASIDE}"
    for name in files.list_directory(folder) if files.exists(folder) else ():
        what = "a damaged log, kept until its replica was copied anew and is in sync"
        yield _notice(f"{folder}/{name}", what)


def _missing(data_dir: str, names: list[str], known: KnownMetadata) -> Iterator[Finding]:
    """Replicas that others count on, by the metadata, and that have no files."""
    image = known.image
    if image is None:
        return
    for node_id in sorted(known.node_ids):
        for partition in image.kept_by(node_id):
            state = image.find(partition)
            is_counted_on = state is not None and node_id in state.isr
            # Those of internal topics have no files before they are used.
            if is_counted_on and str(partition) not in names and partition.topic not in INTERNAL_TOPICS:
                yield Finding(
                    severity=Severity.DAMAGE,
                    path=f"{data_dir}/{LOGS}/{partition}",
                    partition=str(partition),
                    what=f"it is missing: by the metadata, node {node_id} has this replica in sync",
                    help=f"`eagleray topic describe {partition.topic}` shows whether other replicas are in sync, from "
                    "which it is copied anew; otherwise bring a copy of the directory back",
                )


def _notice(path: str, what: str) -> Finding:
    return Finding(severity=Severity.NOTICE, path=path, what=what)
