"""How a member gets from what it has to what it shall have, one heartbeat at a time.

                  target differs                     all given up
      STABLE ───────────────────► UNREVOKED_PARTITIONS ──────────► the next epoch, and on from there
        ▲ ▲  nothing to give up           ▲
        │ └────────────────────┐          │ a newer target takes something away
        │ all is free          │          │
      UNRELEASED_PARTITIONS ◄──┴──────────┘ something is still with its old owner

A member first gives up what its target does not have; until it says so it stays in its epoch. Then it has the epoch of
the target and all of it that is free. What another member still holds it gets with a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from eagleray.broker.groups.consumer.member import Member, MemberState
from eagleray.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions, TopicIdPartition


def reconcile(
    member: Member,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> Member:
    """Take the step that is possible now, or return the member as it is.

    `owned` is what the member says it has; None says nothing, so it may still have everything.
    """
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _has_any(owned, member.to_revoke):
            return member
        # The target was newer than the member when it was asked to give something up, so this is not beyond it.
        epoch += 1
    kept = member.assigned & target
    to_revoke = member.assigned - target
    if _has_any(owned, to_revoke):
        return _told(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, to_revoke)
    missing = target - kept
    free = frozenset(partition for partition in missing if is_free(partition))
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
    return _told(member, target_epoch, state, kept | free, NO_PARTITIONS)


def _has_any(owned: Partitions | None, partitions: Partitions) -> bool:
    return bool(partitions) if owned is None else not owned.isdisjoint(partitions)


def _told(member: Member, epoch: int, state: MemberState, assigned: Partitions, to_revoke: Partitions) -> Member:
    since = {partition: member.held_since.get(partition, epoch) for partition in assigned | to_revoke}
    told = replace(member, epoch=epoch, state=state, assigned=assigned, to_revoke=to_revoke, held_since=since)
    # A member that learns nothing new may still come with the epoch before: it has missed the answer that told it.
    return member if told == member else replace(told, previous_epoch=member.epoch)
