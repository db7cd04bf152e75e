"""A network that loses, delays, repeats and reorders, and that parts nodes from each other, one way or both."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from tests.simulation.schedule import Schedule


class NetworkFaults(msgspec.Struct, frozen=True):
    """How bad the network is; each seed has its own."""

    loss: float = 0.0
    duplication: float = 0.0
    delay: float = 0.0
    longest_delay_ms: int = 700

    @classmethod
    def draw(cls, chance: Random, losses: Sequence[float], delays: Sequence[float]) -> "NetworkFaults":
        """Choose how bad the network of a seed is; in half of all worlds it loses nothing, and delays nothing."""
        return cls(
            loss=chance.choice([0, 0, *losses]),
            duplication=chance.choice([0, 0, 0.05, 0.2]),
            delay=chance.choice([0, 0, *delays]),
            longest_delay_ms=chance.choice([100, 700]),
        )


class Network:
    """Carries messages between places, which have names; what arrives is handed to their receivers."""

    def __init__(self, schedule: Schedule, network_faults: NetworkFaults) -> None:
        self._schedule = schedule
        self.network_faults = network_faults
        self._receivers: dict[object, Callable[[object, Any], None]] = {}
        self._cut: set[tuple[object, object]] = set()
        self._sent = 0
        self._newest: dict[tuple[object, object], int] = {}
        self.spared: frozenset[object] = frozenset()
        """Whose messages are neither repeated nor delayed, though they may get lost."""
        self.dropped: Callable[[object, object, Any], None] = lambda source, target, message: None
        """Told of whatever does not arrive."""
        self.struck: Callable[[str, object], None] = lambda fault, source: None
        """Told of whatever goes wrong with a message, and who has sent it."""

    def connect(self, place: object, receive: Callable[[object, Any], None]) -> None:
        self._receivers[place] = receive

    def cut(self, source: object, target: object) -> None:
        self._cut.add((source, target))

    def is_cut(self, source: object, target: object) -> bool:
        return (source, target) in self._cut

    def heal(self) -> None:
        self._cut.clear()

    def send(self, source: object, target: object, message: object) -> None:
        chance, fired = self._schedule.happens, self._schedule.fired
        if (source, target) in self._cut:
            fired["message cut off"] += 1
            self.dropped(source, target, message)
            return
        if chance(self.network_faults.loss):
            fired["message lost"] += 1
            self.struck("message lost", source)
            self.dropped(source, target, message)
            return
        copies = 1
        is_spared = source in self.spared
        if chance(self.network_faults.duplication) and not is_spared:
            copies = 2
            fired["message repeated"] += 1
            self.struck("message repeated", source)
        self._sent += 1
        for _ in range(copies):
            self._carry(source, target, message, self._sent)

    def _carry(self, source: object, target: object, message: object, number: int) -> None:
        random = self._schedule.chance
        delay_ms = random.randint(1, 4)
        if self._schedule.happens(self.network_faults.delay) and source not in self.spared:
            self._schedule.fired["message delayed"] += 1
            self.struck("message delayed", source)
            delay_ms += random.randint(5, self.network_faults.longest_delay_ms)
        self._schedule.after(delay_ms, lambda: self._arrive(source, target, message, number))

    def _arrive(self, source: object, target: object, message: object, number: int) -> None:
        link = (source, target)
        if number < self._newest.get(link, 0):
            self._schedule.fired["message overtaken"] += 1
            self.struck("message overtaken", source)
        self._newest[link] = max(number, self._newest.get(link, 0))
        self._receivers[target](source, message)
