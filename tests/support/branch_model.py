"""What the transaction log must never show of branches and tags, told by the records alone."""

from __future__ import annotations

from eagleray.broker.transactions.branches.branching import Branch
from eagleray.broker.transactions.branches.tags import is_settled_by
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState

_State = TransactionState


def branches_of(snapshot: Snapshot | None) -> dict[int, Branch]:
    return {} if snapshot is None or snapshot.branching is None else snapshot.branching.branches


def tag_of(snapshot: Snapshot | None) -> str | None:
    return None if snapshot is None or snapshot.branching is None else snapshot.branching.tag


def committed_tag_of(snapshot: Snapshot | None) -> str | None:
    return None if snapshot is None or snapshot.branching is None else snapshot.branching.committed_tag


class BranchModel:
    """Sees every record that gets into the log, with the one before it under the same key."""

    def __init__(self) -> None:
        self.opened: set[int] = set()
        self.commits = 0

    def see(self, before: Snapshot | None, after: Snapshot | None) -> None:
        if after is None:
            return
        self._see_branches(before, after)
        self._see_tags(before, after)
        if after.state is _State.PREPARE_COMMIT and before is not None and before.state is _State.EMPTY:
            assert tag_of(before) is not None, "an ordinary transaction without partitions is committed"

    def _see_branches(self, before: Snapshot | None, after: Snapshot) -> None:
        known, branches = branches_of(before), branches_of(after)
        if after.state is _State.EMPTY:
            assert not branches, "whoever begins has no branches"
        if after.state is _State.ONGOING:
            fresh = branches.keys() - (known.keys() if before.state is _State.ONGOING else set())
            assert fresh.isdisjoint(self.opened), "a producer id is used for two branches"
            assert not fresh or tag_of(before) is not None, "a branch without a transaction that has any"
            assert not any(branch.is_committed for branch in branches.values())
            self.opened |= fresh
        if before is not None and before.state is _State.ONGOING:
            assert branches.keys() >= known.keys(), "a branch is lost"
            assert all(branches[key].partitions >= known[key].partitions for key in known), "a partition is lost"

    def _see_tags(self, before: Snapshot | None, after: Snapshot) -> None:
        is_commit = after.state is _State.PREPARE_COMMIT and tag_of(before) is not None
        if is_commit:
            assert not is_settled_by(tag_of(before), committed_tag_of(before)), "a tag is committed twice"
            assert committed_tag_of(after) == tag_of(before), "the commit forgets its tag"
            self.commits += 1
        else:
            assert committed_tag_of(after) == committed_tag_of(before), "the last committed tag does not survive"
        if before is not None and before.state in (_State.ONGOING, _State.EMPTY) and after.state is not _State.EMPTY:
            assert tag_of(after) == tag_of(before), "a transaction changes its tag"
        if after.state in (_State.COMPLETE_COMMIT, _State.COMPLETE_ABORT):
            assert tag_of(after) is None
