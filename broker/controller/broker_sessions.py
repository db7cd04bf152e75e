"""Which nodes the controller has heard from lately."""

from __future__ import annotations

from collections.abc import Iterable

from eagleray.broker.replication.config import ReplicationConfig


class BrokerSessions:
    """When each registered node was last heard, by the controller's own clock.

    Owns: for each node when it was heard, or is taken to have been, and when it has really said something. Persists:
    nothing. A controller that begins anew cannot know when its nodes were heard. The one before it answers no longer,
    and each may have got a lease just now: their sessions last for as long as that can. A node whose session was ended
    is heard no more until it has registered.
    A controller that did not look for half a session was not listening either: what its nodes said meanwhile may still
    wait to be heard, so they get another half.
    """

    def __init__(self, config: ReplicationConfig, node_ids: Iterable[int], now_ms: int) -> None:
        self._timeout_ms = config.broker_session_timeout_ms
        last_heard_ms = now_ms - self._timeout_ms + config.longest_lease_elsewhere_ms
        self._heard_ms = dict.fromkeys(node_ids, last_heard_ms)
        self._said_ms: dict[int, int] = {}
        self._looked_ms = now_ms

    def __contains__(self, node_id: int) -> bool:
        return node_id in self._heard_ms

    def begin(self, node_id: int, now_ms: int) -> None:
        """Begin the session of a node that registers."""
        self._heard_ms[node_id] = self._said_ms[node_id] = now_ms

    def hear(self, node_id: int, now_ms: int) -> None:
        """Note that a node with a session is alive."""
        self._heard_ms[node_id] = max(self._heard_ms[node_id], now_ms)
        self._said_ms[node_id] = now_ms

    def has_heard(self, node_id: int, since_ms: int) -> bool:
        """Whether a node has said something since then; that its session lasts does not tell."""
        return node_id in self._heard_ms and self._said_ms.get(node_id, since_ms - 1) >= since_ms

    def renew(self, now_ms: int) -> None:
        """Take every node with a session for alive."""
        self._heard_ms = dict.fromkeys(self._heard_ms, now_ms)

    def end(self, node_id: int) -> None:
        """End the session of a node that is registered no longer, if it has one."""
        self._heard_ms.pop(node_id, None)
        self._said_ms.pop(node_id, None)

    @property
    def next_due_ms(self) -> int:
        """When a session may end, or it is time to look again, before the controller seems to have stood still."""
        look_ms = self._looked_ms + self._timeout_ms // 4
        return min([heard_ms + self._timeout_ms for heard_ms in self._heard_ms.values()] + [look_ms])

    def end_overdue(self, now_ms: int) -> tuple[int, ...]:
        """End the sessions of nodes that were silent for too long, and return them."""
        self._excuse(now_ms)
        overdue = sorted(
            node_id for node_id, heard_ms in self._heard_ms.items() if now_ms - heard_ms >= self._timeout_ms
        )
        for node_id in overdue:
            del self._heard_ms[node_id]
        return tuple(overdue)

    def _excuse(self, now_ms: int) -> None:
        half_ms = self._timeout_ms // 2
        if now_ms - self._looked_ms > half_ms:
            least_ms = now_ms - (self._timeout_ms - half_ms)
            self._heard_ms = {node_id: max(heard_ms, least_ms) for node_id, heard_ms in self._heard_ms.items()}
        self._looked_ms = now_ms
