"""When members of a group have to have been heard from, and when they have to have given up partitions.

Times are not in the log: the coordinator that loads a group gives all of its members their full time again.
"""

from __future__ import annotations

from collections.abc import Mapping

from eagleray.broker.groups.consumer.member import Member, MemberState
from eagleray.broker.runtime.deadlines import NEVER_MS


class SessionTimes:
    """The deadlines of the members of one group."""

    __slots__ = ("_revoking_since_ms", "_sessions_ms")

    def __init__(self) -> None:
        self._sessions_ms: dict[str, int] = {}
        """Until when members have to be heard from."""
        self._revoking_since_ms: dict[str, int] = {}
        """Since when members have something to give up; how long they may take is theirs to say, and may change."""

    def heard_from(self, member_id: str, deadline_ms: int) -> None:
        """Give a member until then to be heard from again."""
        self._sessions_ms[member_id] = deadline_ms

    def follow(self, member_id: str, deadline_ms: int, *, is_member: bool) -> None:
        """Begin with a member that was not there before, or end with one that has gone."""
        if is_member:
            self._sessions_ms.setdefault(member_id, deadline_ms)
        else:
            self._sessions_ms.pop(member_id, None)
            self._revoking_since_ms.pop(member_id, None)

    def told(self, member_id: str, member: Member | None, now_ms: int) -> None:
        """Take note of whether a member was told to give something up."""
        self._revoking_since_ms.pop(member_id, None)
        if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS and member.to_revoke:
            self._revoking_since_ms[member_id] = now_ms

    def next_due_ms(self, members: Mapping[str, Member]) -> int:
        """When the time of a member is up, and of none before it."""
        return min([deadline_ms for _, deadline_ms in self._deadlines(members)], default=NEVER_MS)

    def expired(self, now_ms: int, members: Mapping[str, Member]) -> list[str]:
        """Return the members whose time is up; they stay until a record says that they are gone."""
        return sorted({member_id for member_id, deadline_ms in self._deadlines(members) if deadline_ms <= now_ms})

    def _deadlines(self, members: Mapping[str, Member]) -> list[tuple[str, int]]:
        revoking = [
            (member_id, since_ms + members[member_id].rebalance_timeout_ms)
            for member_id, since_ms in self._revoking_since_ms.items()
        ]
        return [*self._sessions_ms.items(), *revoking]
