"""A voter as a follower: it never gives up what was committed."""

from __future__ import annotations

from eagleray.broker.replication.events import Push
from eagleray.broker.replication.follower import ReplicationFollower


class MetadataWouldGoBack(Exception):
    """A leader lacks what was committed: it has lost it, and its followers would lose it as well."""


class VoterFollower(ReplicationFollower):
    """Keeps its log equal to the leader's, as long as the leader has everything that was committed."""

    keeps_before = 0
    """Everything before this offset was committed."""

    def _agrees_before(self, push: Push, now_ms: int) -> bool:
        begins_anew = push.begins_anew and push.base_offset > self.agreed_offset
        if begins_anew and push.leader_end_offset < self.keeps_before:
            self._refuse(push.leader, push.leader_end_offset)
        return super()._agrees_before(push, now_ms)

    def _truncate(self, to_offset: int, now_ms: int) -> None:
        if to_offset < min(self.keeps_before, self.log.log_end_offset):
            self._refuse(self.leader_epoch, to_offset)
        super()._truncate(to_offset, now_ms)

    def _refuse(self, leader: int, offset: int) -> None:
        raise MetadataWouldGoBack(
            f"{self.partition}: everything before offset {self.keeps_before} was committed, and the leader ({leader}) "
            f"has it only up to {offset}. Nothing was changed. Stop the voters that have lost some, and let those lead "
            "that have it"
        )
