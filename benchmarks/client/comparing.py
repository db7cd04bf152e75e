"""Two clients that do the same in turns: the rates of both, and how they compare."""

from collections.abc import Callable
from statistics import median

from msgspec import Struct

from benchmarks.client.broker import Broker

HEADING = ["100 bytes", "ours, records/s", "confluent-kafka, records/s", "ratio", "ratios of the rounds"]


class Scale(Struct, frozen=True, kw_only=True):
    """How long a load of a producer takes, and how much a load of a consumer reads."""

    seconds: float
    records: int


Load = Callable[[Broker, Scale], float]
"""Does something with one client, and returns the records of each second."""


class Pair(Struct, frozen=True):
    """Our client's load, and the same with confluent-kafka."""

    name: str
    ours: Load
    theirs: Load


class Round(Struct, frozen=True):
    """Two neighbours: whatever else the machine did met both."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """How many of our records come for each of theirs."""
        return self.ours / self.theirs


def measure(pair: Pair, on: Broker, scale: Scale, rounds: int) -> list[Round]:
    """Let the two take turns; each is the first in every other round."""
    found = []
    for number in range(rounds):
        if number % 2 == 0:
            ours = pair.ours(on, scale)
            theirs = pair.theirs(on, scale)
        else:
            theirs = pair.theirs(on, scale)
            ours = pair.ours(on, scale)
        found.append(Round(ours, theirs))
    return found


def row_of(name: str, rounds: list[Round]) -> list[str]:
    """The medians; that of the ratios is not the ratio of those of the rates."""
    rates = [f"{median(each.ours for each in rounds):,.0f}", f"{median(each.theirs for each in rounds):,.0f}"]
    ratios = [each.ratio for each in rounds]
    return [name, *rates, f"{median(ratios):.2f}", " ".join(f"{each:.2f}" for each in ratios)]
