"""What a lost metadata log would begin with, and where it would be written, by what the directories have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from eagleray.actors.storage.data_directory import read_position
from eagleray.actors.storage.disk import Disk
from eagleray.actors.storage.metadata_log import METADATA_PARTITION
from eagleray.actors.storage.restore_sources import (
    FoundLog,
    KnownMetadata,
    MetadataLogFound,
    cluster_ids_in,
    images_in,
    logs_in,
    metadata_logs_in,
    nodes_in,
)
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.directory_identity import DirectoryRefused
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.metadata.positions import MetadataPosition
from eagleray.broker.metadata.restoring import FoundReplica, newest_of, restored


class CannotRestore(Exception):
    """The metadata log is not made again; the text says why, and nothing was changed."""


class RestorePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a restored metadata log begins with, and where it is written."""

    image: MetadataImage
    source: str
    """The file that the image was taken from."""

    source_position: MetadataPosition
    term: int
    """Above every term that was found."""

    voters: dict[int, str]
    """The data directory of each voter that gets the log."""

    absent_voters: tuple[int, ...]
    """Voters without a directory among those that were given."""

    given_up: int
    """How many changes a node has heard of that no image has."""

    strays: tuple[str, ...]
    """Directories of partitions that the image knows nothing of; they stay as they are."""

    partitions_without_files: tuple[TopicPartition, ...]
    problems: tuple[str, ...]


def plan_restore(disk: Disk, data_dirs: Sequence[str], replaced: Mapping[int, str] | None = None) -> RestorePlan:
    """Look at what the directories have, and say what a restored log would begin with. Nothing is changed.

    `replaced` gives new directories to voters that have lost theirs.
    """
    return _Planning(disk, data_dirs, replaced or {}).plan()


