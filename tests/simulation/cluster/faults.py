"""What goes wrong with the machines of a simulated world."""

import errno
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from eagleray.actors.roles.metadata_quorum import METADATA_PARTITION
from eagleray.broker.log import Flush
from tests.simulation.cluster.clocks import CLOCK_FAULTS
from tests.simulation.cluster.file_damage import Damage, plan_damage
from tests.simulation.cluster.file_kinds import CELLS, cell_name
from tests.simulation.cluster.places import COORDINATED, INPUTS, TRANSFORM_GROUP, USER_PARTITIONS
from tests.simulation.cluster.states import OUT_OF_SYNC, STATES
from tests.support.faults import Fault, Operation, Outcome, Step

if TYPE_CHECKING:
    from tests.simulation.cluster.client import Client
    from tests.simulation.cluster.harness import Harness
    from tests.simulation.cluster.machine import SimulatedMachine

CHANGES = frozenset({Operation.WRITE, Operation.TRUNCATE, Operation.CREATE, Operation.RENAME, Operation.REMOVE})
CELLS_EACH = 17
"""How much further in the table of damage the next seed begins."""

DAMAGES_AT_ONCE = 3
PERSON_COMES_MS = 1500

FLUSHES = frozenset({Operation.FLUSH, Operation.FLUSH_DIRECTORY})


class CountedFault(Fault):
    """A fault of a disk that says when it strikes."""

    def __init__(self, outcome: Outcome, fired: Callable[[], None], **options: object) -> None:
        super().__init__(outcome, **options)  # type: ignore[arg-type]
        self._fired = fired

    def strikes(self, step: Step) -> bool:
        is_struck = super().strikes(step)
        if is_struck:
            self._fired()
        return is_struck


