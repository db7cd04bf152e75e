"""What is known of one kill, where its time went, and how many of them look side by side."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

TARGET_S = {"machine": 5.0, "actor": 2.0}


class Kill(Struct, frozen=True):
    """Seconds from a kill on. None where something did not happen before the next commit."""

    kind: str
    node_id: int
    was_controller: bool
    commit_s: float
    decided_s: float | None = None
    """When metadata first said that the node was given up, or had come in a new incarnation."""

    began_s: float | None = None
    """When the new process of a node began its incarnation: until then it was Ray's turn to start it."""

    was_given_up: bool = False
    """Whether its session ended before it was back, so that others lead what it led."""

    def shares(self) -> dict[str, float]:
        """The seconds until the next commit, by what was waited for."""
        decided_s = self.commit_s if self.decided_s is None else min(self.decided_s, self.commit_s)
        client = {"the client": self.commit_s - decided_s}
        if self.was_given_up or self.began_s is None:
            return {"the session": decided_s} | client
        began_s = min(self.began_s, decided_s)
        return {"Ray": began_s, "registering": decided_s - began_s} | client


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


_GROUPS: dict[str, Callable[[Kill], bool]] = {
    "all": lambda _: True,
    "of the controller": lambda kill: kill.was_controller,
    "of another": lambda kill: not kill.was_controller,
    "given up before it was back": lambda kill: kill.kind == "actor" and kill.was_given_up,
}
HEADING = ["killed", "kills", "min s", "p50 s", "p90 s", "max s", "target", "where the time went, medians"]


def rows(kills: Sequence[Kill]) -> Iterator[list[str]]:
    """The distribution for each kind of kill, and for the groups in it that can be expected to differ."""
    for kind, target_s in TARGET_S.items():
        of_kind = [kill for kill in kills if kill.kind == kind]
        for name, belongs in _GROUPS.items():
            group = [kill for kill in of_kind if belongs(kill)]
            if group:
                yield _row(kind if name == "all" else f"{kind}, {name}", group, target_s)


def _row(name: str, kills: Sequence[Kill], target_s: float) -> list[str]:
    seconds = [kill.commit_s for kill in kills]
    figures = [f"{quantile(seconds, share):.2f}" for share in (0.0, 0.5, 0.9, 1.0)]
    met = sum(each < target_s for each in seconds)
    verdict = f"< {target_s:g} s {'✓' if met == len(seconds) else f'✗ {met} of {len(seconds)}'}"
    return [name, str(len(kills)), *figures, verdict, _where(kills)]


def _where(kills: Sequence[Kill]) -> str:
    shares: dict[str, list[float]] = {}
    for kill in kills:
        for name, seconds in kill.shares().items():
            shares.setdefault(name, []).append(seconds)
    late = [kill.began_s for kill in kills if kill.was_given_up and kill.began_s is not None]
    if late:
        # Whether Ray was slow, or the session short, is seen only beside each other.
        shares["Ray, too late"] = late
    return ", ".join(f"{name} {quantile(seconds, 0.5):.2f}" for name, seconds in shares.items())
