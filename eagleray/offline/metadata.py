"""The metadata of the cluster as a data directory has them: on the machine of a voter, in its metadata log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from eagleray.broker.checked_file import FileDamaged
from eagleray.broker.generations import read_generations
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogError, PartitionLog, Surroundings
from eagleray.broker.log.settling import ALONE
from eagleray.broker.metadata import log_records
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.quorum.election_state import ElectionState, read_election_state
from eagleray.offline.findings import Finding, Severity
from eagleray.offline.layout import LOGS, METADATA_DIRECTORY
from eagleray.offline.overlay import Overlay
from eagleray.offline.partition_opening import NO_SETTINGS, opened
from eagleray.protocol.errors import ProtocolError


class KnownMetadata(msgspec.Struct, frozen=True):
    """What a data directory tells of its cluster."""

    image: MetadataImage | None
    """None where no voter is on the machine, or its log cannot be read."""

    node_ids: frozenset[int] = frozenset()
    """The nodes of the directory."""

    @property
    def machine(self) -> str | None:
        """The name of the machine whose directory this is, where the metadata have it."""
        planned = {} if self.image is None else self.image.plan
        return next((planned[each].machine for each in sorted(self.node_ids) if each in planned), None)

    def settings_of(self, partition: TopicPartition | None) -> Mapping[str, str]:
        """The settings of a partition's topic that were given to it, where they are known."""
        topic = None if self.image is None or partition is None else self.image.topics.get(partition.topic)
        return NO_SETTINGS if topic is None else topic.configs

    def surroundings_of(self, partition: TopicPartition | None) -> Surroundings:
        """What the metadata say of the other replicas of a partition."""
        state = None if self.image is None or partition is None else self.image.find(partition)
        if state is None:
            return ALONE
        return Surroundings(others_in_sync=any(each not in self.node_ids for each in state.isr))


def read_metadata(data_dir: str, node_ids: Iterable[int]) -> tuple[KnownMetadata, list[Finding]]:
    """Read the metadata log of a directory, if it has one, and the vote beside it."""
    directory = f"{data_dir}/{LOGS}/{METADATA_DIRECTORY}"
    nodes = frozenset(node_ids)
    if not os.path.isdir(directory):
        return KnownMetadata(None, nodes), []
    found: list[Finding] = []
    image: MetadataImage | None = None
    with opened(directory) as opening:
        # Where it cannot be opened, the check of the partition says so.
        if opening.log is not None:
            image = _replay(directory, opening.log, found)
            found += _check_election(directory, opening.log)
    return KnownMetadata(image, nodes), found


def _replay(directory: str, log: PartitionLog, found: list[Finding]) -> MetadataImage | None:
    try:
        return log_records.replay(metadata_values(log))
    except (LogError, ProtocolError, msgspec.DecodeError, KeyError) as error:
        found.append(_damage(directory, f"the records of the metadata log do not make up metadata: {error!r}"))
        return None


def metadata_values(log: PartitionLog) -> Iterator[bytes]:
    """The records of a metadata log."""
    records = (record.value for batch in log.batches() for record in batch.records())
    return (bytes(value) for value in records if value is not None)


def _check_election(directory: str, log: PartitionLog) -> Iterator[Finding]:
    path = f"{directory}/quorum-state"
    try:
        election: ElectionState = read_election_state(Overlay(), path)
    except FileDamaged as error:
        yield _damage(
            path,
            f"what this voter has voted for, and how much was committed, cannot be read ({error}). Where other voters "
            "are there, it goes on once it has caught up; a sole voter does not start: restore the file from a copy",
        )
        return
    if read_generations(Overlay(), path, ElectionState.decode).damaged:
        yield _damage(
            path,
            "one of the two generations of this voter's election state cannot be read. The other counts; of several "
            "voters this one is whole again once it has caught up, and writes both anew",
        )
    if election.committed > log.log_end_offset:
        yield _damage(
            directory,
            f"the metadata log ends at offset {log.log_end_offset}, and everything before {election.committed} had "
            "been committed here. Of several voters this one gets it from the others, and leads when it has it; a sole "
            "one does not start: restore the directory from a copy",
        )


def _damage(path: str, what: str) -> Finding:
    return Finding(severity=Severity.DAMAGE, path=path, what=what, partition=METADATA_DIRECTORY)
