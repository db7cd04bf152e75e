"""The data directory of a node: whose it is, and what was formatted when the cluster was created."""

from __future__ import annotations

import logging
from typing import Final

import msgspec
from msgspec.structs import astuple, replace

from eagleray.broker.checked_file import FileDamaged, decode_checked, encode_checked
from eagleray.broker.filesystem import FileSystem, replace_file
from eagleray.broker.generations import SECOND_SUFFIX, unsummed, write_generation
from eagleray.broker.metadata.directory_identity import (
    DirectoryIdentity,
    DirectoryRefused,
    check_cluster,
    common_cluster_id,
    newest_identity,
)
from eagleray.broker.metadata.kept_image import kept_image_path, read_kept_image
from eagleray.broker.metadata.positions import NO_POSITION, MetadataPosition

_log = logging.getLogger(__name__)

IDENTITY_SUFFIX: Final = ".identity"
INCARNATIONS_SUFFIX: Final = ".life"
POSITION_SUFFIX: Final = ".position"
_BOTH: Final = range(2)
_MARKS: Final = (IDENTITY_SUFFIX, IDENTITY_SUFFIX + SECOND_SUFFIX, INCARNATIONS_SUFFIX)


class NotedPosition(msgspec.Struct, frozen=True):
    """How much metadata a node had, as it has written it down."""

    cluster_id: str
    term: int
    version: int


class DataDirectory:
    """What a data directory says of itself to one of its nodes, which share it with the others of their machine.

    Owns: the node's identity file, and the one with the newest metadata that it has had. Persists: the cluster, once
    the node has registered, and whether a metadata log has begun here, twice, so that one file may be damaged. A
    directory without the file is one of an earlier version, or has lost its files: it gets the file, and no metadata
    log begins in it. Each write replaces a whole file, so a crash leaves what was there before or after.
    On failure: DirectoryRefused, and nothing was changed.
    """

    def __init__(self, disk: FileSystem, data_dir: str, node_id: int) -> None:
        self._disk = disk
        self._data_dir = data_dir
        self._node_id = node_id
        known = {each.node_id: each for each in identities_in(disk, data_dir)}
        cluster_id = common_cluster_id(known.values(), data_dir)
        self._position_path = _position_path(data_dir, node_id)
        self._position, self.image_sequence = read_position(disk, data_dir, node_id)
        own = known.get(node_id)
        if own is None or (cluster_id and not own.cluster_id) or not self._is_written_twice():
            own = replace(own or DirectoryIdentity(node_id=node_id), cluster_id=cluster_id)
            self._write(own)
        self._identity = own

    @property
    def cluster_id(self) -> str:
        """The cluster that the directory belongs to; empty where no node of it has registered yet."""
        return self._identity.cluster_id

    @property
    def may_begin_metadata(self) -> bool:
        """Whether a voter may begin here with an empty metadata log."""
        return self._identity.may_begin_metadata

    def metadata_has_begun(self) -> None:
        """Note that there is a metadata log, which is never again begun with an empty one."""
        if self._identity.may_begin_metadata:
            self._write(replace(self._identity, may_begin_metadata=False))

    @property
    def position(self) -> MetadataPosition:
        """The newest metadata that the node is known to have had."""
        return self._position

    def note_position(self, position: MetadataPosition) -> None:
        """Note how much the node knows. Nothing is flushed: after a loss of power it is what its kept image knew."""
        if position != self._position:
            self._position = position
            replace_file(self._disk, self._position_path, encode_checked(NotedPosition(*astuple(position))))

    def belong_to(self, cluster_id: str) -> None:
        """Note the cluster that the node has registered with; DirectoryRefused where the directory is of another."""
        check_cluster(self.cluster_id, cluster_id, self._data_dir)
        if cluster_id and not self.cluster_id:
            self._write(replace(self._identity, cluster_id=cluster_id))

    def _is_written_twice(self) -> bool:
        path = identity_path(self._data_dir, self._node_id)
        found = [self._disk.read_bytes(each) for each in (path, path + SECOND_SUFFIX) if self._disk.exists(each)]
        return sum(unsummed(data) is not None for data in found) == len(_BOTH)

    def _write(self, identity: DirectoryIdentity) -> None:
        self._identity = write_identity(self._disk, self._data_dir, identity)


