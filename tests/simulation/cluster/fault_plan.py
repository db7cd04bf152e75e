"""What a simulated world is like: each seed has its own choice of what goes wrong, and of what there is."""

import msgspec
from msgspec.structs import replace

from eagleray.broker.log import Flush
from eagleray.broker.messages import IMPLICIT_VERSION
from tests.simulation.network import NetworkFaults
from tests.simulation.schedule import Schedule

ALONE_KINDS = (
    "crash",
    "lose power",
    "pause",
    "crash client",
    "tear write",
    "fail write",
    "fill disk",
    "delete records",
)
"""What may go wrong with a machine that has no others, but for its files."""


_BOOTS = ("lose power", "replace machine", "lie")
"""By what a machine boots. So it does where all stop, if everything is flushed before it is acknowledged."""

DAMAGES = ("damage files",) * 2


class FaultPlan(msgspec.Struct, frozen=True):
    """Which faults a seed has, and how often one strikes. A world with few of them goes deeper into each."""

    network_faults: NetworkFaults
    kinds: tuple[str, ...]
    interval_ms: int
    nodes: int
    replication_factor: int
    least_in_sync: int
    is_skewed: bool
    flush: Flush
    transactions: int
    longest_pause_ms: int
    """How long producers think between two transactions."""

    transaction_timeout_ms: int
    transaction_version: int
    """Of all producers. In version 1 a network that repeats and delays does so to the markers, not to what clients ask:
    a late request of a client in version 1 is taken for one of its next transaction.
    """

    @classmethod
    def draw(cls, schedule: Schedule, *, is_version_2: bool) -> "FaultPlan":
        from tests.simulation.cluster.faults import FAULTS

        chance = schedule.chance
        network_faults = NetworkFaults.draw(chance, losses=(0.01, 0.05), delays=(0.03, 0.1))
        # In version 1 no transaction is prepared, and there are no pools.
        version = 1 if schedule.seed % 4 == 3 and not is_version_2 else IMPLICIT_VERSION
        if version < IMPLICIT_VERSION:
            network_faults = replace(network_faults, duplication=0.3, delay=0.15, longest_delay_ms=700)
        kinds = tuple(chance.sample(list(FAULTS), chance.choice([2, 4, 6, 8])))
        # One replica has nothing to lose elsewhere, so a world that has no more than that cannot lose a machine.
        factor = chance.choice([2, 3, 3, 3]) if schedule.seed % 10 != 7 else 1
        return cls(
            network_faults,
            kinds,
            chance.choice([200, 500, 1000]),
            chance.choice([3, 3, 4]),
            factor,
            chance.choice([1, 2, 2, 2]),
            chance.random() < 0.5,
            chance.choice([Flush.OS, Flush.OS, Flush.COMMIT]),
            chance.choice([8, 15]),
            chance.choice([20, 150, 400]),
            chance.choice([1500, 60_000, 60_000]),
            version,
        )

    def bringing(self, kinds: tuple[str, ...]) -> "FaultPlan":
        """The same with these faults, often; where one machine may lose anything, for others have it."""
        if not kinds:
            return self
        return replace(self, kinds=kinds, interval_ms=200, replication_factor=3, least_in_sync=2)

    def moving(self, faults: tuple[str, ...]) -> "FaultPlan":
        """The same with replicas that move all the time, and a machine more than a partition has replicas."""
        return replace(self, kinds=(*self.kinds[:4], *faults), nodes=4)

    def damaging(self) -> "FaultPlan":
        """The same with disks that damage files all the time, so others have what one machine loses."""
        kinds = (*self.kinds[:1], *DAMAGES, "swap in foreign disk")
        return replace(
            self,
            kinds=kinds,
            interval_ms=100,
            replication_factor=3,
            least_in_sync=2,
            transactions=15,
            longest_pause_ms=400,
        )

    def jumping(self, faults: tuple[str, ...], timeout_ms: int) -> "FaultPlan":
        """The same with wall clocks that jump all the time, and steady ones that agree.

        No machine boots: a clock that is ahead then passes for one of a machine that was off.
        """
        kinds = (*(each for each in self.kinds if each not in _BOOTS), *faults, *faults)
        return replace(self, kinds=kinds, is_skewed=False, flush=Flush.OS, transaction_timeout_ms=timeout_ms)

    def alone(self) -> "FaultPlan":
        """One machine, one voter, one replica: what its disk changes comes back only by a person.

        Everything is flushed before it is acknowledged, so that a loss of power takes none of it.
        """
        kinds = tuple(each for each in self.kinds if each in ALONE_KINDS)
        return replace(
            self,
            kinds=(*kinds, *ALONE_KINDS[:2], *DAMAGES, "roll back metadata"),
            interval_ms=200,
            nodes=1,
            replication_factor=1,
            least_in_sync=1,
            flush=Flush.COMMIT,
        )
