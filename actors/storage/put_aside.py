"""Damaged logs that were put aside, until their replicas have been copied anew."""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Mapping
from typing import Final

from eagleray.actors.storage.disk import Disk
from eagleray.actors.storage.log_directories import METADATA_FILE
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.partition_metadata import decode_partition_metadata
from eagleray.broker.metadata.topics import PartitionImage

_log = logging.getLogger(__name__)

FOLDER: Final = "damaged"


class PutAside:
    """Keeps the directories of damaged logs, while nothing of their copies may be there yet.

    Owns: `damaged/` in the data directory, as far as it is about partitions of this node. Persists: each directory by
    one rename, so that a log is in its place or here, and whole in either. It goes when the replica is in sync again,
    or is none of this node's any more.
    """

    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        self._folder = f"{data_dir}/{FOLDER}"
        self._names = self._find()

    def __len__(self) -> int:
        return len(self._names)

    def put(self, partition: TopicPartition, directory: str) -> None:
        """Move the files of a log here. Raises OSError."""
        if not self._disk.exists(directory):
            return
        self._disk.make_directories(self._folder)
        taken = self._names.get(partition, [])
        name = f"{partition}.{len(taken)}" if taken else str(partition)
        self._disk.move_tree(directory, f"{self._folder}/{name}")
        self._names[partition] = [*taken, name]
        _log.warning("the damaged log of %s stays in %s/%s until its replica is in sync", partition, self._folder, name)

    def purge(self, partition: TopicPartition) -> None:
        """Remove what was put aside of a partition."""
        for name in self._names.pop(partition, ()):
            self._disk.remove_tree(f"{self._folder}/{name}")
            _log.info("removed %s/%s, the damaged log of %s", self._folder, name, partition)

    def purge_in_sync(
        self, kept: Mapping[TopicPartition, PartitionImage], node_id: int, opened: Collection[TopicPartition]
    ) -> None:
        """Remove what was put aside of replicas that have been copied anew, and are counted on again."""
        for partition in [*self._names]:
            state = kept.get(partition)
            if state is not None and partition in opened and node_id in state.isr:
                self.purge(partition)

    def purge_deleted(self, deleted: Container[bytes]) -> None:
        """Remove what was put aside of topics that were deleted while their logs were not open here."""
        for partition, names in [*self._names.items()]:
            if all(self._topic_id_in(name) in deleted for name in names):
                self.purge(partition)

    def _topic_id_in(self, name: str) -> bytes | None:
        try:
            return decode_partition_metadata(self._disk.read_bytes(f"{self._folder}/{name}/{METADATA_FILE}"))
        except OSError:
            return None

    def _find(self) -> dict[TopicPartition, list[str]]:
        found: dict[TopicPartition, list[str]] = {}
        for name in self._disk.list_directory(self._folder) if self._disk.exists(self._folder) else ():
            topic, _, rest = name.rpartition("-")
            number = rest.split(".", 1)[0]
            if topic and number.isdecimal():
                found.setdefault(TopicPartition(topic, int(number)), []).append(name)
        return found
