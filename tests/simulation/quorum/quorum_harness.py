"""A quorum in one process: voters, network, a client and what goes wrong, from one seed."""

from collections import Counter
from collections.abc import Callable

import msgspec

from eagleray.broker.quorum.member import QuorumMember
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.quorum.quorum_checks import QuorumChecks
from tests.simulation.quorum.voter import SimulatedVoter
from tests.simulation.schedule import Schedule, Violation
from tests.support.faults import Fault, Outcome

TROUBLED_MS = 7000
HEALED_MS = 30_000
ENOUGH = 5
"""How many more values a healed quorum has to take."""


class QuorumFaultPlan(msgspec.Struct, frozen=True):
    """Which faults a seed has, and how often one strikes. A world with few of them goes deeper into each."""

    network_faults: NetworkFaults
    kinds: tuple[str, ...]
    interval_ms: int
    voters: int
    drift: float
    thinking_ms: int
    """How long the client thinks between two values."""

    @classmethod
    def draw(cls, schedule: Schedule) -> "QuorumFaultPlan":
        chance = schedule.chance
        network_faults = NetworkFaults.draw(chance, losses=(0.02, 0.1), delays=(0.03, 0.15))
        kinds = tuple(chance.sample(list(FAULTS), chance.choice([1, 2, 3, 4, 6])))
        return cls(
            network_faults,
            kinds,
            chance.choice([80, 200, 600]),
            chance.choice([3, 3, 5]),
            chance.choice([0.0, 0.1, 0.1]),
            chance.choice([10, 60, 200]),
        )


