"""A member of a group: who it is, what it wants, what it was told and how far it has come with that."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from eagleray.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions, TopicIdPartition
from eagleray.protocol.messages.consumer_group_records import ClassicMemberMetadata

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2
"""Epochs with a meaning of their own, in heartbeats; a static member that is away is stored with the last."""


class MemberState(IntEnum):
    """How far a member is on its way to its target."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has to give something up before it is told more."""

    UNRELEASED_PARTITIONS = 2
    """It has the epoch of its target, and waits for partitions that others have not given up."""

    UNKNOWN = 127
    """A newer version has left a state that this one does not know."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:  # noqa: ARG003 - whatever it is, it is not known
        return cls.UNKNOWN


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One member, as the records about it come to."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """What is known of a member that joined by the classic protocol; only Kafka's own logs have such members."""

    epoch: int = JOINING
    previous_epoch: int = JOINING
    """The one before, with which the member comes once more if it has missed an answer."""

    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    to_revoke: Partitions = NO_PARTITIONS
    held_since: dict[TopicIdPartition, int] = {}
    """The epoch at which the member got each partition: what it read since then it may commit (KIP-1251)."""

    @property
    def held(self) -> Partitions:
        """All that no other member may be given now."""
        return self.assigned | self.to_revoke

    def is_reconciled(self, target_epoch: int) -> bool:
        """Say whether the member has all that the target of an epoch gives it, and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch
