"""What a simulated world is like: each seed has its own choice of what goes wrong, and of what there is."""

import msgspec

from eagleray.broker.log import Flush
from tests.simulation.network import NetworkFaults
from tests.simulation.schedule import Schedule


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

    @classmethod
    def draw(cls, schedule: Schedule) -> "FaultPlan":
        from tests.simulation.cluster.faults import FAULTS

        chance = schedule.chance
        network_faults = NetworkFaults.draw(chance, losses=(0.01, 0.05), delays=(0.03, 0.1))
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
        )
