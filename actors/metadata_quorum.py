"""One voter of the quorum that keeps the metadata log, with its disk, its clock and its lanes at hand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from eagleray.actors.logs import Logs
from eagleray.actors.messages import QuorumTold
from eagleray.actors.settings import quorum_config
from eagleray.actors.shell import Host
from eagleray.broker.controller.topics import CLUSTER_METADATA, NO_TOPIC_ID
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogOffline
from eagleray.broker.quorum.election_state import read_election_state, write_election_state
from eagleray.broker.quorum.events import Committed, Deposed, Elected, QuorumEffect, QuorumMessage, SendTo
from eagleray.broker.quorum.member import Ports, QuorumMember

_log = logging.getLogger(__name__)

METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA, 0)
_SETTINGS: Final = {"retention.ms": "-1", "flush": "commit"}


class MetadataQuorum:
    """Keeps this node's copy of the metadata log, and knows whether this node may decide.

    Owns: the log's directory, and the file beside it with the election state. Persists: both, before anything is said
    that rests on them. A disk that fails ends the process. This node calls `deposed` when it leads no more.
    """

    def __init__(self, host: Host, logs: Logs, deposed: Callable[[], None]) -> None:
        self._host = host
        self._deposed = deposed
        self._log = logs.open(METADATA_PARTITION, _SETTINGS, NO_TOPIC_ID, now_ms=host.now_ms())
        disk, path = host.disk, f"{logs.directory_of(METADATA_PARTITION)}/quorum-state"
        self._member = QuorumMember(
            METADATA_PARTITION,
            host.spec.node_id,
            host.spec.controllers,
            self._log,
            election=read_election_state(disk, path),
            ports=Ports(
                persist=lambda election: write_election_state(disk, path, election),
                chance=host.chance,
                time_of_day_ms=host.now_ms,
            ),
            config=quorum_config(host.spec.settings),
            now_ms=host.steady_ms(),
        )

    @property
    def leader(self) -> int:
        """The node that leads, as far as is known here."""
        return self._member.leader

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

    def holds(self) -> bool:
        """Whether surely no other node decides at this moment."""
        return self._member.holds(self._host.steady_ms())

    def values(self) -> Iterator[bytes]:
        """Everything in the log, for a leader that has proposed nothing yet."""
        assert self.committed_offset == self.end_offset
        records = (record.value for batch in self._log.batches() for record in batch.records())
        return (bytes(value) for value in records if value is not None)

    def propose(self, values: Sequence[bytes]) -> int | None:
        """Append records, all or none; they are there for good once `committed_offset` has reached what this returns.

        None where this node does not lead. LogWriteFailed where nothing was appended.
        """
        end_offset, effects = self._member.propose(values, self._host.steady_ms())
        self._perform(effects)
        return end_offset

    def trim(self, before_offset: int) -> None:
        """Delete what lies before a committed record that stands for all of it."""
        self._perform(self._member.trim(before_offset, self._host.steady_ms()))

    def told(self, message: QuorumMessage) -> None:
        """Take what another voter says."""
        self._perform(self._member.receive(message, self._host.steady_ms()))
        self._require_log()

    @property
    def next_due_ms(self) -> int:
        """When time changes something, by the steady clock."""
        return self._member.next_due_ms

    def tick(self) -> None:
        """Take note of the time."""
        self._perform(self._member.tick(self._host.steady_ms()))
        self._require_log()

    def _require_log(self) -> None:
        if not self._log.is_online:
            raise LogOffline(f"{METADATA_PARTITION}: the log has failed, and has to be opened anew")

    def _perform(self, effects: list[QuorumEffect]) -> None:
        for effect in effects:
            match effect:
                case SendTo():
                    self._host.peers.ask(effect.node_id, None, QuorumTold, effect.message)
                case Elected():
                    _log.info("node %s was elected in term %s", self._host.spec.node_id, effect.term)
                case Deposed():
                    _log.info("node %s leads no longer in term %s", self._host.spec.node_id, effect.term)
                    self._deposed()
                case Committed():
                    # The controller, which waits for it, looks at how far it has come.
                    pass
