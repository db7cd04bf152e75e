"""The small files of a data directory as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from eagleray.actors.process.incarnations import IncarnationRecord
from eagleray.actors.process.node_clock import CLOCK_SUFFIX
from eagleray.actors.storage.data_directory import (
    IDENTITY_SUFFIX,
    INCARNATIONS_SUFFIX,
    POSITION_SUFFIX,
    NotedPosition,
)
from eagleray.broker.checked_file import FileDamaged, decode_checked_or_older
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.generations import SECOND_SUFFIX
from eagleray.broker.log import names
from eagleray.broker.log.bookmark import read_bookmark
from eagleray.broker.log.checkpoint import Checkpoint
from eagleray.broker.log.epoch_file import read_epochs
from eagleray.broker.log.flushing import RecoveryPoint
from eagleray.broker.log.index_files import IndexChecksums
from eagleray.broker.log.partition_metadata import decode_partition_metadata
from eagleray.broker.metadata.directory_identity import DirectoryIdentity
from eagleray.broker.metadata.kept_image import SUFFIX as IMAGE_SUFFIX
from eagleray.broker.metadata.kept_image import KeptImage
from eagleray.broker.quorum.election_state import ElectionState
from eagleray.broker.runtime.clock_watch import ClockNote
from eagleray.offline.dump_log import as_json
from eagleray.offline.small_files_check import METADATA_FILE

_Dump = Callable[[FileSystem, str], Iterator[str]]


def small_file_dump(name: str) -> _Dump | None:
    """The way to show a file of this name; None where it is no small file that is known."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    bare = name.removesuffix(SECOND_SUFFIX)
    if bare.endswith(IMAGE_SUFFIX):
        return _dump_image
    found = _CHECKED.get(bare) or next((kind for suffix, kind in _NODE_FILES.items() if bare.endswith(suffix)), None)
    if found is not None:
        kind = found
        return lambda files, path: _dump_checked(files, path, kind)
    return _dump_index_checksums if name.endswith(names.CHECKSUMS_SUFFIX) else None


def _dump_checked(files: FileSystem, path: str, kind: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the fields of a file with a checksum; of a damaged one, also what is there."""
    data = files.read_bytes(path)
    try:
        content = decode_checked_or_older(data, kind)
    except FileDamaged as error:
        yield f"the file is damaged: {error}"
        yield from data.decode(errors="replace").splitlines()
        return
    yield from _fields(content)


def _dump_image(files: FileSystem, path: str) -> Iterator[str]:
    kept = KeptImage.decode(files.read_bytes(path))
    if kept is None:
        yield "the file is damaged"
    else:
        yield f"sequence: {kept.sequence}"
        yield from _fields(kept.image)


def _fields(content: msgspec.Struct) -> Iterator[str]:
    for name in content.__struct_fields__:
        yield f"{name}: {as_json(getattr(content, name))}"


def _dump_index_checksums(files: FileSystem, path: str) -> Iterator[str]:
    checksums = IndexChecksums.decode(files.read_bytes(path))
    if checksums is None:
        yield "the file is damaged, or of another version"
        return
    for suffix, prefix in sorted(checksums.prefixes.items()):
        yield f"{suffix} size: {prefix.size_bytes} crc32c: {prefix.checksum:08x}"


def _dump_bookmark(files: FileSystem, path: str) -> Iterator[str]:
    bookmark = read_bookmark(files, path.rpartition("/")[0])
    yield from ["the bookmark is damaged, or of another version"] if bookmark is None else _fields(bookmark)


def _dump_epochs(files: FileSystem, path: str) -> Iterator[str]:
    epochs = read_epochs(files, path.rpartition("/")[0])
    if epochs is None:
        yield "the file is damaged: its checksum does not match, or its epochs do not ascend"
        return
    for start in epochs:
        yield f"epoch: {start.epoch} startOffset: {start.start_offset}"


def _dump_partition_metadata(files: FileSystem, path: str) -> Iterator[str]:
    data = files.read_bytes(path)
    topic_id = decode_partition_metadata(data)
    yield from data.decode(errors="replace").splitlines()
    yield (
        "the file is damaged: it names no topic id" if topic_id is None else f"in hexadecimal digits: {topic_id.hex()}"
    )


def _dump_text(files: FileSystem, path: str) -> Iterator[str]:
    yield from files.read_bytes(path).decode(errors="replace").splitlines()


_BY_NAME: Final[dict[str, _Dump]] = {
    names.BOOKMARK_FILE: _dump_bookmark,
    names.LEADER_EPOCH_FILE: _dump_epochs,
    names.EPOCH_CHECKSUM_FILE: _dump_text,
    names.ACCEPT_LOSS_FILE: _dump_text,
    METADATA_FILE: _dump_partition_metadata,
}
_CHECKED: Final[dict[str, type[msgspec.Struct]]] = {
    names.CHECKPOINT_FILE: Checkpoint,
    names.RECOVERY_POINT_FILE: RecoveryPoint,
    "quorum-state": ElectionState,
}
_NODE_FILES: Final[dict[str, type[msgspec.Struct]]] = {
    IDENTITY_SUFFIX: DirectoryIdentity,
    INCARNATIONS_SUFFIX: IncarnationRecord,
    POSITION_SUFFIX: NotedPosition,
    CLOCK_SUFFIX: ClockNote,
}
