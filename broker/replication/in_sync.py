"""The in-sync set (ISR) of a partition, as its leader knows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import InSyncReplica, IsrAnswered, ProposeIsr

NO_INCARNATION: Final = -1

_LONG_AGO_MS: Final = -(2**62)


class InSyncSet:
    """The partition's state as the controller confirmed it, and at most one change that the leader has proposed.

    Owns: the confirmed state at its partition epoch, and the proposal until its outcome is known. While a proposal is
    open, the controller may elect from either of the two sets, so what counts as replicated has to be on the larger one
    (KIP-497). A proposal is withdrawn once the partition epoch has moved, or when the controller refuses it. The
    controller judges by logged metadata alone, so what it refused once at a partition epoch it always refuses.
    """

    def __init__(self, state: PartitionImage) -> None:
        self.state = state
        self.proposal: ProposeIsr | None = None
        self.proposed_ms = 0
        self.refused_ms = _LONG_AGO_MS

    @property
    def maximal(self) -> Collection[int]:
        """Every replica that the controller may elect by now (Kafka's maximal ISR)."""
        if self.proposal is None:
            return self.state.isr
        return frozenset((*self.state.isr, *(replica.node_id for replica in self.proposal.isr)))

    def learn(self, state: PartitionImage) -> bool:
        """Take a state that the controller has confirmed, unless it is an older one."""
        if state.partition_epoch <= self.state.partition_epoch:
            return False
        self.state = state
        self.proposal = None
        return True

    def propose(self, proposal: ProposeIsr, now_ms: int) -> ProposeIsr:
        """Remember the proposal, which is about to be sent, or sent again."""
        assert self.proposal in (None, proposal), "a proposal is open already"
        self.proposal, self.proposed_ms = proposal, now_ms
        return proposal

    def refused(self, event: IsrAnswered, now_ms: int) -> None:
        """Withdraw the proposal, if it is the one that the controller has refused."""
        if self.proposal is not None and event.proposed_at_epoch == self.proposal.partition_epoch:
            self.proposal = None
            self.refused_ms = now_ms


def is_follower_in_sync(agreed_offset: int, high_watermark: int, epoch_start_offset: int) -> bool:
    """Whether a follower has all that may have been acknowledged, by this leader or by one before it.

    How far the high watermark of earlier leaders had come is unknown, but it was not beyond where this epoch began.
    """
    return agreed_offset >= max(high_watermark, epoch_start_offset)


def without_lagging(isr: Iterable[int], lagging: Iterable[int], least: int) -> tuple[int, ...]:
    """Return the ISR without the replicas that lag, of which the most lagging come first.

    It never gets smaller than `least`. A replica that stays although it lags holds the high watermark back, so that
    every replica in the set has everything that was ever acknowledged.
    """
    kept = list(isr)
    for node_id in lagging:
        if len(kept) > least and node_id in kept:
            kept.remove(node_id)
    return tuple(kept)


def in_their_incarnations(isr: Iterable[int], incarnations: dict[int, int]) -> tuple[InSyncReplica, ...]:
    """Pair replicas with the incarnations in which the leader knows them; a replica that is away has none."""
    return tuple(InSyncReplica(node_id, incarnations.get(node_id, NO_INCARNATION)) for node_id in isr)