class Faults:
    """Strikes a world now and then, until it is healed."""

    def __init__(self, harness: "Harness") -> None:
        self._harness = harness
        self._fault_plan = harness.fault_plan
        self._schedule = harness.schedule
        self._chance = harness.schedule.chance
        self._cells = deque(CELLS)
        self._cells.rotate(-CELLS_EACH * harness.schedule.seed)
        self._cells = deque(sorted(self._cells, key=lambda each: cell_name(*each) not in harness.wanted))
        self.is_over = False

    def begin(self) -> None:
        if DISK_FAULTS.keys() & {*self._fault_plan.kinds}:
            for machine in self._harness.machines.values():
                machine.backups.take()
        self._strike_later()

    def _strike_later(self) -> None:
        self._schedule.after(self._chance.randint(10, 2 * self._fault_plan.interval_ms), self._strike)

    def _strike(self) -> None:
        if not self.is_over:
            self._look_at_clocks()
            faults = FAULTS | METADATA_FAULTS | DISK_FAULTS | CLOCK_FAULTS | TOPIC_FAULTS
            faults[self._chance.choice(self._fault_plan.kinds)](self)
            self._strike_later()

    def _look_at_clocks(self) -> None:
        for machine in self._harness.machines.values():
            if machine.clock.speed != 1.0:
                self._harness.states.struck("clock of another speed", machine)

    def _pick(self) -> "SimulatedMachine":
        """Choose a machine by what its node is, so that all states have their share, the rare one most of all."""
        machines = list(self._harness.machines.values())
        lagging = [machine for machine in machines if OUT_OF_SYNC in self._harness.states.of(machine)]
        if lagging and self._schedule.happens(0.5):
            return self._chance.choice(lagging)
        state = self._chance.choice(STATES)
        wanted = [machine for machine in machines if state in self._harness.states.of(machine)]
        return self._chance.choice(wanted or machines)

    def _struck(self, fault: str, machine: "SimulatedMachine") -> None:
        self._harness.states.struck(fault, machine)

    # Processes and machines

    def crash(self) -> None:
        machine = self._pick()
        if machine.is_up:
            self._struck("crash", machine)
            machine.crash()
            self._schedule.after(self._chance.choice([5, 100, 500, 1500, 3000]), machine.start)

    def lose_power(self) -> None:
        self._perhaps_when_it_lags(self._pick(), self._lose_power)

    def _lose_power(self, machine: "SimulatedMachine") -> None:
        """Without flushes only where what one machine loses is elsewhere; with them anywhere."""
        if machine.is_up and (self._flushes_count() or self._can_lose_one(machine)):
            self._struck("loss of power", machine)
            machine.lose_power()
            self._schedule.after(self._chance.choice([5, 100, 500, 1500, 3000]), machine.start)

    def _perhaps_when_it_lags(self, machine: "SimulatedMachine", act: "Callable[[SimulatedMachine], None]") -> None:
        """Do something to a machine, now or after a pause that is long enough for others to go on without it."""
        if self._schedule.happens(0.7):
            act(machine)
            return

        def act_later() -> None:
            if not self.is_over:
                act(machine)
            machine.wake()

        machine.pause()
        self._schedule.after(self._chance.choice([700, 1000]), act_later)

    def replace_machine(self) -> None:
        machine = self._pick()
        if machine.is_up and self._can_lose_one(machine) and self._all_voters_are_whole():
            self._struck("loss of a machine", machine)
            machine.lose_power()
            machine.replace_disk()
            self._schedule.after(self._chance.choice([5, 500, 3000]), machine.start)

    def _flushes_count(self) -> bool:
        """Whether everything is flushed before it is acknowledged, and all disks have what they were given.

        A machine that boots makes way for those in sync that live. So these must not have what others cannot read.
        """
        machines = self._harness.machines.values()
        return self._fault_plan.flush is Flush.COMMIT and not any(machine.is_unsound for machine in machines)

    def _can_lose_one(self, machine: "SimulatedMachine") -> bool:
        """Whether others are in sync with all that it has, and none of them is still about to tell what it has lost."""
        for partition, watch in self._harness.watch.partitions.items():
            state = watch.state
            least = 2 if partition in COORDINATED else self._fault_plan.least_in_sync
            if state is not None and machine.node_id in state.isr and min(least, len(state.isr)) < 2:
                return False
        others = [other for other in self._harness.machines.values() if other is not machine]
        return not machine.may_have_lost and not any(other.has_doubts for other in others)

    def _all_voters_are_whole(self) -> bool:
        return all(self._harness.machines[node_id].is_whole for node_id in self._harness.controllers)

    def stop_all(self) -> None:
        """The whole cluster goes down, and comes back in any order."""
        loses_power = self._flushes_count() and self._schedule.happens(0.5)
        fault = "loss of power everywhere" if loses_power else "crash of all nodes"
        for machine in self._harness.machines.values():
            if machine.is_up:
                self._struck(fault, machine)
                (machine.lose_power if loses_power else machine.crash)()
            self._schedule.after(self._chance.randint(1, 2500), machine.start)

    def pause(self) -> None:
        machine = self._pick()
        if machine.is_up:
            self._struck("pause", machine)
            machine.pause()
            self._schedule.after(self._chance.choice([50, 400, 900, 2500]), machine.wake)

    def crash_client(self) -> None:
        harness = self._harness
        producers, others = harness.producers[1:], [*harness.readers, harness.transformer, harness.transformer]
        client: Client = self._chance.choice([*producers, *others])
        if client.is_up and not client.is_done:
            self._schedule.fired[f"crash of a {type(client).__name__}"] += 1
            client.crash()
            self._schedule.after(self._chance.choice([5, 500, 2500]), client.start)

    # The network

    def part_one_way(self) -> None:
        machine = self._pick()
        self._struck("partition one way", machine)
        others = [other for other in self._harness.machines if other != machine.node_id]
        for other in self._chance.sample(others, self._chance.randint(1, len(others))):
            if self._schedule.happens(0.5):
                self._harness.network.cut(machine.node_id, other)
            else:
                self._harness.network.cut(other, machine.node_id)
        self._heal_later()

    def part_both_ways(self) -> None:
        """Part a machine, and perhaps some others with it, from all the rest."""
        machine = self._pick()
        self._struck("partition both ways", machine)
        others = [other for other in self._harness.machines if other != machine.node_id]
        apart = {machine.node_id, *self._chance.sample(others, self._chance.randint(0, len(others) - 1))}
        clients = [client.name for client in self._harness._clients() if self._schedule.happens(0.3)]
        for source in (*self._harness.machines, *clients):
            for target in (*self._harness.machines, *clients):
                if (source in apart) != (target in apart):
                    self._harness.network.cut(source, target)
        self._heal_later()

    def _heal_later(self) -> None:
        self._schedule.after(self._chance.choice([100, 600, 1500, 3000]), self._harness.network.heal)

    # Disks

    def _break(self, name: str, outcome: Outcome, **options: object) -> None:
        machine = self._pick()
        fault = CountedFault(outcome, lambda: self._struck(name, machine), skip=self._chance.randint(0, 10), **options)
        machine.disk.break_once(fault)

    def tear_write(self) -> None:
        """The process dies with a part of a write done."""
        self._break("torn write", Outcome.KILL, done_bytes=self._chance.choice([0, 1, 50]))

    def fail_write(self) -> None:
        self._break("failed write", Outcome.FAIL, on=CHANGES, done_bytes=self._chance.choice([0, 1, 50]))

    def fail_flush(self) -> None:
        self._break("failed flush", Outcome.FAIL, on=FLUSHES)

    def fill_disk(self) -> None:
        """There is no space for a while: nothing can be written at all, or there is so much room and no more."""
        machine = self._pick()
        if self._schedule.happens(0.5):
            self._limit_room(machine)
            return
        fault = CountedFault(
            Outcome.FAIL,
            lambda: self._struck("full disk", machine),
            on=frozenset({Operation.WRITE}),
            error_number=errno.ENOSPC,
            is_lasting=True,
            done_bytes=self._chance.choice([0, 20]),
        )
        machine.disk.break_once(fault)
        self._schedule.after(self._chance.choice([50, 500, 2000]), lambda: machine.disk.mend_one(fault))

    def _limit_room(self, machine: "SimulatedMachine") -> None:
        """Leave a disk some room, which what is removed makes larger.

        It counts when the node finds out, and for what the node has become by the end of it.
        """
        disk = machine.disk
        disk.free_bytes = self._chance.choice([0, 2_000, 50_000])

        def end() -> None:
            if disk.free_bytes is not None and machine.node is not None and machine.node.disk_guard.is_full:
                self._struck("disk without room", machine)
            disk.give_room()

        self._schedule.after(self._chance.choice([500, 2000, 4000]), end)

    def lie(self) -> None:
        """A disk says that it has flushed users' and transactions' logs, and has not; then its machine loses power."""
        machine = self._pick()
        machine.disk.lies_about = machine.lies_about
        self._schedule.after(
            self._chance.choice([300, 1000]), lambda: self._perhaps_when_it_lags(machine, self._lose_lied)
        )

    def _lose_lied(self, machine: "SimulatedMachine") -> None:
        if not self.is_over and machine.disk.has_lied and machine.is_up and self._can_lose_one(machine):
            self._struck("lying flush, then loss of power", machine)
            machine.lose_power()
            self._schedule.after(self._chance.choice([5, 500, 3000]), machine.start)
        machine.disk.tell_the_truth()

    def rot(self) -> None:
        """A disk changes a bit that was at rest, where others have what it was."""
        machine = self._pick()
        may_rot = machine.is_up and not machine.has_strays and self._can_lose_one(machine)
        if may_rot and machine.disk.rot_closed(str(METADATA_PARTITION), self._chance):
            self._struck("bit rot", machine)

    def rot_while_down(self) -> None:
        """A process dies, and before another starts the disk changes a bit of what was appended last, but for the end.

        Others have what it was. The next process must not take it for the torn write of the last.
        """
        machine = self._pick()
        if machine.is_up and not machine.has_strays and self._can_lose_one(machine):
            self._struck("rot of an open segment", machine)
            machine.crash()
            machine.disk.rot_open(str(METADATA_PARTITION), self._chance)
            self._schedule.after(self._chance.choice([5, 100, 500]), machine.start)

    # Metadata

    def lose_metadata(self) -> None:
        """A voter comes back without the end of its metadata log, where all others are whole."""
        machine = self._harness.machines[self._chance.choice(self._harness.controllers)]
        if machine.is_up and self._all_voters_are_whole():
            self._struck("loss of metadata", machine)
            machine.crash()
            machine.disk.heal()
            machine.lose_metadata(self._chance.choice([0.0, 0.5, 0.9]))
            self._schedule.after(self._chance.choice([5, 500, 1500]), machine.start)

    def flip_partition_metadata(self) -> None:
        """A machine comes back with a directory that does not say any more which topic it is of."""
        machine = self._pick()
        if machine.is_up and self._can_lose_one(machine):
            machine.crash()
            if machine.flip_partition_metadata(self._chance):
                self._struck("partition.metadata rotten", machine)
            self._schedule.after(self._chance.choice([5, 500, 1500]), machine.start)

    def damage_files(self) -> None:
        """A machine comes back whose disk has changed files of some kinds; kinds and ways take turns."""
        for machine in self._harness.machines.values():
            machine.older.note(machine.disk.tree())
        machine = self._pick()
        is_alone = len(self._harness.machines) == 1
        may_lose = not machine.is_unsound if is_alone else self._can_lose_one(machine)
        if not machine.is_up or machine.has_strays or not may_lose:
            return
        if is_alone and self._schedule.happens(0.5):
            # It boots with the damage. All that it acknowledges is flushed, or said to be lost.
            self._struck("loss of power", machine)
            machine.lose_power()
            self._schedule.after(PERSON_COMES_MS, machine.start)
        damages = self._plan_damages(machine)
        if not damages:
            return
        for damage in damages:
            self._struck(cell_name(damage.kind, damage.way), machine)
        if machine.is_up:
            machine.crash()
        machine.disk.heal()
        for damage in damages:
            machine.strike(damage)
        self._schedule.after(self._chance.choice([5, 100, 300]), machine.start)
        if is_alone:
            self._schedule.after(PERSON_COMES_MS, machine.put_back_alone)
        elif damages[0].is_held:
            self._schedule.after(PERSON_COMES_MS, machine.put_back)

    def _plan_damages(self, machine: "SimulatedMachine") -> list[Damage]:
        """What is next in the table, each in a folder of its own; where a person is needed, nothing else."""
        damages: list[Damage] = []
        are_voters_whole = self._all_voters_are_whole() and machine.node_id in self._harness.controllers
        for kind, way in [*self._cells]:
            damage = None
            if are_voters_whole or not kind.is_of_voters:
                damage = plan_damage(machine, self._harness.machines.values(), kind, way, self._chance)
            taken = {folder for each in damages for folder in each.folders}
            if damage is None or taken & damage.folders or (damages and damage.is_held):
                continue
            damages.append(damage)
            self._cells.remove((kind, way))
            self._cells.append((kind, way))
            if damage.is_held or len(damages) == DAMAGES_AT_ONCE:
                break
        return damages

    def swap_in_foreign_disk(self) -> None:
        """A machine comes back with the disk of another cluster, which its node has to refuse."""
        machine = self._pick()
        if not machine.is_up or machine.has_strays or not self._can_lose_one(machine):
            return
        if not self._all_voters_are_whole() or not machine.backups.take():
            return
        self._struck("disk of another cluster", machine)
        machine.crash()
        machine.disk.heal()
        machine.backups.use_foreign_disk()
        self._schedule.after(5, machine.start)
        self._schedule.after(PERSON_COMES_MS, machine.put_back)

    def roll_back_metadata(self) -> None:
        """The only voter comes back with an old metadata log, which its own node contradicts."""
        machine = self._pick()
        if not machine.is_up or machine.has_strays or machine.is_unsound or not machine.backups.take():
            return
        self._struck("metadata log of a backup", machine)
        machine.crash()
        machine.disk.heal()
        machine.backups.roll_back_metadata()
        self._schedule.after(5, machine.start)
        self._schedule.after(PERSON_COMES_MS, machine.put_back_alone)

    # What people do

    def delete_records(self) -> None:
        """A client deletes the beginning of a log, which a follower that is away may still need.

        What is yet to be transformed stays.
        """
        partition = self._chance.choice(USER_PARTITIONS)
        end = self._harness.watch.partitions[partition].committed_end
        if partition in INPUTS:
            end = self._harness.watch.offsets.offset_of(TRANSFORM_GROUP, partition)
        self._schedule.fired["records deleted"] += 1
        self._harness.operator.delete_records(partition, max(end - self._chance.randint(0, 8), 0))

    def elect_preferred(self) -> None:
        self._schedule.fired["preferred leaders asked for"] += 1
        self._harness.operator.elect_preferred()

    def drain(self) -> None:
        """A machine is to have no replicas any more, and after a while it may have some again."""
        machine = self._pick()
        self._schedule.fired["drain asked for"] += 1
        self._harness.operator.drain(machine.node_id)
        undo = partial(self._harness.operator.drain, machine.node_id, undo=True)
        self._schedule.after(self._chance.choice([300, 1500, 3000]), undo)

    def move(self) -> None:
        partition = self._chance.choice(list(self._harness.watch.partitions))
        state = self._harness.watch.partitions[partition].state
        assert state is not None
        size = len(state.replicas) - len(state.adding) if state.adding else len(state.replicas)
        self._schedule.fired["move asked for"] += 1
        target = self._chance.sample(list(self._harness.machines), min(size, len(self._harness.machines)))
        self._harness.operator.move(partition, tuple(target))


