"""The directories of a machine's logs: whose each is, and how one is put aside."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Container, Iterable
from itertools import count
from typing import Final

from eagleray.actors.storage.disk import Disk, Lock, PartitionLocked
from eagleray.broker.checked_file import count_in
from eagleray.broker.filesystem import write_atomically
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.checkpoint import read_checkpoint
from eagleray.broker.log.claiming import Claim, NotedIdentity, judge_claim
from eagleray.broker.log.errors import LogDamaged, LogError
from eagleray.broker.log.names import DELETE_SUFFIX, TEMPORARY_SUFFIX, deleted_directory
from eagleray.broker.log.partition_metadata import decode_partition_metadata, encode_partition_metadata

_log = logging.getLogger(__name__)

METADATA_FILE: Final = "partition.metadata"
ACCEPT_PURGE_FILE: Final = "accept-purge"


class StrayLog(LogError):
    """A directory is not that of the topic that it is to be opened for; it stays as it is, until a person decides."""


class LogDirectories:
    """The directories that partitions have on a machine, open or not, whichever node has them open.

    Owns: which topic a directory is of, in its `partition.metadata`. Removes nothing but what was put aside: a
    directory gets another name first, in one step, so that an interruption leaves a whole log under its own, or none.
    """

    def __init__(self, data_dir: str, disk: Disk) -> None:
        self._data_dir = data_dir
        self._disk = disk

    def directory_of(self, partition: TopicPartition) -> str:
        """Where a partition's files are."""
        return f"{self._data_dir}/logs/{partition}"

    def has_files(self, partition: TopicPartition) -> bool:
        """Whether a partition has files, because it was opened before."""
        return self._disk.exists(self.directory_of(partition))

    def lock(self, name: str) -> Lock:
        """Lock a directory. Raises PartitionLocked where another process, or this one, has it."""
        return self._disk.lock(f"{self._data_dir}/locks/{name}.lock")

    def on_disk(self) -> list[str]:
        """The names of all logs that have files, whichever node has them."""
        logs = f"{self._data_dir}/logs"
        return self._disk.list_directory(logs) if self._disk.exists(logs) else []

    def after_loss_of_power(self) -> tuple[TopicPartition, ...]:
        """The logs that a loss of power leaves whole, if their disk has kept what was flushed."""
        named = ((name, *name.rpartition("-")[::2]) for name in self.on_disk())
        found = [(name, TopicPartition(topic, int(number))) for name, topic, number in named if number.isdecimal()]
        return tuple(partition for name, partition in found if self._survives(f"{self._data_dir}/logs/{name}"))

    def _survives(self, directory: str) -> bool:
        try:
            return read_checkpoint(self._disk, directory).checkpoint.survives_loss_of_power
        except (OSError, LogDamaged):
            return False

    @property
    def accept_purge_path(self) -> str:
        """The file to which a person writes how many directories may go that were held back."""
        return f"{self._data_dir}/{ACCEPT_PURGE_FILE}"

    def accepted_purge(self) -> int | None:
        """How many directories a person has accepted to go; None where that file is not there, or has no number."""
        found = self._disk.read_bytes(self.accept_purge_path) if self._disk.exists(self.accept_purge_path) else b""
        return count_in(found)

    def forget_accepted_purge(self) -> None:
        """Remove that file: what comes later is to be accepted anew."""
        self._disk.remove(self.accept_purge_path)

    def set_aside_unused(self, names: Iterable[str]) -> list[str]:
        """Put logs aside, unless another process has them open; return which were put aside."""
        put_aside = []
        for name in names:
            try:
                lock = self.lock(name)
            except PartitionLocked:
                continue
            except OSError as error:
                _log.warning("%s cannot be put aside yet: %s", name, error)
                continue
            if self.try_to_set_aside(name):
                put_aside.append(name)
            # The lock's own file stays: another process may be about to lock it, and has to find the one that others
            # lock.
            lock.release()
        return put_aside

    def topic_id_in(self, name: str) -> bytes | None:
        """The topic id that a directory names; None where it names none that can be read."""
        found = self._metadata_file(f"{self._data_dir}/logs/{name}")
        return None if found is None else decode_partition_metadata(found)

    def is_contradicted(self, name: str) -> bool:
        """Whether the checkpoint of a directory says that it is another topic's than `partition.metadata` does."""
        noted = self._noted_identity(f"{self._data_dir}/logs/{name}")
        return noted is not None and bool(noted.topic_id) and noted.topic_id != self.topic_id_in(name)

    def _metadata_file(self, directory: str) -> bytes | None:
        path = f"{directory}/{METADATA_FILE}"
        return self._disk.read_bytes(path) if self._disk.exists(path) else None

    def _noted_identity(self, directory: str) -> NotedIdentity | None:
        try:
            read = read_checkpoint(self._disk, directory)
        except LogDamaged:
            return None
        noted = read.checkpoint
        return NotedIdentity(
            topic_id=bytes.fromhex(noted.topic_id), partition=noted.partition, is_certain=read.is_newest
        )

    def claim(self, directory: str, topic_id: bytes, deleted: Container[bytes]) -> None:
        """Make the directory that of this very partition, if it is new, or holds what the metadata log has deleted.

        Whatever else it holds may be all that there is of acknowledged records: a flipped bit makes another topic's.
        """
        name = directory.rpartition("/")[2]
        if self._holds_files(directory):
            found, noted = self._metadata_file(directory), self._noted_identity(directory)
            match judge_claim(found, noted, topic_id, int(name.rpartition("-")[2]), deleted):
                case Claim.OWN:
                    return
                case Claim.STRAY:
                    raise StrayLog(_describe_stray(directory, self.topic_id_in(name), topic_id, noted))
                case Claim.DELETED:
                    self.set_aside(name)
                case Claim.REPAIR:
                    _log.error(
                        "%s/%s was damaged, and is written anew: both generations of the checkpoint beside it say that "
                        "the directory is that of %s",
                        directory,
                        METADATA_FILE,
                        name,
                    )
        self._disk.make_directories(directory)
        write_atomically(self._disk, f"{directory}/{METADATA_FILE}", encode_partition_metadata(topic_id))

    def _holds_files(self, directory: str) -> bool:
        """Whether there is more than what a crash leaves of a directory that was about to be made."""
        names = self._disk.list_directory(directory) if self._disk.exists(directory) else []
        return any(name != METADATA_FILE + TEMPORARY_SUFFIX for name in names)

    def set_aside(self, name: str) -> str:
        """Rename a directory, so that no log is opened there any more, and return its new name."""
        topic_id = self.topic_id_in(name)
        unique = topic_id.hex() if topic_id is not None else "unknown"
        taken = {*self.on_disk()}
        names = (deleted_directory(name, f"{unique}{number or ''}") for number in count())
        target = next(each for each in names if each not in taken)
        folder = f"{self._data_dir}/logs"
        self._disk.rename_directory(f"{folder}/{name}", f"{folder}/{target}")
        _log.info("%s is not needed any more; it is now %s", name, target)
        return target

    def purge(self, name: str) -> None:
        """Remove the files of a directory that was put aside; they may be many, so that it may take a while."""
        assert name.endswith(DELETE_SUFFIX), f"{name} was not put aside"
        self._disk.begin_to_remove_tree(f"{self._data_dir}/logs/{name}")

    def try_to_set_aside(self, name: str) -> bool:
        """Put a directory aside, if its disk lets that happen now."""
        try:
            self.set_aside(name)
        except OSError as error:
            _log.warning("%s cannot be put aside yet: %s", name, error)
            return False
        return True


def _describe_stray(directory: str, found: bytes | None, expected: bytes, noted: NotedIdentity | None) -> str:
    """Say what is wrong with a directory, and what a person may do."""
    data_dir, name = shlex.quote(directory.rpartition("/logs/")[0]), shlex.quote(directory.rpartition("/")[2])
    wanted = encode_partition_metadata(expected).decode().strip().replace("\n", ", ")
    if found == expected:
        what = "names the topic, but the checkpoint does not agree"
    elif found is None:
        what = "names no topic that can be read"
    else:
        what = f"names topic id {found.hex()}, which was not deleted"
    known = ""
    if noted is not None and noted.topic_id:
        number = f"partition {noted.partition} of " if noted.partition >= 0 else ""
        known = f" By its checkpoint it is {number}topic id {noted.topic_id.hex()}."
    return (
        f"{directory}/{METADATA_FILE} {what}; expected {wanted!r}.{known} The directory is left as it is, and not "
        f"opened. `eagleray storage strays list {data_dir}` says what is known of it; `eagleray storage strays adopt "
        f"{data_dir} {name}` writes that file anew where it alone is wrong, and `remove` in place of `adopt` removes "
        "the directory"
    )
