"""One member of a classic group."""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.broker.groups.classic.events import DescribedMember, JoinedMember, JoinGroup, MemberProtocol

NEVER_MS: Final = 2**63 - 1
"""Later than anything that is ever due."""


class Member(msgspec.Struct):
    """A member, what it wants, and which of its requests wait."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    protocols: tuple[MemberProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignment: bytes = b""
    is_new: bool = False
    """It has never been in a generation. As long as it waits for one, it may be given up all the same."""

    waiting_join: int | None = None
    waiting_sync: int | None = None
    deadline_ms: int = NEVER_MS
    """When it is given up, unless it is heard of before."""

    @classmethod
    def of(cls, request: JoinGroup, member_id: str) -> Member:
        """Make a member of the client that asks to be one."""
        return cls(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.protocols,
            request.session_timeout_ms,
            request.effective_rebalance_timeout_ms,
            is_new=True,
        )

    @property
    def expires_ms(self) -> int:
        """When it is given up; one that waits for an answer of ours need not be heard of meanwhile."""
        is_waiting = self.waiting_join is not None or self.waiting_sync is not None
        return NEVER_MS if is_waiting and not self.is_new else self.deadline_ms

    def metadata(self, protocol: str | None) -> bytes | None:
        """Return what it wants under a protocol, or None for one that it does not know."""
        return next((known.metadata for known in self.protocols if known.name == protocol), None)

    def vote(self, candidates: set[str]) -> str:
        """Return the one of the candidates that it would rather have than all others."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    def as_joined(self, protocol: str | None) -> JoinedMember:
        """Show it to the leader."""
        return JoinedMember(self.member_id, self.group_instance_id, self.metadata(protocol) or b"")

    def described(self, protocol: str | None) -> DescribedMember:
        """Show it to an admin; without a protocol, only who it is."""
        who = (self.member_id, self.group_instance_id, self.client_id, self.client_host)
        if protocol is None:
            return DescribedMember(*who)
        return DescribedMember(*who, self.metadata(protocol) or b"", self.assignment)
