"""What data directories have to make a lost metadata log again: images, logs, positions, and replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from eagleray.actors.storage.data_directory import identities_in
from eagleray.actors.storage.disk import Disk
from eagleray.actors.storage.log_survey import LogSurvey, survey_log
from eagleray.actors.storage.metadata_log import ELECTION_STATE_FILE, METADATA_PARTITION
from eagleray.actors.storage.put_aside import FOLDER as PUT_ASIDE
from eagleray.broker.checked_file import FileDamaged
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.names import DELETE_SUFFIX
from eagleray.broker.log.partition_metadata import decode_partition_metadata
from eagleray.broker.metadata import log_records
from eagleray.broker.metadata.directories import partition_of
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.kept_image import kept_image_path, read_kept_image
from eagleray.broker.metadata.topics import CLUSTER_METADATA, TRANSACTION_STATE
from eagleray.broker.quorum.election_state import ElectionState, read_election_state
from eagleray.broker.transactions.log_records import decode_value
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import Record, RecordBatch

_NODE_FILES: Final = (".identity", ".life", ".image", ".position")


class KnownMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata that a file has."""

    image: MetadataImage
    source: str
    voter: int | None = None
    """The voter whose whole log it is."""


class FoundLog(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's directory."""

    partition: TopicPartition
    topic_id: bytes | None
    data_dir: str
    survey: LogSurvey


def nodes_in(disk: Disk, data_dir: str) -> list[int]:
    """Return the ids of the nodes that were ever started on a data directory."""
    folder = f"{data_dir}/nodes"
    names = disk.list_directory(folder) if disk.exists(folder) else []
    ids = {name.partition(".")[0] for name in names if any(kind in name for kind in _NODE_FILES)}
    return sorted(int(each) for each in ids if each.isdecimal())


def images_in(disk: Disk, data_dir: str) -> Iterator[KnownMetadata]:
    """Yield the images that nodes have kept."""
    for node_id in nodes_in(disk, data_dir):
        kept = read_kept_image(disk, data_dir, node_id).newest
        if kept is not None:
            yield KnownMetadata(image=kept.image, source=kept_image_path(data_dir, node_id))


def cluster_ids_in(disk: Disk, data_dir: str) -> set[str]:
    """Return the clusters that the nodes of a directory say they belong to; raises DirectoryRefused."""
    return {each.cluster_id for each in identities_in(disk, data_dir) if each.cluster_id}


class MetadataLogFound(msgspec.Struct, frozen=True, kw_only=True):
    """A metadata log, in its place or put aside."""

    directory: str
    survey: LogSurvey
    election: ElectionState | None
    """None where it is damaged."""

    image: MetadataImage | None
    """What its committed part leads to; None where that cannot be told."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing that was committed, as far as the log itself can tell."""
        if self.election is None or self.image is None or self.survey.problems:
            return False
        return self.election.is_whole and 0 < self.survey.end_offset >= self.election.committed


def metadata_logs_in(disk: Disk, data_dir: str, *, is_alone: bool) -> Iterator[MetadataLogFound]:
    """Yield the metadata log of a data directory, and those that were put aside."""
    aside = f"{data_dir}/{PUT_ASIDE}"
    names = disk.list_directory(aside) if disk.exists(aside) else []
    put_aside = [f"{aside}/{name}" for name in names if name.startswith(str(METADATA_PARTITION))]
    for directory in (f"{data_dir}/logs/{METADATA_PARTITION}", *put_aside):
        if disk.exists(directory):
            yield _read_metadata_log(disk, directory, is_alone=is_alone)


def _read_metadata_log(disk: Disk, directory: str, *, is_alone: bool) -> MetadataLogFound:
    records: list[Record] = []
    survey = survey_log(disk, directory, lambda batch: records.extend(batch.records()))
    try:
        election = read_election_state(disk, f"{directory}/{ELECTION_STATE_FILE}")
    except FileDamaged:
        election = None
    # What a single voter has on its disk is committed. Of several, one may have what the others have replaced.
    committed = survey.end_offset if is_alone else (0 if election is None else election.committed)
    image = _replay([each for each in records if survey.log_start_offset <= each.offset < committed])
    return MetadataLogFound(directory=directory, survey=survey, election=election, image=image)


def _replay(records: Sequence[Record]) -> MetadataImage | None:
    values = [bytes(each.value) for each in records if each.value is not None]
    try:
        if records and records[0].offset > 0:
            # What was before is gone: an image stands for it, if there is one.
            values = values[next(place for place, value in enumerate(values) if log_records.is_image(value)) :]
        image = log_records.replay(values)
    except (msgspec.DecodeError, KeyError, IndexError, StopIteration):
        return None
    return None if image == EMPTY_IMAGE else image


def logs_in(disk: Disk, data_dir: str) -> Iterator[FoundLog]:
    """Survey the partitions of a data directory."""
    folder = f"{data_dir}/logs"
    for name in disk.list_directory(folder) if disk.exists(folder) else []:
        partition = partition_of(name)
        if partition is None or partition.topic == CLUSTER_METADATA or name.endswith(DELETE_SUFFIX):
            continue
        path = f"{folder}/{name}/partition.metadata"
        topic_id = decode_partition_metadata(disk.read_bytes(path)) if disk.exists(path) else None
        yield FoundLog(
            partition=partition,
            topic_id=topic_id,
            data_dir=data_dir,
            survey=_survey(disk, f"{folder}/{name}", is_of_transactions=partition.topic == TRANSACTION_STATE),
        )


def _survey(disk: Disk, directory: str, *, is_of_transactions: bool) -> LogSurvey:
    if not is_of_transactions:
        return survey_log(disk, directory)
    highest = -1
    problems: list[str] = []

    def look_at(batch: RecordBatch) -> None:
        nonlocal highest
        try:
            highest = max([highest, *_producer_ids_of(batch)])
        except ProtocolError as error:
            problems.append(f"{directory}: the record at offset {batch.header.base_offset} cannot be read: {error}")

    survey = survey_log(disk, directory, look_at)
    survey.highest_producer_id = max(survey.highest_producer_id, highest)
    survey.problems += problems
    return survey


def _producer_ids_of(batch: RecordBatch) -> Iterator[int]:
    """Yield the producer ids that records of the transaction log name: a producer may not have written yet."""
    for record in batch.records() if not batch.header.is_control else ():
        if record.value is None:
            continue
        logged = decode_value(bytes(record.value))
        yield from (logged.producer_id, logged.previous_producer_id, logged.next_producer_id)
        if logged.branching is not None:
            yield from logged.branching.branches
        if logged.owner is not None:
            yield logged.owner.producer_id
