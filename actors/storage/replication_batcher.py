"""Batches what the replicas of a node send to those of another, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from eagleray.actors.lanes.messages import ReplicationBatch
from eagleray.actors.lanes.peers import Peers
from eagleray.broker.replication.events import Push, PushAnswered


class _Gathered(msgspec.Struct):
    pushes: list[Push] = []
    answers: list[PushAnswered] = []


class ReplicationBatcher:
    """Sends each node one message a turn, with the pushes and the answers of all partitions.

    A message costs as much as a small push itself, and with many partitions there are many pushes in a turn. Owns: what
    was not sent yet. It does not report whether a message arrived: what gets lost is pushed again.
    """

    def __init__(self, peers: Peers, max_bytes: int) -> None:
        self._peers = peers
        self._max_bytes = max_bytes
        self._gathered: dict[int, _Gathered] = {}

    def push(self, node_id: int, push: Push) -> None:
        """Push to a follower on a node."""
        self._for(node_id).pushes.append(push)

    def answer(self, node_id: int, answer: PushAnswered) -> None:
        """Answer a leader on a node."""
        self._for(node_id).answers.append(answer)

    def _for(self, node_id: int) -> _Gathered:
        gathered = self._gathered.get(node_id)
        if gathered is None:
            gathered = self._gathered[node_id] = _Gathered()
            self._peers.gather(node_id, partial(self._send, node_id))
        return gathered

    def _send(self, node_id: int) -> None:
        gathered = self._gathered.pop(node_id)
        answers = tuple(gathered.answers)
        for pushes in _divided(gathered.pushes, self._max_bytes):
            self._peers.ask(node_id, None, ReplicationBatch, pushes, answers)
            answers = ()


def _divided(pushes: list[Push], max_bytes: int) -> Iterator[tuple[Push, ...]]:
    """Divide pushes so that no message is much larger than one with a single push may be; there is at least one."""
    together: list[Push] = []
    size_bytes = 0
    for push in pushes:
        push_bytes = len(push.records) + len(push.producers)
        if together and size_bytes + push_bytes > max_bytes:
            yield tuple(together)
            together, size_bytes = [], 0
        together.append(push)
        size_bytes += push_bytes
    yield tuple(together)
