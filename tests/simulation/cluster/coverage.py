"""The table of faults by states: what a node was when something went wrong with it, and how often that was so."""

from collections import Counter

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


def empty_cells(fired: Counter[str]) -> list[str]:
    """What has never happened, although it could."""
    wanted = (cell(fault, state) for fault in FAULTS_OF_NODES for state in STATES)
    return [each for each in wanted if not fired[each]]


def table(fired: Counter[str]) -> str:
    """The table as text, a line for each fault."""
    widths = [max(len(state), 6) for state in STATES]
    first = max(len(fault) for fault in FAULTS_OF_NODES)
    lines = ["  ".join([" " * first, *(state.rjust(width) for state, width in zip(STATES, widths, strict=True))])]
    for fault in FAULTS_OF_NODES:
        counts = (str(fired[cell(fault, state)]).rjust(width) for state, width in zip(STATES, widths, strict=True))
        lines.append("  ".join([fault.ljust(first), *counts]))
    return "\n".join(lines)
