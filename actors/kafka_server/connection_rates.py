"""How many connections of clients are let in in a second, by a node and from each address."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from eagleray.actors.kafka_server.rate_limit import RateLimit

LONGEST_WAIT_S: Final = 10.0
"""A connection that would wait for longer is closed: its client has mostly given up by then, or is none."""

_REMEMBERED: Final = 10_000
"""How many addresses are remembered; of more, those that have been quiet for longest are forgotten."""


class ConnectionRates:
    """Says for how long a new connection has to wait.

    What waits is counted, so clients are let in in the order in which they came. What is closed is not, so a flood
    keeps clients waiting for `LONGEST_WAIT_S` at the most, and those of other addresses not at all, as long as the
    limit of its own address holds it back.
    """

    def __init__(self, per_second: int, per_second_and_address: int, now_s: float) -> None:
        self._node = RateLimit(per_second, now_s)
        self._per_second_and_address = per_second_and_address
        self._addresses: OrderedDict[str, RateLimit] = OrderedDict()

    def wait_s(self, address: str, now_s: float) -> float | None:
        """Count a connection; return for how long it has to wait, or None where that is too long."""
        limit = self._of(address, now_s)
        address_wait_s = limit.spend(1, now_s)
        node_wait_s = self._node.spend(1, now_s) if address_wait_s <= LONGEST_WAIT_S else 0.0
        wait_s = max(address_wait_s, node_wait_s)
        if wait_s <= LONGEST_WAIT_S:
            return wait_s
        limit.spend(-1, now_s)
        if node_wait_s:
            self._node.spend(-1, now_s)
        return None

    def _of(self, address: str, now_s: float) -> RateLimit:
        limit = self._addresses.get(address)
        if limit is None:
            limit = self._addresses[address] = RateLimit(self._per_second_and_address, now_s)
            if len(self._addresses) > _REMEMBERED:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(address)
        return limit
