"""Reading the files that the nodes of a data directory keep about themselves."""

from __future__ import annotations

from collections.abc import Iterator

from eagleray.actors.process.incarnations import IncarnationRecord
from eagleray.actors.process.node_clock import CLOCK_SUFFIX
from eagleray.actors.storage.data_directory import (
    IDENTITY_SUFFIX,
    INCARNATIONS_SUFFIX,
    POSITION_SUFFIX,
    NotedPosition,
)
from eagleray.actors.storage.disk_guard import RESERVE_SUFFIX
from eagleray.broker.checked_file import FileDamaged, decode_checked
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.generations import SECOND_SUFFIX
from eagleray.broker.metadata.directory_identity import (
    DirectoryIdentity,
    DirectoryRefused,
    common_cluster_id,
    read_identity,
)
from eagleray.broker.metadata.kept_image import SUFFIX as IMAGE_SUFFIX
from eagleray.broker.metadata.kept_image import KeptImage
from eagleray.broker.runtime.clock_watch import ClockNote
from eagleray.offline.findings import Finding, Severity, or_unreadable
from eagleray.offline.layout import NODES

_KNOWN = (".lock", ".port", ".listeners", RESERVE_SUFFIX)


def check_node_files(files: FileSystem, data_dir: str) -> tuple[list[DirectoryIdentity], list[Finding]]:
    """Return the nodes whose data directory this is, and what is wrong with what they say of themselves."""
    folder = f"{data_dir}/{NODES}"
    identities: list[DirectoryIdentity] = []
    found: list[Finding] = []
    for name in files.list_directory(folder) if files.exists(folder) else ():
        path = f"{folder}/{name}"
        found += or_unreadable(path, _check_file(files, path, name, identities))
    try:
        common_cluster_id(identities, data_dir)
    except DirectoryRefused as error:
        found.append(_damage(folder, str(error)))
    return identities, found


def _check_file(files: FileSystem, path: str, name: str, identities: list[DirectoryIdentity]) -> Iterator[Finding]:
    bare = name.removesuffix(SECOND_SUFFIX)
    if bare.endswith(IDENTITY_SUFFIX):
        yield from _check_identity(files.read_bytes(path), path, bare.removesuffix(IDENTITY_SUFFIX), identities)
    elif bare.endswith(IMAGE_SUFFIX):
        yield from _check_image(files.read_bytes(path), path)
    elif name.endswith((INCARNATIONS_SUFFIX, INCARNATIONS_SUFFIX + SECOND_SUFFIX)):
        yield from _check_incarnations(files.read_bytes(path), path)
    elif name.endswith(POSITION_SUFFIX):
        yield from _check_position(files.read_bytes(path), path)
    elif name.endswith(CLOCK_SUFFIX):
        yield from _check_clock(files.read_bytes(path), path)
    elif not name.endswith(_KNOWN):
        yield _notice(path, "this release does not know the file; it is left alone")


def _check_identity(data: bytes, path: str, node_id: str, identities: list[DirectoryIdentity]) -> Iterator[Finding]:
    if not node_id.isdecimal():
        yield _damage(path, "the file is named after no node; nodes do not start with it: move it away")
        return
    try:
        identity = read_identity(data, path, int(node_id))
    except DirectoryRefused as error:
        yield _damage(path, str(error))
        return
    # The other generation says the same.
    if all(each.node_id != identity.node_id for each in identities):
        identities.append(identity)


def _check_image(data: bytes, path: str) -> Iterator[Finding]:
    try:
        is_damaged = KeptImage.decode(data) is None
    except DirectoryRefused as error:
        yield _damage(path, str(error))
        return
    if is_damaged:
        yield _damage(
            path,
            "the metadata that the node has kept cannot be read. The other file of the two counts, whose name ends in "
            f"{SECOND_SUFFIX} or does not, and the node writes this one anew when its metadata change",
        )


def _check_clock(data: bytes, path: str) -> Iterator[Finding]:
    try:
        decode_checked(data, ClockNote)
    except FileDamaged as error:
        yield _damage(
            path,
            f"{error}. It says how the node's wall clock was; the node goes on without it, and writes it anew, but "
            "does not know whether the clock has jumped meanwhile",
        )


def _check_incarnations(data: bytes, path: str) -> Iterator[Finding]:
    if IncarnationRecord.decode(data) is None:
        yield _damage(
            path,
            "what the node has noted of its incarnations cannot be read. It reports everything as lost when it starts "
            "next, so that replicas in sync elsewhere take over, and writes the file anew",
        )


def _check_position(data: bytes, path: str) -> Iterator[Finding]:
    try:
        decode_checked(data, NotedPosition)
    except FileDamaged as error:
        yield _damage(
            path,
            f"how much metadata the node had cannot be read ({error}). It goes by the image that it has kept; where "
            "there is none either, it does not start: restore one of the files from a copy",
        )


def _damage(path: str, what: str) -> Finding:
    return Finding(severity=Severity.DAMAGE, path=path, what=what)


def _notice(path: str, what: str) -> Finding:
    return Finding(severity=Severity.NOTICE, path=path, what=what)
