"""Members of a quorum on simulated disks, with messages that a test carries by hand."""

from collections.abc import Callable

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush, LogConfig, PartitionLog
from eagleray.broker.quorum.config import QuorumConfig
from eagleray.broker.quorum.election_state import ElectionState, read_election_state, write_election_state
from eagleray.broker.quorum.events import QuorumEffect, QuorumMessage, SendTo
from eagleray.broker.quorum.member import QuorumMember
from eagleray.broker.quorum.ports import Ports
from tests.support.simulated_disk import SimulatedDisk

PARTITION = TopicPartition("__cluster_metadata", 0)
CONFIG = QuorumConfig()
TIMEOUT_MS = CONFIG.controller_quorum_election_timeout_ms
LEASE_MS = CONFIG.controller_quorum_lease_ms
ELECTION_STATE = "/election/election-state"
TIME_OF_DAY_MS = 1_700_000_000_000


class Voters:
    """A quorum whose every message waits until a test carries it; all have one clock, `now_ms`."""

    def __init__(
        self, *node_ids: int, config: QuorumConfig = CONFIG, is_new: bool = False, may_begin: bool = True
    ) -> None:
        self.now_ms = 0
        self.config = config
        self.may_begin = may_begin
        self.disks = {node_id: SimulatedDisk() for node_id in node_ids}
        self.members: dict[int, QuorumMember] = {}
        self.sent: list[tuple[int, SendTo]] = []
        self.others: list[tuple[int, QuorumEffect]] = []
        for node_id, disk in self.disks.items():
            disk.make_directories("/election")
            if not is_new:
                write_election_state(disk, ELECTION_STATE, ElectionState())
            self.start(node_id)

    def __getitem__(self, node_id: int) -> QuorumMember:
        return self.members[node_id]

    def start(self, node_id: int) -> QuorumMember:
        """Begin an incarnation of a voter, with what its disk has."""
        disk = self.disks[node_id]
        disk.crash_process()
        log = PartitionLog.open(disk, "/log", LogConfig(flush=Flush.COMMIT), now_ms=TIME_OF_DAY_MS)
        ports = Ports(
            lambda election: write_election_state(disk, ELECTION_STATE, election), lambda: 0.5, self._time_of_day_ms
        )
        election = read_election_state(disk, ELECTION_STATE)
        voters = tuple(self.disks)
        member = QuorumMember(
            PARTITION,
            node_id,
            voters,
            log,
            election=election,
            ports=ports,
            config=self.config,
            now_ms=self.now_ms,
            may_begin=self.may_begin,
        )
        self.members[node_id] = member
        return member

    def _time_of_day_ms(self) -> int:
        return TIME_OF_DAY_MS + self.now_ms

    def incarnation(self, node_id: int) -> int:
        """The number of the incarnation that a voter is in."""
        return read_election_state(self.disks[node_id], ELECTION_STATE).incarnation

    def replace_disk(self, node_id: int) -> None:
        """Have a voter come back with nothing."""
        self.disks[node_id] = SimulatedDisk()
        self.disks[node_id].make_directories("/election")
        self.start(node_id)

    def take(self, node_id: int, effects: list[QuorumEffect]) -> None:
        for effect in effects:
            if isinstance(effect, SendTo):
                self.sent.append((node_id, effect))
            else:
                self.others.append((node_id, effect))

    def tick(self, node_id: int) -> None:
        due_ms = self[node_id].next_due_ms
        effects = self[node_id].tick(self.now_ms)
        assert not effects or due_ms <= self.now_ms, "what time makes necessary was said to be due"
        self.take(node_id, effects)

    def tell(self, node_id: int, message: QuorumMessage) -> None:
        self.take(node_id, self[node_id].receive(message, self.now_ms))

    def carry(self, is_carried: Callable[[int, SendTo], bool] = lambda source, effect: True) -> None:
        """Carry messages until there are none; those that are not carried are lost."""
        while self.sent:
            source, effect = self.sent.pop(0)
            if is_carried(source, effect):
                self.tell(effect.node_id, effect.message)

    def among(self, *node_ids: int) -> Callable[[int, SendTo], bool]:
        """Only messages between these voters."""
        return lambda source, effect: source in node_ids and effect.node_id in node_ids

    def elect(self, node_id: int, *voters: int) -> None:
        """Have a voter start an election and be elected by these, long after any of them has heard from a leader."""
        self.now_ms += 2 * TIMEOUT_MS
        self.tick(node_id)
        self.carry(self.among(node_id, *voters) if voters else lambda source, effect: True)
        assert self[node_id].is_leader

    def propose(self, node_id: int, *values: bytes) -> int:
        end_offset, effects = self[node_id].propose(values, self.now_ms)
        self.take(node_id, effects)
        assert end_offset is not None
        return end_offset