def read_position(disk: FileSystem, data_dir: str, node_id: int) -> tuple[MetadataPosition, int]:
    """Return how much of the metadata a node knew, by what it noted and the images that it kept; and how often it has
    kept one. DirectoryRefused where none of that can be read.
    """
    kept, path = read_kept_image(disk, data_dir, node_id), _position_path(data_dir, node_id)
    known = [] if kept.newest is None else [kept.newest.image.position]
    noted, problem = _read_noted(disk, path)
    if noted is not None:
        known.append(noted)
    elif problem and known:
        _log.warning("%s; node %s takes what it knew from its kept image", problem, node_id)
    if not known and (problem or kept.damaged):
        raise DirectoryRefused(
            f"how much of the metadata node {node_id} knew cannot be read: {problem or f'{path} is not there'}, and no "
            f"whole image is in {kept_image_path(data_dir, node_id)}. Nothing was changed. Restore one of them from a "
            "copy; or, if the controller has lost nothing, remove them, and the node takes what the controller has"
        )
    newest = max(known, key=lambda each: (each.term, each.version), default=NO_POSITION)
    return newest, 0 if kept.newest is None else kept.newest.sequence


def _position_path(data_dir: str, node_id: int) -> str:
    return f"{data_dir}/nodes/{node_id}{POSITION_SUFFIX}"


def _read_noted(disk: FileSystem, path: str) -> tuple[MetadataPosition | None, str]:
    """Return the position in a file, if there is one, and what is wrong with the file."""
    if not disk.exists(path):
        return None, ""
    try:
        return MetadataPosition(*astuple(decode_checked(disk.read_bytes(path), NotedPosition))), ""
    except FileDamaged as error:
        return None, f"{path} is damaged: {error}"


def write_identity(disk: FileSystem, data_dir: str, identity: DirectoryIdentity) -> DirectoryIdentity:
    """Write both generations, and return the newer one; they are on stable storage when this returns."""
    disk.make_directories(f"{data_dir}/nodes")
    for _ in _BOTH:
        identity = replace(identity, sequence=identity.sequence + 1)
        write_generation(disk, identity_path(data_dir, identity.node_id), identity.sequence, identity.encode())
    return identity


def identity_path(data_dir: str, node_id: int) -> str:
    """Where a node's identity file is; `broker.generations` says how its other generation is called."""
    return f"{data_dir}/nodes/{node_id}{IDENTITY_SUFFIX}"


def identities_in(disk: FileSystem, data_dir: str) -> list[DirectoryIdentity]:
    """Read the identity files of all nodes of a directory; raises DirectoryRefused."""
    folder = f"{data_dir}/nodes"
    names = disk.list_directory(folder) if disk.exists(folder) else []
    found: dict[str, dict[str, bytes]] = {}
    for name in names:
        node_id, is_identity, _ = name.removesuffix(SECOND_SUFFIX).partition(IDENTITY_SUFFIX)
        path = f"{folder}/{name}"
        if not is_identity or name not in (f"{node_id}{IDENTITY_SUFFIX}", f"{node_id}{IDENTITY_SUFFIX}{SECOND_SUFFIX}"):
            continue
        if not node_id.isdecimal():
            raise DirectoryRefused(f"{path} is named after no node; expected a number. Nothing was changed. Remove it")
        found.setdefault(node_id, {})[path] = disk.read_bytes(path)
    return [newest_identity(files, int(node_id)) for node_id, files in found.items()]


def is_new(disk: FileSystem, data_dir: str) -> bool:
    """Whether no node has ever been started with a data directory."""
    logs, nodes = f"{data_dir}/logs", f"{data_dir}/nodes"
    has_logs = disk.exists(logs) and bool(disk.list_directory(logs))
    names = disk.list_directory(nodes) if disk.exists(nodes) else []
    return not has_logs and not any(name.endswith(_MARKS) for name in names)


def format_directory(disk: FileSystem, data_dir: str, voter: int) -> None:
    """Prepare a new data directory for the first voter of a new cluster, which alone begins with an empty log.

    A directory that is not new is left as it is.
    """
    if not is_new(disk, data_dir):
        return
    write_identity(disk, data_dir, DirectoryIdentity(node_id=voter, may_begin_metadata=True))
    _log.info("formatted %s for node %s, the first voter of a new cluster", data_dir, voter)