class QuorumHarness:
    """One simulated quorum."""

    member_type = QuorumMember

    def __init__(self, seed: int, *, loses_logs: bool = False) -> None:
        self.schedule = Schedule(seed)
        plan = QuorumFaultPlan.draw(self.schedule)
        # In worlds of its own, so that what the seeds of the others have found stays there.
        kinds = (*plan.kinds, LOSE_LOG_END) if loses_logs else plan.kinds
        self.fault_plan = msgspec.structs.replace(plan, kinds=kinds)
        self.network = Network(self.schedule, self.fault_plan.network_faults)
        self.checks = QuorumChecks(self)
        self.voter_ids = tuple(range(1, self.fault_plan.voters + 1))
        self.voters = {node_id: self._voter(node_id) for node_id in self.voter_ids}
        self._values = 0
        self._is_healed = False
        self._crashes_elected = False
        self._to_be_elected: list[Callable[[SimulatedVoter], None]] = []
        self._untold: SimulatedVoter | None = None
        for voter in self.voters.values():
            voter.start()
        self._propose()
        self._plan_fault()

    def _voter(self, node_id: int) -> SimulatedVoter:
        chance, drift = self.schedule.chance, self.fault_plan.drift
        self.schedule.fired["clock skewed"] += bool(drift)
        speed = chance.choice([1 - drift, 1 + drift, chance.uniform(1 - drift, 1 + drift)])
        return SimulatedVoter(self, node_id, speed, chance.randint(0, 10**6))

    def run(self) -> Counter[str]:
        """Run in trouble, heal, and run until all is well; return what happened how often."""
        while self.schedule.now_ms < TROUBLED_MS:
            self._step()
        self._heal()
        until_ms = self.schedule.now_ms + HEALED_MS
        wanted = self.checks.acknowledgements + ENOUGH
        while self.checks.acknowledgements < wanted or not self._is_calm():
            if self.schedule.now_ms > until_ms:
                raise Violation(f"a healed quorum did not become well: {self._where()}")
            self._step()
        self.checks.finish()
        return self.schedule.fired

    def _step(self) -> None:
        self.schedule.step()
        self.checks.step()

    def _heal(self) -> None:
        self._is_healed = True
        self.network.network_faults = NetworkFaults()
        self.network.heal()
        for voter in self.voters.values():
            voter.disk.mend()
            voter.wake()
            voter.start_unless_up()

    def _is_calm(self) -> bool:
        logs = [voter.log for voter in self.voters.values()]
        ends = {(log.log_end_offset, log.high_watermark) for log in logs if log is not None}
        return None not in logs and ends == {(self.checks.committed_end,) * 2}

    def _where(self) -> list[tuple[int, int, int, int, bool]]:
        return [
            (voter.node_id, voter.member.term, voter.log.high_watermark, voter.log.log_end_offset, voter.holds())
            for voter in self.voters.values()
            if voter.log is not None and voter.member is not None
        ]

    def _propose(self) -> None:
        """A client tells all voters, one of which may be the leader, what it wants to be kept."""
        self._values += 1
        value = f"value {self._values}".encode()
        for voter in self.voters.values():
            voter.propose(value)
        self.schedule.after(self.schedule.chance.randint(1, 2 * self.fault_plan.thinking_ms), self._propose)

    # What goes wrong

    def _plan_fault(self) -> None:
        self.schedule.after(self.schedule.chance.randint(10, 2 * self.fault_plan.interval_ms), self._strike)

    def _strike(self) -> None:
        if not self._is_healed:
            kind = self.schedule.chance.choice(self.fault_plan.kinds)
            (QuorumHarness.lose_log_end if kind == LOSE_LOG_END else FAULTS[kind])(self)
            self._plan_fault()

    def _pick(self) -> SimulatedVoter:
        """Choose a voter, rather the leader."""
        leaders = [voter for voter in self.voters.values() if voter.member is not None and voter.member.is_leader]
        if leaders and self.schedule.happens(0.5):
            return leaders[-1]
        return self.voters[self.schedule.chance.choice(self.voter_ids)]

    def _fired(self, fault: str, voter: SimulatedVoter) -> None:
        leads = voter.member is not None and voter.member.is_leader
        self.schedule.fired[fault + (" of a leader" if leads else " of a follower")] += 1

    def crash(self, *, loses_power: bool = False) -> None:
        voter = self._pick()
        if voter.is_up:
            self._fired("loss of power" if loses_power else "crash", voter)
            voter.crash(loses_power=loses_power)
            self.schedule.after(self.schedule.chance.choice([5, 100, 600, 1500]), voter.start_unless_up)

    def lose_power(self) -> None:
        self.crash(loses_power=True)

    def replace_machine(self) -> None:
        """Have a voter come back with an empty disk, where no other is about to find again what it has lost."""
        voter = self._pick()
        if all(each.is_whole for each in self.voters.values()):
            self._fired("loss of a machine", voter)
            if voter.is_up:
                voter.crash(loses_power=True)
            voter.replace_disk()
            self.schedule.after(self.schedule.chance.choice([5, 100, 600]), voter.start_unless_up)

    def lose_log_end(self) -> None:
        """Have a voter come back without the end of its log, or without all of it, where no other has lost any."""
        voter = self._pick()
        if not voter.is_up or not all(each.is_whole for each in self.voters.values()):
            return
        self._fired("loss of the end of a log", voter)
        voter.crash(loses_power=False)
        voter.disk.mend()
        voter.lose_log_end(self.schedule.chance.choice([0.0, 0.5, 0.9]))
        self.schedule.after(self.schedule.chance.choice([5, 100, 600]), voter.start_unless_up)

    def stop_all(self) -> None:
        """All voters go down, and come back in any order."""
        self.schedule.fired["crash of all nodes"] += 1
        for voter in self.voters.values():
            if voter.is_up:
                voter.crash(loses_power=self.schedule.happens(0.7))
            self.schedule.after(self.schedule.chance.randint(1, 800), voter.start_unless_up)

    def pause(self) -> None:
        voter = self._pick()
        if voter.is_up:
            self._fired("pause", voter)
            voter.pause()
            self.schedule.after(self.schedule.chance.choice([50, 300, 500, 1200]), voter.wake)

    def part_one_way(self) -> None:
        source, target = self.schedule.chance.sample(self.voter_ids, 2)
        self.schedule.fired["partition one way"] += 1
        self.network.cut(source, target)
        self._heal_later()

    def part_both_ways(self) -> None:
        """Part some voters from all others, rather the leader alone, or with one that is left."""
        count = self.schedule.chance.randint(1, len(self.voter_ids) - 1)
        apart = {self._pick().node_id, *self.schedule.chance.sample(self.voter_ids, count - 1)}
        self.schedule.fired["partition both ways"] += 1
        for source in self.voter_ids:
            for target in self.voter_ids:
                if (source in apart) != (target in apart):
                    self.network.cut(source, target)
        self._heal_later()

    def part_two(self) -> None:
        """Part two voters from each other, while others hear from both."""
        one, other = self._pick().node_id, self.schedule.chance.choice(self.voter_ids)
        self.schedule.fired["partition of two"] += 1
        self.network.cut(one, other)
        self.network.cut(other, one)
        self._heal_later()

    def _heal_later(self) -> None:
        self.schedule.after(self.schedule.chance.choice([100, 500, 1000, 2000]), self.network.heal)

    def restart_followers(self) -> None:
        """All but the leader go down, and are back before it is missed."""
        self.schedule.fired["crash of all followers"] += 1
        for voter in self.voters.values():
            if voter.is_up and voter.member is not None and not voter.member.is_leader:
                voter.crash(loses_power=self.schedule.happens(0.5))
                self.schedule.after(self.schedule.chance.randint(1, 40), voter.start_unless_up)

    def crash_the_next_elected(self) -> None:
        """Have the next leader go down before it has told all others, or any, that it is the leader."""
        self._crashes_elected = True

    def draw_figure_eight(self) -> None:
        """Begin what Raft's figure 8 shows: the leader goes on alone, and its successor dies with nothing told."""
        leaders = [voter for voter in self.voters.values() if voter.member is not None and voter.member.is_leader]
        if leaders and not self._to_be_elected:
            self._cut_off(leaders[-1])
            self._to_be_elected = [self._die_untold, self._die_while_pushing]

    def _die_untold(self, voter: SimulatedVoter) -> None:
        self._crash(voter, 3000)
        self._untold = voter
        self.network.heal()

    def _die_while_pushing(self, voter: SimulatedVoter) -> None:
        """The old leader, elected again, has pushed some of what it has; the one that had told nothing is back."""
        self.schedule.fired["figure 8"] += 1
        untold = self._untold

        def die() -> None:
            self._crash(voter, 1500)
            if untold is not None:
                untold.start_unless_up()

        self.schedule.after(self.schedule.chance.randint(3, 40), die)

    def _cut_off(self, voter: SimulatedVoter) -> None:
        for other in self.voter_ids:
            self.network.cut(voter.node_id, other)
            self.network.cut(other, voter.node_id)

    def elected(self, voter: SimulatedVoter) -> None:
        """A voter was elected, and has told no other yet."""
        if self._is_healed:
            return
        if self._to_be_elected:
            act = self._to_be_elected.pop(0)
            if act == self._die_untold:
                self._cut_off(voter)
            self.schedule.after(0, lambda: act(voter))
        if not self._crashes_elected:
            return
        self._crashes_elected = False
        self.schedule.fired["crash of a leader just elected"] += 1
        down_ms = self.schedule.chance.choice([100, 600, 1500])
        self.schedule.after(self.schedule.chance.randint(0, 15), lambda: self._crash(voter, down_ms))

    def _crash(self, voter: SimulatedVoter, down_ms: int) -> None:
        if voter.is_up:
            voter.crash(loses_power=False)
            self.schedule.after(down_ms, voter.start_unless_up)

    def break_disk(self) -> None:
        """Have one of a disk's next changes fail, or kill the process with a part of it done."""
        chance = self.schedule.chance
        outcome = chance.choice([Outcome.FAIL, Outcome.KILL])
        fault = Fault(outcome, skip=chance.randint(0, 10), done_bytes=chance.choice([0, 1, 50]))
        self._pick().disk.break_once(fault)


LOSE_LOG_END = "lose log end"

FAULTS: dict[str, Callable[[QuorumHarness], None]] = {
    "crash": QuorumHarness.crash,
    "lose power": QuorumHarness.lose_power,
    "replace machine": QuorumHarness.replace_machine,
    "stop all": QuorumHarness.stop_all,
    "pause": QuorumHarness.pause,
    "part one way": QuorumHarness.part_one_way,
    "part both ways": QuorumHarness.part_both_ways,
    "part two": QuorumHarness.part_two,
    "restart followers": QuorumHarness.restart_followers,
    "crash the next elected": QuorumHarness.crash_the_next_elected,
    "figure eight": QuorumHarness.draw_figure_eight,
    "break disk": QuorumHarness.break_disk,
}


def simulate_quorum(seed: int, *, loses_logs: bool = False) -> Counter[str]:
    """Run the quorum of a seed; whatever is wrong raises, with the seed."""
    try:
        return QuorumHarness(seed, loses_logs=loses_logs).run()
    except Exception as error:
        raise Violation(f"seed {seed}: {type(error).__name__}: {error}") from error
