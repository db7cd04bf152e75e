"""Every small file on disk: how it is written, how the product reads it, and what it must never be taken for."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct, json

from eagleray.actors.process.incarnations import IncarnationRecord, Incarnations
from eagleray.actors.process.listening import LISTENERS_SUFFIX
from eagleray.actors.process.ports import read_listener_ports, read_port
from eagleray.actors.storage.data_directory import NotedPosition, identities_in, read_position, write_identity
from eagleray.actors.storage.log_directories import METADATA_FILE, LogDirectories
from eagleray.broker.checked_file import FileDamaged, encode_checked
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.generations import SECOND_SUFFIX, summed, write_generation
from eagleray.broker.log import LogDamaged
from eagleray.broker.log.accepted_loss import accept_loss, accepted_offset, is_checkpoint_given_up
from eagleray.broker.log.bookmark import is_bookmark_damaged, read_bookmark
from eagleray.broker.log.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from eagleray.broker.log.epoch_file import read_epochs, write_epochs
from eagleray.broker.log.flushing import RecoveryPoint, with_recovery_point
from eagleray.broker.log.index_files import IndexChecksums
from eagleray.broker.log.leader_epochs import LeaderEpochs
from eagleray.broker.log.names import (
    ACCEPT_LOSS_FILE,
    BOOKMARK_FILE,
    CHECKPOINT_FILE,
    EPOCH_CHECKSUM_FILE,
    LEADER_EPOCH_FILE,
    RECOVERY_POINT_FILE,
)
from eagleray.broker.log.offset_index import OffsetIndex
from eagleray.broker.log.partition_metadata import decode_partition_metadata, encode_partition_metadata
from eagleray.broker.log.producer_snapshot import decode_snapshot
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.time_index import TimeIndex
from eagleray.broker.log.transaction_index import TransactionIndex
from eagleray.broker.metadata.directory_identity import DirectoryIdentity, DirectoryRefused
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.kept_image import KeptImage, kept_image_path, read_kept_image, write_kept_image
from eagleray.broker.metadata.losses import NO_LOSS
from eagleray.broker.quorum.election_state import ElectionState, read_election_state, write_election_state
from tests.support.log_driver import DIRECTORY
from tests.support.node_disk import NodeDisk

DATA = "/data"
NODES = f"{DATA}/nodes"
_ID = bytes(range(16))


class SmallFile(Struct, frozen=True):
    """One kind of file. `read` says what it has found, or raises one of `errors`; None stands for damage."""

    name: str
    paths: tuple[str, ...]
    write: Callable[[FileSystem], None]
    read: Callable[[FileSystem], Any]
    is_empty: Callable[[Any], bool]
    """Whether what was found is what is found where no file was ever written."""

    errors: tuple[type[Exception], ...] = ()


def _generations(path: str) -> tuple[str, ...]:
    return path, path + SECOND_SUFFIX


def _write_checkpoints(files: FileSystem) -> None:
    checkpoint = Checkpoint(
        log_start_offset=5, high_watermark=9, recovery_point=8, epochs=((0, 0),), topic_id="ab" * 16
    )
    for _ in range(2):
        checkpoint = write_checkpoint(files, DIRECTORY, checkpoint)


def _write_epochs(files: FileSystem) -> None:
    epochs = LeaderEpochs()
    epochs.assign(0, 0)
    epochs.assign(3, 17)
    write_epochs(files, DIRECTORY, epochs)


def _write_images(files: FileSystem) -> None:
    for sequence in (1, 2):
        write_kept_image(files, DATA, 0, KeptImage(sequence=sequence, image=MetadataImage(version=sequence)))


def _write_elections(files: FileSystem) -> None:
    for sequence in (1, 2):
        write_election_state(files, f"{NODES}/0.election", ElectionState(term=7, voted_for=1, sequence=sequence))


def _write_incarnations(files: FileSystem) -> None:
    for sequence in (1, 2):
        record = IncarnationRecord(10**15 + sequence, "boot-0", sequence=sequence)
        write_generation(files, f"{NODES}/0.life", sequence, summed(json.encode(record)))


def _begin_incarnation(files: FileSystem) -> Any:
    return Incarnations(files, f"{NODES}/0.life", "boot-0", now_us=lambda: 1).begin()


def _write_position(files: FileSystem) -> None:
    _write(files, f"{NODES}/0.position", encode_checked(NotedPosition("cluster", 3, 12)))


def _write_recovery_point(files: FileSystem) -> None:
    noted = RecoveryPoint(sequence=2, topic_id="", recovery_point=50)
    _write(files, f"{DIRECTORY}/{RECOVERY_POINT_FILE}", summed(json.encode(noted) + b"\n"))


def _read_recovery_point(files: FileSystem) -> Any:
    found = with_recovery_point(files, DIRECTORY, Checkpoint(sequence=2, recovery_point=40))
    assert found.recovery_point >= 40, "what was flushed once is flushed"
    return found


def _write(files: FileSystem, path: str, data: bytes) -> None:
    file = files.open(path)
    try:
        file.truncate(0)
        file.write([data])
    finally:
        file.close()


def _one(name: str, path: str, write: Callable[[FileSystem], None], read: Callable[[bytes], Any]) -> SmallFile:
    """A file of which one function reads the bytes; what it cannot read it says is damaged, by None."""
    return SmallFile(name, (path,), write, lambda files: read(files.read_bytes(path)), lambda _: False)


def _read_snapshot(data: bytes) -> Any:
    entries = decode_snapshot(data)
    return None if entries is None else [*ProducerState(entries, now_ms=0)]


def _read_bookmark(files: FileSystem) -> Any:
    found = read_bookmark(files, DIRECTORY)
    if found is None:
        assert is_bookmark_damaged(files, DIRECTORY), "a bookmark that cannot be read is not one that was never written"
        return None
    return found.producer_state(0)


def small_files(log_files: dict[str, bytes]) -> tuple[SmallFile, ...]:
    """All kinds; `log_files` are those of a log, by their suffixes, of which some kinds are."""

    def of_log(suffix: str) -> tuple[str, Callable[[FileSystem], None]]:
        path = f"{DIRECTORY}/{suffix}"
        return path, lambda files: _write(files, path, log_files[suffix])

    checkpoint, identity = f"{DIRECTORY}/{CHECKPOINT_FILE}", f"{NODES}/0.identity"
    bookmark, epochs = f"{DIRECTORY}/{BOOKMARK_FILE}", f"{DIRECTORY}/{LEADER_EPOCH_FILE}"
    return (
        SmallFile(
            "checkpoint",
            _generations(checkpoint),
            _write_checkpoints,
            lambda files: read_checkpoint(files, DIRECTORY).checkpoint,
            lambda found: found.sequence == 0 and not found.may_have_gaps,
            (LogDamaged,),
        ),
        SmallFile("bookmark", (bookmark,), of_log(BOOKMARK_FILE)[1], _read_bookmark, lambda _: False),
        SmallFile(
            "leader epochs",
            (epochs, f"{DIRECTORY}/{EPOCH_CHECKSUM_FILE}"),
            _write_epochs,
            lambda files: read_epochs(files, DIRECTORY),
            lambda found: found is not None and not len(found),
        ),
        SmallFile(
            "identity",
            _generations(identity),
            lambda files: write_identity(files, DATA, DirectoryIdentity(node_id=0, cluster_id="mine")) and None,
            lambda files: identities_in(files, DATA),
            lambda found: not found,
            (DirectoryRefused,),
        ),
        SmallFile(
            "position",
            (f"{NODES}/0.position",),
            _write_position,
            lambda files: read_position(files, DATA, 0)[0],
            lambda found: found.version < 0,
            (DirectoryRefused,),
        ),
        SmallFile(
            "election state",
            _generations(f"{NODES}/0.election"),
            _write_elections,
            lambda files: read_election_state(files, f"{NODES}/0.election"),
            lambda found: found.sequence == 0 and found.term == 0 and not found.is_whole,
            (FileDamaged,),
        ),
        SmallFile(
            "kept image",
            _generations(kept_image_path(DATA, 0)),
            _write_images,
            lambda files: read_kept_image(files, DATA, 0),
            lambda found: found.newest is None and not found.damaged,
            (DirectoryRefused,),
        ),
        SmallFile(
            "incarnations",
            _generations(f"{NODES}/0.life"),
            _write_incarnations,
            _begin_incarnation,
            lambda found: found.number < 10**15 and found.loss == NO_LOSS,
        ),
        SmallFile(
            "recovery point",
            (f"{DIRECTORY}/{RECOVERY_POINT_FILE}",),
            _write_recovery_point,
            _read_recovery_point,
            lambda _: False,
        ),
        SmallFile(
            "accepted loss",
            (f"{DIRECTORY}/{ACCEPT_LOSS_FILE}",),
            lambda files: accept_loss(files, DIRECTORY, 12),
            lambda files: (accepted_offset(files, DIRECTORY), is_checkpoint_given_up(files, DIRECTORY)),
            lambda _: False,
        ),
        SmallFile(
            "accepted purge",
            (f"{DATA}/accept-purge",),
            lambda files: _write(files, LogDirectories(DATA, files).accept_purge_path, b"3\n"),
            lambda files: LogDirectories(DATA, files).accepted_purge(),
            lambda _: False,
        ),
        _one("port", f"{NODES}/0.port", lambda files: _write(files, f"{NODES}/0.port", b"9092"), read_port),
        _one(
            "listener ports",
            f"{NODES}/0{LISTENERS_SUFFIX}",
            lambda files: _write(files, f"{NODES}/0{LISTENERS_SUFFIX}", b'{"INNER":9092}'),
            read_listener_ports,
        ),
        _one(
            "partition metadata",
            f"{DIRECTORY}/{METADATA_FILE}",
            lambda files: _write(files, f"{DIRECTORY}/{METADATA_FILE}", encode_partition_metadata(_ID)),
            decode_partition_metadata,
        ),
        _one("producer snapshot", *of_log(".snapshot"), _read_snapshot),
        _one("offset index", *of_log(".index"), lambda data: OffsetIndex.decode(0, data)),
        _one("time index", *of_log(".timeindex"), lambda data: TimeIndex.decode(0, data)),
        _one("transaction index", *of_log(".txnindex"), TransactionIndex.decode),
        _one("index checksums", *of_log(".checksums"), IndexChecksums.decode),
    )


def empty_disk() -> NodeDisk:
    disk = NodeDisk()
    for directory in (DIRECTORY, NODES):
        disk.make_directories(directory)
    return disk