FAULTS: dict[str, Callable[[Faults], None]] = {
    "crash": Faults.crash,
    "lose power": Faults.lose_power,
    "replace machine": Faults.replace_machine,
    "stop all": Faults.stop_all,
    "pause": Faults.pause,
    "crash client": Faults.crash_client,
    "part one way": Faults.part_one_way,
    "part both ways": Faults.part_both_ways,
    "tear write": Faults.tear_write,
    "fail write": Faults.fail_write,
    "fail flush": Faults.fail_flush,
    "fill disk": Faults.fill_disk,
    "lie": Faults.lie,
    "rot": Faults.rot,
    "rot while down": Faults.rot_while_down,
    "delete records": Faults.delete_records,
    "elect preferred": Faults.elect_preferred,
    "move": Faults.move,
}

METADATA_FAULTS: dict[str, Callable[[Faults], None]] = {
    "lose metadata": Faults.lose_metadata,
    "flip partition metadata": Faults.flip_partition_metadata,
}
"""In worlds of their own, so that what the seeds of the others have found stays there."""

DISK_FAULTS: dict[str, Callable[[Faults], None]] = {
    "damage files": Faults.damage_files,
    "swap in foreign disk": Faults.swap_in_foreign_disk,
    "roll back metadata": Faults.roll_back_metadata,
}
"""In worlds of their own, too."""

TOPIC_FAULTS: dict[str, Callable[[Faults], None]] = {"move": Faults.move, "drain": Faults.drain}
"""Besides topics that come and go, in worlds that have these."""
