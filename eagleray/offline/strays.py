"""Strays: directories that no node opens, because the metadata do not say what they are, or they do not themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from eagleray.actors.storage.disk import LocalDisk
from eagleray.actors.storage.log_directories import LogDirectories
from eagleray.broker.filesystem import FileSystem, write_atomically
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogError
from eagleray.broker.log.checkpoint import read_checkpoint
from eagleray.broker.log.names import DELETE_SUFFIX
from eagleray.broker.log.partition_metadata import encode_partition_metadata
from eagleray.broker.metadata.directories import DirectoryFate, fate_of, partition_of
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topics import CLUSTER_METADATA
from eagleray.offline.findings import has_problems
from eagleray.offline.layout import LOGS, NoDataDirectory, data_directories, lock_partition, partition_directories
from eagleray.offline.metadata import KnownMetadata, read_metadata
from eagleray.offline.node_files_check import check_node_files
from eagleray.offline.overlay import Overlay
from eagleray.offline.partition_check import check_partition
from eagleray.offline.small_files_check import METADATA_FILE


class StrayKept(Exception):
    """A directory was not changed; the text says why, and what would help."""


class Stray(msgspec.Struct, frozen=True, kw_only=True):
    """A directory where partitions lie that no node opens."""

    data_dir: str
    name: str
    size_bytes: int
    topic_id: str
    """In hexadecimal digits; empty where the directory names none that can be read."""

    why: str
    adopted_as: str = ""
    """The topic id that it certainly has, where its `partition.metadata` is what is wrong; empty where that is not
    certain."""

    @property
    def directory(self) -> str:
        """Where it is."""
        return f"{self.data_dir}/{LOGS}/{self.name}"


def list_strays(path: str) -> list[Stray]:
    """Return the strays in the data directories at a path. Nothing is changed."""
    return [stray for data_dir in data_directories(path) for stray in strays_in(data_dir)]


def strays_in(data_dir: str) -> list[Stray]:
    """Return the strays in a data directory."""
    identities, _ = check_node_files(Overlay(), data_dir)
    known, _ = read_metadata(data_dir, [each.node_id for each in identities])
    return [*strays_among(data_dir, known)]


def strays_among(data_dir: str, known: KnownMetadata) -> Iterator[Stray]:
    """Yield the strays in a data directory by what is known of the cluster's metadata.

    Where these are not on the machine, only those whose names or files say nothing are strays for certain.
    """
    files = Overlay()
    directories = LogDirectories(data_dir, LocalDisk())
    for name in partition_directories(data_dir):
        if name.endswith(DELETE_SUFFIX):
            continue
        directory = f"{data_dir}/{LOGS}/{name}"
        topic_id = _id_in_metadata(directories, name)
        second = _id_in_checkpoint(files, directory)
        why = _why_stray(name, topic_id, second, known)
        if why:
            yield Stray(
                data_dir=data_dir,
                name=name,
                size_bytes=_size_of(directory),
                topic_id="" if topic_id is None else topic_id.hex(),
                why=why,
                adopted_as=_certain_id(name, topic_id, second, known.image),
            )


def _why_stray(name: str, topic_id: bytes | None, second: str, known: KnownMetadata) -> str:
    """Why no node opens a directory; empty where one does, or where that cannot be told."""
    partition = partition_of(name)
    if partition is None:
        return "its name is not that of a partition; expected TOPIC-NUMBER"
    if topic_id is None:
        return f"its {METADATA_FILE} is missing or names no topic id that can be read"
    if known.image is not None and partition.topic != CLUSTER_METADATA:
        return _why_unknown(partition, topic_id, known.image, known.machine or "")
    differs = bool(second) and second != topic_id.hex()
    return f"its {METADATA_FILE} names topic id {topic_id.hex()}, and its checkpoint {second}" if differs else ""


def _why_unknown(partition: TopicPartition, topic_id: bytes, image: MetadataImage, machine: str) -> str:
    """Why the metadata do not say what a directory is; empty where they do."""
    if fate_of(str(partition), topic_id, image, machine) is not DirectoryFate.STRAY:
        return ""
    expected = image.topic_id(partition.topic)
    if expected == topic_id:
        return f"topic {partition.topic!r} has no partition {partition.partition}"
    there = "the metadata know no topic" if expected is None else f"{expected.hex()} is that of topic"
    return f"it names topic id {topic_id.hex()}, whose deletion is not known; {there} {partition.topic!r}"


def _certain_id(name: str, topic_id: bytes | None, second: str, image: MetadataImage | None) -> str:
    """The id that a directory certainly has, though its `partition.metadata` does not say so: that of its checkpoint,
    which has a checksum, if the metadata do not contradict it.
    """
    partition = partition_of(name)
    if partition is None or not second or (topic_id is not None and topic_id.hex() == second):
        return ""
    if image is None or partition.topic == CLUSTER_METADATA:
        return second
    expected = image.topic_id(partition.topic)
    return second if expected is not None and expected.hex() == second else ""


def _id_in_metadata(directories: LogDirectories, name: str) -> bytes | None:
    try:
        return directories.topic_id_in(name)
    except OSError:
        return None


def _id_in_checkpoint(files: FileSystem, directory: str) -> str:
    if not os.path.isdir(directory):
        return ""
    try:
        return read_checkpoint(files, directory).checkpoint.topic_id
    except (LogError, OSError):
        return ""


def _size_of(directory: str) -> int:
    found = (os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)
    total = sum(os.path.getsize(path) for path in found)
    return total if os.path.isdir(directory) else os.path.getsize(directory)


def find_stray(path: str, name: str) -> Stray:
    """Return the stray of a name; StrayKept where there is none of it, and what it is instead."""
    found = [stray for stray in list_strays(path) if stray.name == name]
    if len(found) > 1:
        raise StrayKept(f"{', '.join(each.data_dir for each in found)} have {name}; say which of them is meant as DIR")
    if found:
        return found[0]
    if any(name in partition_directories(each) for each in data_directories(path)):
        raise StrayKept(
            f"{name} is no stray, as far as the metadata on this machine say, and was left as it is; "
            f"`eagleray storage strays list {path}` lists those there are"
        )
    raise NoDataDirectory(f"{path} has no directory {LOGS}/{name}")


def adopt(stray: Stray) -> None:
    """Write the `partition.metadata` of a stray anew, where it is certain what it was.

    Raises StrayKept where it is not, and DirectoryInUse; then nothing has changed.
    """
    if not stray.adopted_as:
        raise StrayKept(
            f"which topic {stray.name} is of is not certain: {stray.why}. Its checkpoint does not name the id of a "
            "topic that the metadata have under this name. Nothing was changed"
        )
    lock = lock_partition(stray.data_dir, stray.name)
    try:
        content = encode_partition_metadata(bytes.fromhex(stray.adopted_as))
        write_atomically(LocalDisk(), f"{stray.directory}/{METADATA_FILE}", content)
    finally:
        lock.release()


def remove(stray: Stray) -> None:
    """Remove a stray for good. Raises DirectoryInUse, and then nothing has changed."""
    directories = LogDirectories(stray.data_dir, LocalDisk())
    lock = lock_partition(stray.data_dir, stray.name)
    try:
        if not os.path.isdir(stray.directory):
            os.remove(stray.directory)
            return
        # A removal that is interrupted leaves a directory that a node goes on to remove, and never half a log.
        aside = directories.set_aside(stray.name)
        LocalDisk().remove_tree(f"{stray.data_dir}/{LOGS}/{aside}")
    finally:
        lock.release()


def records_in(stray: Stray) -> str:
    """Whether the records of a stray can be read, in words."""
    if not os.path.isdir(stray.directory) or partition_of(stray.name) is None:
        return "not read, because it is not named after a partition"
    found = [each for each in check_partition(stray.directory) if not each.path.endswith(METADATA_FILE)]
    return "damaged as well" if has_problems(found) else "whole"
