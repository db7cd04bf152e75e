"""What came of a torture, for people and for tests."""

from __future__ import annotations

from collections import Counter

import msgspec

from tests.support.history import History, Outcome
from tests.support.history_violations import Violation
from tests.torture.faults import (
    ActorKilled,
    ClientKilled,
    ClientSuperseded,
    Fault,
    MachineKilled,
    NodePaused,
    RayletKilled,
)
from tests.torture.settings import TortureSettings

_SHOWN = 20
_HURT = {
    ClientKilled: "client",
    ClientSuperseded: "zombie client",
    NodePaused: "sleeping node",
    RayletKilled: "raylet",
    MachineKilled: "machine",
}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. It is good only if nothing was violated, nothing got stuck, and something was done at all."""

    settings: TortureSettings
    history: History
    addresses: tuple[tuple[str, int], ...]
    """Where the nodes listened."""

    faults: tuple[Fault, ...]
    not_tried: tuple[int | str, ...]
    violations: tuple[Violation, ...]
    problems: tuple[str, ...]
    """What went wrong beside the history: something hung, or ended that should not."""

    kept_in: str | None = None

    @property
    def is_good(self) -> bool:
        return not self.violations and not self.problems and self.count(Outcome.COMMITTED) > 0

    def count(self, outcome: Outcome) -> int:
        return sum(transaction.outcome is outcome for transaction in self.history.transactions)

    def kills(self) -> Counter[str]:
        """How often each role was killed, and everybody else."""
        kills: Counter[str] = Counter()
        for fault in self.faults:
            if isinstance(fault, ActorKilled):
                kills.update(fault.roles)
            else:
                kills[_HURT[type(fault)]] += 1
            if isinstance(fault, ActorKilled | NodePaused) and fault.was_controller:
                kills["controller at work"] += 1
        return kills

    def rows(self) -> list[tuple[str, object]]:
        committed, uncommitted = self.history.committed, self.history.uncommitted
        settings = self.settings
        return [
            ("seed", settings.seed),
            ("machines", settings.machines),
            ("layout", settings.layout),
            ("seconds of load", settings.seconds),
            *((f"transactions {outcome}", self.count(outcome)) for outcome in Outcome),
            ("records read as committed", sum(map(len, committed.values()))),
            ("records read in all", sum(map(len, uncommitted.values()))),
            *((f"hurt: {role}", count) for role, count in sorted(self.kills().items())),
            ("not tried for lack of time", ", ".join(map(str, self.not_tried)) or "-"),
            ("violations", len(self.violations)),
            ("problems", len(self.problems)),
        ]

    def text(self) -> str:
        """A table, and what is wrong in words."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value}" for name, value in rows]
        lines += [f"VIOLATION  {violation.text}" for violation in self.violations[:_SHOWN]]
        lines += [f"PROBLEM  {problem}" for problem in self.problems[:_SHOWN]]
        if not self.count(Outcome.COMMITTED):
            lines.append("PROBLEM  nothing was committed at all")
        if self.kept_in is not None:
            lines.append(f"everything is kept in {self.kept_in}")
        return "\n".join(lines)
