"""One voter of the quorum that keeps the metadata log, with its disk, its clock and its lanes at hand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from eagleray.actors.common.settings import config_of
from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.lanes.messages import RaftMessage
from eagleray.actors.lanes.peers import Peers
from eagleray.actors.storage.data_directory import DataDirectory
from eagleray.actors.storage.disk import Disk
from eagleray.actors.storage.log_manager import LogManager
from eagleray.actors.storage.metadata_log import ELECTION_STATE_FILE, METADATA_PARTITION, SETTINGS
from eagleray.broker.checked_file import FileDamaged
from eagleray.broker.log import LogDamaged, LogOffline, PartitionLog, Surroundings
from eagleray.broker.log.scrubbing import Scrub
from eagleray.broker.metadata.directory_identity import foreign
from eagleray.broker.metadata.topics import NO_TOPIC_ID
from eagleray.broker.quorum.config import QuorumConfig
from eagleray.broker.quorum.election_state import (
    NO_ELECTION_STATE,
    ElectionState,
    read_election_state,
    write_election_state,
)
from eagleray.broker.quorum.events import Committed, Deposed, Elected, QuorumEffect, SendTo
from eagleray.broker.quorum.member import QuorumMember
from eagleray.broker.quorum.ports import Ports

_log = logging.getLogger(__name__)

_READ_BYTES: Final = 1024 * 1024

__all__ = ["METADATA_PARTITION", "MetadataLost", "MetadataQuorum"]


class MetadataLost(Exception):
    """The metadata log of the only voter is gone or too short; the text says what to do."""


class MetadataQuorumContext(Protocol):
    """What a voter uses of its node."""

    spec: NodeSpec
    peers: Peers
    disk: Disk
    directory: DataDirectory

    def now_ms(self) -> int:
        """The time of day."""

    def steady_ms(self) -> int:
        """The time by a clock that is never set."""

    def chance(self) -> float:
        """A random number from 0 to 1."""


class MetadataQuorum:
    """Keeps this node's copy of the metadata log, and knows whether this node may decide.

    Owns: the log's directory, and the file beside it with the election state. Persists: both, before anything is said
    that rests on them. A log that is damaged is put aside, where there are other voters to repair it. A disk that fails
    ends the process. This node calls `deposed` when it leads no more.
    """

    def __init__(self, context: MetadataQuorumContext, logs: LogManager, deposed: Callable[[], None]) -> None:
        self._context = context
        self._deposed = deposed
        self._foreign: set[str] = set()
        """Clusters of voters that are not listened to, which was said once."""
        self._check_begun(logs)
        disk, path = context.disk, f"{logs.directory_of(METADATA_PARTITION)}/{ELECTION_STATE_FILE}"
        self._election = self._read_election_state(path)
        self._log = self._open(logs)
        self._member = QuorumMember(
            METADATA_PARTITION,
            context.spec.node_id,
            context.spec.controllers,
            self._log,
            election=self._election,
            ports=Ports(
                persist=lambda election: write_election_state(disk, path, election),
                chance=context.chance,
                time_of_day_ms=context.now_ms,
            ),
            config=config_of(QuorumConfig, context.spec.settings),
            may_begin=context.directory.may_begin_metadata,
            now_ms=context.steady_ms(),
        )
        self._check_can_lead()
        self._note_begun()

    def _read_election_state(self, path: str) -> ElectionState:
        """Return what this voter has voted; where that is damaged, it is as good as a voter with another disk."""
        try:
            return read_election_state(self._context.disk, path)
        except FileDamaged as error:
            problem = f"{path} is damaged: {error}. It says what this voter has voted for, and how much was committed"
            if self.is_alone:
                raise MetadataLost(
                    f"{problem}. Nothing was changed. Restore it from a copy; or, if the metadata log is whole, remove "
                    "the file, and this voter goes on with the log that it finds"
                ) from error
            _log.error("%s. Until it has caught up, its vote counts only where all vote alike", problem)
            return NO_ELECTION_STATE

    def _open(self, logs: LogManager) -> PartitionLog:
        """Open the log and read all of it, which is little: what was rotten would be noticed by the next controller."""
        try:
            log = self._open_as_it_is(logs)
            # What is not flushed was not acknowledged, but its damage would end this node at a later scrub.
            scrub = Scrub(log, to_the_end=not self.is_alone)
            while scrub.step(_READ_BYTES):
                pass
        except LogDamaged as error:
            if self.is_alone:
                raise MetadataLost(self._describe_loss(f"is damaged ({error})")) from error
            return self._begin_anew(logs, error)
        return log

    def _open_as_it_is(self, logs: LogManager) -> PartitionLog:
        # What a voter has not flushed it has not acknowledged, and takes again from the others.
        others = Surroundings(others_in_sync=not self.is_alone)
        now_ms = self._context.now_ms()
        return logs.open(METADATA_PARTITION, SETTINGS, NO_TOPIC_ID, now_ms=now_ms, surroundings=others)

    def _begin_anew(self, logs: LogManager, error: LogDamaged) -> PartitionLog:
        """Put a damaged log aside, and begin with an empty one, which the other voters fill.

        The election state lies beside the log, and is written again before this voter says anything; a crash before
        that leaves a voter with a new disk.
        """
        _log.error(
            "the metadata log of node %s is damaged, and is put aside; the other voters repair it, and until then this "
            "one does not lead, and its vote counts only where all vote alike: %s",
            self._context.spec.node_id,
            error,
        )
        self._election = msgspec.structs.replace(self._election, is_whole=False)
        logs.put_away(METADATA_PARTITION)
        return self._open_as_it_is(logs)

    def _check_begun(self, logs: LogManager) -> None:
        """Raise MetadataLost before anything is written where the log of the only voter is gone."""
        if self.is_alone and not self._context.directory.may_begin_metadata and not logs.has_files(METADATA_PARTITION):
            raise MetadataLost(self._describe_loss("is not there"))

    def _check_can_lead(self) -> None:
        """Raise MetadataLost where the only voter cannot lead; say so where others have to lead."""
        if self._member.may_stand:
            return
        end = self._log.log_end_offset
        loss = self._describe_loss(f"ends at offset {end}, and has lost some" if end else "is empty")
        if self.is_alone:
            raise MetadataLost(loss)
        _log.warning("%s. This voter follows, and leads once it has got the log from the others", loss)

    @property
    def is_alone(self) -> bool:
        """Whether there is no other voter."""
        return len(self._context.spec.controllers) == 1

    def _describe_loss(self, what: str) -> str:
        spec = self._context.spec
        problem = (
            f"the metadata log of node {spec.node_id}, {spec.data_dir}/logs/{METADATA_PARTITION}, {what}; expected the "
            "one that it had, because `eagleray start` has not just formatted this data directory"
        )
        if not self.is_alone:
            return problem
        return (
            f"{problem}. It says which topics there are and which producer ids were handed out. Nothing was changed. "
            "Restore that folder from a copy, or start the cluster with the data directory that has it. Where there is "
            "no copy, `eagleray storage restore-metadata` makes it again from the last metadata that the nodes have "
            "kept. A new cluster begins in an empty data directory"
        )

    def _note_begun(self) -> None:
        """Note that there is a log, before anything is said that rests on it."""
        if self._log.log_end_offset > self._log.log_start_offset:
            self._context.directory.metadata_has_begun()

    def describe(self) -> dict[str, int | bool]:
        """What a status shows of the voter."""
        return {
            "leader": self.leader,
            "term": self.term,
            "end_offset": self.end_offset,
            "committed_offset": self.committed_offset,
            "may_lead": self._member.may_stand,
        }

    @property
    def leader(self) -> int:
        """The node that leads, as far as is known here."""
        return self._member.leader

    @property
    def term(self) -> int:
        """The newest term that is known here: that of this node, where it is active."""
        return self._member.term

    @property
    def is_active(self) -> bool:
        """Whether this node leads, and knows all that was ever decided."""
        return self._member.is_settled

    @property
    def committed_offset(self) -> int:
        """Everything before it in the log is there for good."""
        return self._member.committed_offset

    @property
    def start_offset(self) -> int:
        """Where the log begins."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """Where the log ends."""
        return self._log.log_end_offset

    @property
    def is_all_committed(self) -> bool:
        """Whether nothing in the log is uncertain."""
        return self.committed_offset == self.end_offset

    def holds(self) -> bool:
        """Whether surely no other node decides at this moment."""
        return self._member.holds(self._context.steady_ms())

    def values(self) -> Iterator[bytes]:
        """Everything in the log, for a leader that has nothing under way."""
        assert self.is_all_committed
        records = (record.value for batch in self._log.batches() for record in batch.records())
        return (bytes(value) for value in records if value is not None)

    def propose(self, values: Sequence[bytes]) -> int:
        """Append records, all or none; they are there for good once `committed_offset` has reached what this returns.

        Only a leader proposes. LogWriteFailed where nothing was appended.
        """
        end_offset, effects = self._member.propose(values, self._context.steady_ms())
        assert end_offset is not None, "this node does not lead"
        self._perform(effects)
        return end_offset

    def trim(self, before_offset: int) -> None:
        """Delete what lies before a committed record that stands for all of it."""
        self._perform(self._member.trim(before_offset, self._context.steady_ms()))

    def receive(self, told: RaftMessage) -> None:
        """Take what another voter says, if it is one of the same cluster."""
        own = self._context.directory.cluster_id
        if own and told.cluster_id and own != told.cluster_id:
            if told.cluster_id not in self._foreign:
                self._foreign.add(told.cluster_id)
                _log.error("%s", foreign(told.cluster_id, own, "the data directory of another voter"))
            return
        self._perform(self._member.receive(told.message, self._context.steady_ms()))
        self._require_log()

    @property
    def next_due_ms(self) -> int:
        """When time changes something, by the steady clock."""
        return self._member.next_due_ms

    def tick(self) -> None:
        """Take note of the time."""
        self._perform(self._member.tick(self._context.steady_ms()))
        self._require_log()

    def _require_log(self) -> None:
        if not self._log.is_online:
            raise LogOffline(f"{METADATA_PARTITION}: the log has failed, and has to be opened anew")

    def _perform(self, effects: list[QuorumEffect]) -> None:
        self._note_begun()
        for effect in effects:
            match effect:
                case SendTo():
                    cluster_id = self._context.directory.cluster_id
                    self._context.peers.ask(effect.node_id, None, RaftMessage, effect.message, cluster_id)
                case Elected():
                    _log.info("node %s was elected in term %s", self._context.spec.node_id, effect.term)
                case Deposed():
                    _log.info("node %s leads no longer in term %s", self._context.spec.node_id, effect.term)
                    self._deposed()
                case Committed():
                    # The controller, which waits for it, looks at how far it has come.
                    pass
