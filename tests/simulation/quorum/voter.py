"""A simulated voter: the process round a member of a quorum, on a disk and with a clock of its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush, LogConfig, LogError, PartitionLog
from eagleray.broker.quorum.config import QuorumConfig
from eagleray.broker.quorum.election_state import read_election_state, write_election_state
from eagleray.broker.quorum.events import Committed, Deposed, Elected, QuorumEffect, SendTo, VoteAnswered
from eagleray.broker.quorum.member import QuorumMember
from eagleray.broker.quorum.ports import Ports
from tests.support.faults import ProcessKilled
from tests.support.simulated_disk import SimulatedDisk

if TYPE_CHECKING:
    from tests.simulation.quorum.quorum_harness import QuorumHarness

PARTITION = TopicPartition("__cluster_metadata", 0)
ELECTION_STATE = "/election/election-state"
CONFIG = QuorumConfig(
    controller_quorum_election_timeout_ms=400,
    controller_quorum_lease_ms=327,
    controller_quorum_heartbeat_interval_ms=60,
    controller_quorum_push_timeout_ms=120,
    controller_quorum_push_max_bytes=250,
)
TICK_MS = 20
SNAPSHOT_EVERY = 25
_BOOT_MS = 1_700_000_000_000
LOG_CONFIG = LogConfig(segment_bytes=1024, index_interval_bytes=200, flush=Flush.COMMIT)


class SimulatedVoter:
    """One voter, through all its incarnations.

    Its clock has its own beginning and its own speed. What it sends leaves at once; what comes while it is paused waits
    until it wakes, and what comes while it is down is gone.
    """

    def __init__(self, harness: "QuorumHarness", node_id: int, speed: float, offset_ms: int) -> None:
        self.harness = harness
        self.node_id = node_id
        self.disk = SimulatedDisk()
        self.disk.make_directories("/election")
        self.is_up = False
        self.process = 0
        self.may_begin = node_id == harness.voter_ids[0]
        """Whether its disk is the one on which the log of the quorum begins."""
        self.member: QuorumMember | None = None
        self.log: PartitionLog | None = None
        self._speed = speed
        self._offset_ms = offset_ms
        self._is_paused = False
        self._missed: list[Callable[[], None]] = []
        self._proposed: dict[int, bytes] = {}
        self._snapshot_offset = -1
        self._has_lost_end = False
        """Whether its log has lost some since it was last up, which its election state does not say yet."""
        harness.network.connect(node_id, self.receive)

    @property
    def now_ms(self) -> int:
        """The time by this voter's clock."""
        return self._offset_ms + int(self.harness.schedule.now_ms * self._speed)

    def holds(self) -> bool:
        return self.member is not None and self.member.holds(self.now_ms)

    # Incarnation and death

    def start(self) -> None:
        self.is_up = True
        self._is_paused = False
        self.process += 1
        self._guarded(self._open)

    def _open(self) -> None:
        self.log = PartitionLog.open(self.disk, "/log", LOG_CONFIG, now_ms=_BOOT_MS)
        ports = Ports(
            persist=lambda election: write_election_state(self.disk, ELECTION_STATE, election),
            chance=self.harness.schedule.chance.random,
            time_of_day_ms=lambda: _BOOT_MS + self.now_ms,
        )
        self.member = self.harness.member_type(
            PARTITION,
            self.node_id,
            self.harness.voter_ids,
            self.log,
            election=read_election_state(self.disk, ELECTION_STATE),
            ports=ports,
            config=CONFIG,
            may_begin=self.may_begin,
            now_ms=self.now_ms,
        )
        self._has_lost_end = False
        self._tick_of(self.process)()

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something that the disk may not survive: whatever it raises ends the process."""
        try:
            action()
        except ProcessKilled:
            self.harness.schedule.fired["death in the middle of a write"] += 1
            self._die_and_restart()
        except (LogError, OSError):
            self.harness.schedule.fired["error of a disk"] += 1
            self._die_and_restart()
        if self.log is not None and not self.log.is_online:
            self.harness.schedule.fired["log offline"] += 1
            self._die_and_restart()

    def _die_and_restart(self) -> None:
        self.crash(loses_power=False)
        self.harness.schedule.after(self.harness.schedule.chance.randint(1, 300), self.start_unless_up)

    def start_unless_up(self) -> None:
        if not self.is_up:
            self.start()

    def crash(self, *, loses_power: bool) -> None:
        self.is_up = False
        self._missed.clear()
        self._proposed.clear()
        self._snapshot_offset = -1
        self.log = self.member = None
        if loses_power:
            chance = self.harness.schedule.chance
            kept = chance.choice([0.0, 0.0, 0.5, 0.95])
            self.disk.lose_power(lambda: chance.random() < kept)
        else:
            self.disk.crash_process()

    def replace_disk(self) -> None:
        """Come back with an empty disk, as a new machine in place of one that is gone."""
        self.disk = SimulatedDisk()
        self.may_begin = False
        self.disk.make_directories("/election")
        self.harness.checks.replaced(self.node_id)

    def lose_log_end(self, keeps: float) -> None:
        """Cut the log that is on the disk, as if a part of it were gone."""
        log = PartitionLog.open(self.disk, "/log", LOG_CONFIG, now_ms=_BOOT_MS)
        start, end = log.log_start_offset, log.log_end_offset
        to_offset = start + int((end - start) * keeps)
        log.truncate(to_offset, now_ms=_BOOT_MS)
        log.close()
        self._has_lost_end = to_offset < end

    @property
    def is_whole(self) -> bool:
        """Whether the disk has everything that this voter has said."""
        return not self._has_lost_end and read_election_state(self.disk, ELECTION_STATE).is_whole

    def pause(self) -> None:
        self._is_paused = True

    def wake(self) -> None:
        if self._is_paused:
            self._is_paused = False
            missed, self._missed = self._missed, []
            for action in missed:
                if self.is_up:
                    self._guarded(action)

    # What comes

    def receive(self, source: object, message: Any) -> None:
        def take() -> None:
            if self.member is not None:
                self._perform(self.member.receive(message, self.now_ms))

        if self.is_up:
            self._when_awake(take)

    def _when_awake(self, action: Callable[[], None]) -> None:
        if self._is_paused:
            self._missed.append(action)
        else:
            self._guarded(action)

    def _tick_of(self, process: int) -> Callable[[], None]:
        """The ticks of one process end with it."""

        def tick() -> None:
            if self.is_up and self.process == process:
                self._when_awake(self._on_tick)
                self.harness.schedule.after(TICK_MS, tick)

        return tick

    def _on_tick(self) -> None:
        assert self.member is not None
        self._perform(self.member.tick(self.now_ms))
        self._snapshot()

    def _perform(self, effects: list[QuorumEffect]) -> None:
        for effect in effects:
            match effect:
                case SendTo(message=VoteAnswered() as vote):
                    self.harness.checks.voted(effect.node_id, vote)
                    self.harness.network.send(self.node_id, effect.node_id, vote)
                case SendTo():
                    self.harness.network.send(self.node_id, effect.node_id, effect.message)
                case Elected():
                    self.harness.checks.elected(self, effect.term)
                case Deposed():
                    self.harness.schedule.fired["leader deposed"] += 1
                    self._proposed.clear()
                    self._snapshot_offset = -1
                case Committed():
                    self._on_committed(effect.offset)

    # What clients do, and the controller

    def propose(self, value: bytes) -> None:
        """Take a client's value, if this voter may; it is acknowledged once it is committed, and never otherwise."""

        def act() -> None:
            member = self.member
            if member is None or not member.is_settled or not member.holds(self.now_ms):
                self.harness.schedule.fired["proposal refused"] += 1
                return
            end_offset, effects = member.propose([value], self.now_ms)
            assert end_offset is not None
            self._proposed[end_offset] = value
            self._perform(effects)

        if self.is_up:
            self._when_awake(act)

    def _on_committed(self, offset: int) -> None:
        member = self.member
        if member is None or not member.is_leader:
            return
        for end_offset in [end for end in self._proposed if end <= offset]:
            value = self._proposed.pop(end_offset)
            if member.holds(self.now_ms):
                self.harness.checks.acknowledged(self, end_offset - 1, value)
            else:
                self.harness.schedule.fired["committed, but too late to say so"] += 1

    def _snapshot(self) -> None:
        """Write what stands for everything before it, now and then, and then delete what was before it."""
        member, log = self.member, self.log
        if member is None or log is None or not member.is_settled:
            return
        if 0 <= self._snapshot_offset < log.high_watermark:
            self.harness.schedule.fired["log trimmed"] += 1
            offset, self._snapshot_offset = self._snapshot_offset, -1
            self._perform(member.trim(offset, self.now_ms))
        elif self._snapshot_offset < 0 and log.log_end_offset - log.log_start_offset > SNAPSHOT_EVERY:
            self._snapshot_offset = log.log_end_offset
            self._perform(member.propose([b"image"], self.now_ms).effects)
