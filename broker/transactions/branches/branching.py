"""What a transactional id keeps besides, where many write in its transactions: branches and tags."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from eagleray.broker.identities import LAST_EPOCH, ProducerIdentity, TopicPartition
from eagleray.broker.transactions.branches.tags import is_settled_by

BRANCH_EPOCH = 0
"""Every branch has a producer id of its own, which is never used again, so one epoch is all that it needs."""

ENDED_BRANCH_EPOCH = LAST_EPOCH
"""The epoch of a branch's markers, behind which there is none: so partitions forget the branch at once (ADR 38).

As in version 2, a late batch of the branch is older than its marker.
"""


class Branch(msgspec.Struct, frozen=True, gc=False):
    """What one attempt of one worker has written to, and, once the transaction is decided, whether that counts."""

    partitions: frozenset[TopicPartition] = frozenset()
    is_committed: bool = False


class Branching(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a transactional id and the branches of its transaction; the dict is never changed in place."""

    tag: str | None = None
    """What the transaction at hand is for, from its beginning until its markers are written; none for an ordinary."""

    committed_tag: str | None = None
    """The tag of the last transaction that was committed and had one."""

    branches: dict[int, Branch] = {}
    """By producer id. When the markers are written, those that were committed stay, so that a repeat is recognised."""

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """What all branches together have written to."""
        # Most have written to the same ones, and a set of sets finds that out at little cost.
        return frozenset().union(*{branch.partitions for branch in self.branches.values()})

    @property
    def committed(self) -> frozenset[int]:
        """The producer ids of the branches that were committed."""
        return frozenset(producer_id for producer_id, branch in self.branches.items() if branch.is_committed)

    def has_opened(self, branches: Iterable[ProducerIdentity]) -> bool:
        """Whether all of these are branches of this transaction."""
        return all(branch.epoch == BRANCH_EPOCH and branch.producer_id in self.branches for branch in branches)

    def when_committed(self, branches: Iterable[ProducerIdentity]) -> Branching:
        """The decision: these branches count, the others do not, and the tag is committed."""
        named = {branch.producer_id for branch in branches}
        decided = {
            producer_id: Branch(branch.partitions, producer_id in named)
            for producer_id, branch in self.branches.items()
        }
        committed_tag = self.committed_tag if self.tag is None else self.tag
        return Branching(tag=self.tag, committed_tag=committed_tag, branches=decided)

    def when_completed(self) -> Branching | None:
        """Every marker is written: what is left to remember, if anything is."""
        committed = {
            producer_id: Branch(is_committed=True)
            for producer_id, branch in self.branches.items()
            if branch.is_committed
        }
        if self.committed_tag is None and not committed:
            return None
        return Branching(committed_tag=self.committed_tag, branches=committed)

    def when_idle(self) -> Branching | None:
        """Another producer has the transactional id, or an ordinary transaction begins."""
        return None if self.committed_tag is None else Branching(committed_tag=self.committed_tag)


def begun_with_tag(before: Branching | None, tag: str, *, begins_anew: bool = False) -> Branching:
    """A driver takes over; where its tag is committed already, there is nothing to do for it and no transaction.

    One that begins its series anew is settled by nothing but its own tag.
    """
    committed_tag = None if before is None else before.committed_tag
    if begins_anew and tag != committed_tag:
        return Branching(tag=tag)
    return Branching(tag=None if is_settled_by(tag, committed_tag) else tag, committed_tag=committed_tag)
