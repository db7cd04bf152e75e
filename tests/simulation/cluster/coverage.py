"""The table of faults by states: what a node was when something went wrong with it, and how often that was so.

Worlds are drawn, and what is rare would take many of them. So where some have been drawn, the next are such that they
bring about what is still missing.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from tests.simulation.cluster.states import STATES, cell

FAULTS_OF_NODES = (
    "bit rot",
    "clock of another speed",
    "crash",
    "crash of all nodes",
    "disk without room",
    "failed flush",
    "failed write",
    "full disk",
    "loss of a machine",
    "loss of power",
    "loss of power everywhere",
    "lying flush, then loss of power",
    "message delayed",
    "message lost",
    "message overtaken",
    "message repeated",
    "partition both ways",
    "partition one way",
    "pause",
    "rot of an open segment",
    "torn write",
)

KINDS = {
    "bit rot": "rot",
    "crash": "crash",
    "crash of all nodes": "stop all",
    "disk without room": "fill disk",
    "failed flush": "fail flush",
    "failed write": "fail write",
    "full disk": "fill disk",
    "loss of a machine": "replace machine",
    "loss of power": "lose power",
    "loss of power everywhere": "stop all",
    "lying flush, then loss of power": "lie",
    "partition both ways": "part both ways",
    "partition one way": "part one way",
    "pause": "pause",
    "rot of an open segment": "rot while down",
    "torn write": "tear write",
}
"""By the name of a fault: the kind of faults that has it."""


class Simulate(Protocol):
    """Runs the world of a seed in which something is wanted, and says what has happened how often."""

    def __call__(self, seed: int, *, wanted: Collection[str]) -> Counter[str]: ...


def cover(
    simulate: Simulate, seeds: Iterable[int], least: int, missing: Callable[[Counter[str]], Sequence[str]]
) -> Counter[str]:
    """Run so many worlds as they are drawn, and then others in which what is missing is likely, until nothing is."""
    fired: Counter[str] = Counter()
    for number, seed in enumerate(seeds):
        wanted = missing(fired) if number >= least else ()
        if number >= least and not wanted:
            break
        fired += simulate(seed, wanted=wanted)
    return fired


def absent(names: Iterable[str], fired: Counter[str]) -> list[str]:
    """What has not happened of what has to happen."""
    return [name for name in names if not fired[name]]


def kinds_that_bring(wanted: Iterable[str]) -> tuple[str, ...]:
    """The kinds of faults by which the first of the wanted events comes about that any brings, and followers lag."""
    for each in wanted:
        fault = each.partition(" | ")[0]
        kind = "crash client" if fault.startswith("crash of a ") else KINDS.get(fault)
        if kind is not None:
            return kind, kind, "pause", "part both ways"
    return ()


def empty_cells(fired: Counter[str]) -> list[str]:
    """What has never happened, although it could."""
    return absent((cell(fault, state) for fault in FAULTS_OF_NODES for state in STATES), fired)


def table(fired: Counter[str]) -> str:
    """The table as text, a line for each fault."""
    widths = [max(len(state), 6) for state in STATES]
    first = max(len(fault) for fault in FAULTS_OF_NODES)
    lines = ["  ".join([" " * first, *(state.rjust(width) for state, width in zip(STATES, widths, strict=True))])]
    for fault in FAULTS_OF_NODES:
        counts = (str(fired[cell(fault, state)]).rjust(width) for state, width in zip(STATES, widths, strict=True))
        lines.append("  ".join([fault.ljust(first), *counts]))
    return "\n".join(lines)
