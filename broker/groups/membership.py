"""Who may commit offsets for a group: members of its generation, or anybody while it has no members (KIP-447)."""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.protocol.errors import ErrorCode

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a group at one moment, as far as commits are concerned."""

    generation: int = 0
    members: frozenset[str] = frozenset()
    static_members: dict[str, str] = {}
    """Which member holds each group.instance.id."""

    is_completing_rebalance: bool = False
    """The members know their generation, and not yet what each of them is to consume."""

    def check_commit(
        self, generation: int, member_id: str, group_instance_id: str | None, *, is_transactional: bool
    ) -> ErrorCode:
        """Say whether a commit is by somebody who may, and if not, why."""
        if generation < 0 and not self.members:
            # An admin, or a consumer that chose its partitions itself.
            return ErrorCode.NONE
        if generation >= 0 or member_id or group_instance_id is not None:
            error_code = self._check_member(member_id, group_instance_id)
            if error_code is not ErrorCode.NONE:
                return error_code
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional:
            # The first versions of a transactional commit name nobody, and must go on to work.
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.is_completing_rebalance and not is_transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is not None and holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID


NO_MEMBERS: Final = Membership()
