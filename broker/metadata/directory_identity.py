"""What a data directory says of itself: whose it is, and in which formats its files are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from eagleray.broker.checked_file import FileDamaged, decode_checked, encode_checked

VERSION: Final = 1
"""Of the file itself."""

FORMATS: Final[Mapping[str, int]] = {"metadata-log": 1, "partition-log": 1}
"""The newest format of each kind of files that this version reads and writes."""


class DirectoryRefused(Exception):
    """A data directory is not what it should be; the text says what was found, what was expected and what to do."""


class DirectoryIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a data directory as one of its nodes has written it down."""

    version: int = VERSION
    cluster_id: str = ""
    """Empty until the node has registered for the first time."""

    node_id: int
    formats: dict[str, int] = msgspec.field(default_factory=lambda: dict(FORMATS))
    may_begin_metadata: bool = False
    """Whether this voter may begin with an empty metadata log: the directory was formatted when the cluster was
    created, and no metadata log has begun in it since."""

    sequence: int = 0
    """The number of the generation; both of them say the same, but where a write was interrupted."""

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return encode_checked(self)


class _Version(msgspec.Struct, frozen=True):
    version: int


class IdentityDamaged(DirectoryRefused):
    """An identity file holds what was never written there."""


def newest_identity(found: Mapping[str, bytes], node_id: int) -> DirectoryIdentity:
    """Return the newest identity of what the files hold, given by their paths; raises DirectoryRefused.

    One damaged file does no harm, but that it may have said that a metadata log has begun.
    """
    read: list[DirectoryIdentity] = []
    damaged: list[IdentityDamaged] = []
    for path, data in found.items():
        try:
            read.append(read_identity(data, path, node_id))
        except IdentityDamaged as error:
            damaged.append(error)
    if not read:
        raise damaged[0]
    newest = max(read, key=lambda each: each.sequence)
    return replace(newest, may_begin_metadata=newest.may_begin_metadata and not damaged)


def read_identity(data: bytes, path: str, node_id: int) -> DirectoryIdentity:
    """Return the identity that a file holds, if this version may open what it speaks of; raises DirectoryRefused."""
    try:
        version = decode_checked(data, _Version).version
        if version > VERSION:
            raise DirectoryRefused(_newer(path, "has version", version, VERSION))
        identity = decode_checked(data, DirectoryIdentity)
    except FileDamaged as error:
        raise IdentityDamaged(
            f"{path} is damaged: {error}. It says whose data directory this is, and nothing was changed. Restore the "
            "file from a copy, or, if you are sure that the directory is that of this cluster, remove it, and the one "
            "of that name that ends in .2: they are then written anew, as for a directory of a version that had none"
        ) from error
    for name, number in identity.formats.items():
        if number > FORMATS.get(name, 0):
            raise DirectoryRefused(_newer(path, f"names format {name}", number, FORMATS.get(name, 0)))
    if identity.node_id != node_id:
        raise DirectoryRefused(
            f"{path} says that it is that of node {identity.node_id}; expected node {node_id}. Nothing was changed. "
            "Start the cluster with the data directory that it was started with before"
        )
    return identity


def _newer(path: str, what: str, found: int, known: int) -> str:
    return (
        f"{path} {what} {found}; this version of Eagleray knows up to {known}. A newer version has written the "
        "directory, and nothing was changed. Install that version, or a newer one"
    )


def common_cluster_id(identities: Iterable[DirectoryIdentity], data_dir: str) -> str:
    """Return the cluster that all nodes of a directory belong to; empty where none knows."""
    known = sorted((each.node_id, each.cluster_id) for each in identities if each.cluster_id)
    for node_id, cluster_id in known:
        if cluster_id != known[0][1]:
            raise DirectoryRefused(
                f"the data directory {data_dir} has node {known[0][0]} of cluster {known[0][1]} and node {node_id} of "
                f"cluster {cluster_id}; expected nodes of one cluster. Nothing was changed. Take out what belongs to "
                "the other one"
            )
    return known[0][1] if known else ""


def check_cluster(found: str, expected: str, data_dir: str) -> None:
    """Refuse a directory of another cluster than the one that its node is to be a part of."""
    if found and expected and found != expected:
        raise DirectoryRefused(foreign(found, expected, f"the data directory {data_dir}"))


def foreign(found: str, expected: str, whose: str) -> str:
    """Say that a directory is of another cluster."""
    return (
        f"{whose} belongs to cluster {found}; expected cluster {expected}. Nothing was changed. Give the node the "
        "directory that is its own, or an empty one, which is filled from the other replicas"
    )