class _Planning:
    def __init__(self, disk: Disk, data_dirs: Sequence[str], replaced: Mapping[int, str]) -> None:
        self._disk = disk
        self._directory_of: dict[int, str] = {}
        for data_dir in data_dirs:
            for node_id in nodes_in(disk, data_dir):
                other = self._directory_of.setdefault(node_id, data_dir)
                if other != data_dir:
                    raise CannotRestore(f"{other} and {data_dir} are both of node {node_id}; give one of them")
        for node_id, data_dir in replaced.items():
            if self._directory_of.get(node_id, data_dir) != data_dir:
                raise CannotRestore(
                    f"node {node_id} has {self._directory_of[node_id]}; give that for it, or leave it out"
                )
        self._data_dirs = data_dirs
        self._replaced = replaced
        self._problems: list[str] = []

    def plan(self) -> RestorePlan:
        known = [each for data_dir in self._data_dirs for each in images_in(self._disk, data_dir)]
        is_alone = self._is_alone(known)
        logs = [
            (data_dir, log)
            for data_dir in self._data_dirs
            for log in metadata_logs_in(self._disk, data_dir, is_alone=is_alone)
        ]
        known += [KnownMetadata(image=log.image, source=log.directory) for _, log in logs if log.image is not None]
        if not known:
            raise CannotRestore(
                f"{', '.join(self._data_dirs)}: no node has kept an image of the metadata that can be read, and no "
                "metadata log can; give the data directories of all machines"
            )
        newest = newest_of(each.image for each in known)
        source = next(each.source for each in known if each.image is newest)
        self._require_one_cluster(known)
        positions = [*self._positions(), *(each.image.position for each in known)]
        voters = [node_id for node_id, node in newest.plan.items() if ProcessRole.CONTROLLER in node.roles]
        self._require_loss(voters, logs, positions)
        others = sorted(self._replaced.keys() - {*voters})
        if others:
            raise CannotRestore(f"nodes {', '.join(map(str, others))} do not keep the metadata; nodes {voters} do")
        places = {node_id: self._directory_of.get(node_id, self._replaced.get(node_id)) for node_id in voters}
        replicas, strays, highest_producer_id = self._survey(newest)
        image = restored(newest, positions, replicas, highest_producer_id)
        self._require_one_history(image, positions)
        return RestorePlan(
            image=image,
            source=source,
            source_position=newest.position,
            term=1 + max([each.term for each in positions] + [_newest_term(log) for _, log in logs]),
            voters={node_id: place for node_id, place in places.items() if place is not None},
            absent_voters=tuple(node_id for node_id, place in places.items() if place is None),
            given_up=max(each.version for each in positions) - newest.version,
            strays=tuple(strays),
            partitions_without_files=tuple(
                partition
                for topic in newest.topics.values()
                for number in range(len(topic.partitions))
                if (partition := TopicPartition(topic.name, number)) not in replicas and not topic.is_internal
            ),
            problems=tuple(self._problems),
        )

    def _is_alone(self, known: Sequence[KnownMetadata]) -> bool:
        """Whether there is one voter, by the newest image; where there is none, by the logs that there are."""
        if known:
            plan = newest_of(each.image for each in known).plan
            return sum(ProcessRole.CONTROLLER in node.roles for node in plan.values()) == 1
        return sum(self._disk.exists(f"{each}/logs/{METADATA_PARTITION}") for each in self._data_dirs) == 1

    def _require_one_cluster(self, known: Sequence[KnownMetadata]) -> None:
        found = {each.image.cluster_id for each in known}
        for data_dir in self._data_dirs:
            found |= cluster_ids_in(self._disk, data_dir)
        if len(found) > 1:
            raise CannotRestore(f"the directories are of clusters {', '.join(sorted(found))}; give those of one")

    def _positions(self) -> Iterator[MetadataPosition]:
        for node_id, data_dir in self._directory_of.items():
            try:
                yield read_position(self._disk, data_dir, node_id)[0]
            except DirectoryRefused as error:
                self._problems.append(str(error))

    def _require_loss(
        self,
        voters: Sequence[int],
        logs: Sequence[tuple[str, MetadataLogFound]],
        positions: Sequence[MetadataPosition],
    ) -> None:
        """Refuse where enough voters have a log with all that any node knows: they need no other."""
        whole = {
            data_dir
            for data_dir, log in logs
            if log.is_whole
            and log.directory == f"{data_dir}/logs/{METADATA_PARTITION}"
            and log.image is not None
            and all(log.image.includes(position) for position in positions)
        }
        count = sum(self._directory_of.get(node_id) in whole for node_id in voters)
        if 2 * count > len(voters):
            raise CannotRestore(
                f"the metadata log in {', '.join(sorted(whole))} is whole, and has all that the nodes know: nothing is "
                "lost, and nothing was changed. Start the cluster"
            )

    def _require_one_history(self, image: MetadataImage, positions: Sequence[MetadataPosition]) -> None:
        others = sorted({str(each) for each in positions if not image.includes(each)})
        if others:
            raise CannotRestore(
                f"the nodes have known metadata that cannot all have led to one another: {', '.join(others)} did not "
                f"lead to {image.position}. Leave out the directories of the nodes that are not to count"
            )

    def _survey(self, image: MetadataImage) -> tuple[dict[TopicPartition, list[FoundReplica]], list[str], int]:
        planned: dict[TopicPartition, list[FoundReplica]] = {}
        moved: dict[TopicPartition, list[FoundReplica]] = {}
        strays: list[str] = []
        highest_producer_id = -1
        for data_dir in self._data_dirs:
            for log in logs_in(self._disk, data_dir):
                survey = log.survey
                self._problems += survey.problems
                highest_producer_id = max(highest_producer_id, survey.highest_producer_id)
                for keepers, replicas in (
                    (self._keepers(log, image), planned),
                    (self._possible_keepers(log, image), moved),
                ):
                    if keepers:
                        found = FoundReplica(keepers[0], survey.last_epoch, survey.end_offset, survey.newest_epoch)
                        replicas.setdefault(log.partition, []).append(found)
                        break
                else:
                    strays.append(f"{data_dir}/logs/{log.partition}")
        for partition, others in moved.items():
            # What has moved after the image was kept has more than what it has moved from.
            most = max((each.extent for each in planned.get(partition, ())), default=(-1, -1))
            planned.setdefault(partition, []).extend(each for each in others if each.extent > most)
        return planned, strays, highest_producer_id

    def _keepers(self, log: FoundLog, image: MetadataImage) -> list[int]:
        """Return the node to which the image gives this replica."""
        state = image.find(log.partition)
        if state is None or log.topic_id is None or image.topic_id(log.partition.topic) != log.topic_id:
            return []
        return [node_id for node_id in state.replicas if self._directory_of.get(node_id) == log.data_dir]

    def _possible_keepers(self, log: FoundLog, image: MetadataImage) -> list[int]:
        """Return the nodes of the machine that do what those do which the image gives the partition to."""
        state = image.find(log.partition)
        if state is None or log.topic_id is None or image.topic_id(log.partition.topic) != log.topic_id:
            return []
        roles = {image.plan[node_id].roles for node_id in state.replicas if node_id in image.plan}
        here = (node_id for node_id, data_dir in self._directory_of.items() if data_dir == log.data_dir)
        return [node_id for node_id in sorted(here) if node_id in image.plan and image.plan[node_id].roles in roles]


def _newest_term(log: MetadataLogFound) -> int:
    return max(log.survey.newest_epoch, 0 if log.election is None else log.election.term)
