"""The peers of a node that have connected, and have not yet shown who they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from eagleray.actors.kafka_server.arrival import Arrival


class Arrivals:
    """Owns: every arrival, until a connection takes its place, or it is gone."""

    def __init__(self, look_soon: Callable[[Arrival], None], forget_held: Callable[[Arrival], None]) -> None:
        self._arrivals: set[Arrival] = set()
        self._by_address: Counter[str] = Counter()
        self._look_soon = look_soon
        self._forget_held = forget_held

    def __len__(self) -> int:
        return len(self._arrivals)

    def __iter__(self) -> Iterator[Arrival]:
        return iter([*self._arrivals])

    def __contains__(self, arrival: object) -> bool:
        return arrival in self._arrivals

    def of(self, address: str) -> int:
        """Return how many have come from an address."""
        return self._by_address[address]

    def add(self, arrival: Arrival) -> None:
        """Note one that has come."""
        self._arrivals.add(arrival)
        self._by_address[arrival.peer_host] += 1
        self._look_soon(arrival)

    def leave(self, arrival: Arrival) -> None:
        """Forget one that has gone, or is let in."""
        if arrival not in self._arrivals:
            return
        self._arrivals.discard(arrival)
        self._forget_held(arrival)
        self._by_address[arrival.peer_host] -= 1
        if not self._by_address[arrival.peer_host]:
            del self._by_address[arrival.peer_host]
