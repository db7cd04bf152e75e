"""One consumer group of the new protocol."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from eagleray.broker.groups.consumer.config import ConsumerGroupConfig
from eagleray.broker.groups.consumer.decisions import Draft, GroupDecision, HeartbeatRefusal
from eagleray.broker.groups.consumer.heartbeats import Client, Surroundings, leave, remove_members, stay
from eagleray.broker.groups.consumer.member import Member
from eagleray.broker.groups.consumer.partitions import TopicIdPartition
from eagleray.broker.groups.consumer.records import Key
from eagleray.broker.groups.consumer.session_times import SessionTimes
from eagleray.broker.groups.consumer.state import GroupState
from eagleray.broker.groups.consumer.topics import Topics
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from eagleray.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
)

_NEVER: Final = 2**31
"""An epoch that no member gets to."""


class ConsumerGroup:
    """A group whose members the coordinator assigns partitions to.

    Owns: the state that the group's records come to, and the deadlines of its members, which no record has. A decision
    changes nothing but the time at which a member was last heard from; `apply` does the rest, before anything else is
    decided.
    """

    def __init__(self, group_id: str, config: ConsumerGroupConfig) -> None:
        self.state = GroupState(group_id=group_id)
        self._config = config
        self._times = SessionTimes()
        self._checked: Topics | None = None
        """The topics that the group was last found to fit: as long as they are the same, it need not look again."""

    # Decisions

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, client: Client, around: Surroundings) -> GroupDecision:
        """Decide about a heartbeat that makes sense as such."""
        draft = Draft(self.state)
        if request.member_epoch < 0:
            outcome = leave(draft, request, around)
        else:
            is_checked = self._checked is around.topics
            outcome = stay(draft, request, client, around, is_checked=is_checked)
        if isinstance(outcome, HeartbeatRefusal):
            return refuse(self.state.group_id, outcome)
        if request.member_epoch >= 0 and request.member_id in self.state.members:
            self._times.heard_from(request.member_id, around.now_ms + self._config.group_consumer_session_timeout_ms)
        if not draft.records:
            self._checked = around.topics
        return draft.decide(outcome)

    @property
    def next_due_ms(self) -> int:
        """When the time of a member is up."""
        return self._times.next_due_ms(self.state.members)

    def expire(self, around: Surroundings) -> GroupDecision | None:
        """Decide about members whose time is up, if there are any: they are out."""
        late = self._times.expired(around.now_ms, self.state.members)
        if not late:
            return None
        draft = Draft(self.state)
        remove_members(draft, late, around)
        return draft.decide()

    def delete(self) -> GroupDecision:
        """Decide about the end of the group, which has to be without members."""
        if self.state.members:
            return GroupDecision(self.state.group_id, error_code=ErrorCode.NON_EMPTY_GROUP)
        draft = Draft(self.state)
        draft.remove_group()
        return draft.decide()

    # Changes

    def apply(self, key: Key, value: Message | None, now_ms: int) -> None:
        """Take a record that is in the log."""
        self.state.apply(key, value)
        if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._times.told(key.member_id, self.state.members.get(key.member_id), now_ms)
        if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey | ConsumerGroupMemberMetadataKey):
            deadline_ms = now_ms + self._config.group_consumer_session_timeout_ms
            self._times.follow(key.member_id, deadline_ms, is_member=key.member_id in self.state.members)

    def begin_sessions(self, now_ms: int) -> None:
        """Give all members their full time from now on."""
        for member_id, member in self.state.members.items():
            self._times.heard_from(member_id, now_ms + self._config.group_consumer_session_timeout_ms)
            self._times.told(member_id, member, now_ms)

    # Commits: the same questions that `Membership` answers for classic groups

    @property
    def members(self) -> dict[str, Member]:
        """The members of the group."""
        return self.state.members

    def check_commit(
        self,
        generation: int,
        member_id: str,
        group_instance_id: str | None,  # noqa: ARG002 - an id names one member, and a static one gets another each time
        *,
        is_transactional: bool,  # noqa: ARG002 - in these groups both kinds of commit name their member
        partitions: Collection[TopicIdPartition | None] = (),
    ) -> ErrorCode:
        """Say whether a commit is by a member at its current epoch, or by an admin while there are no members.

        A member at an earlier epoch may commit as well if it has had all of the partitions since then; None stands for
        one of a topic that does not exist.
        """
        if generation < 0 and not self.state.members:
            return ErrorCode.NONE
        error_code = self._check_epoch(member_id, generation)
        if error_code is ErrorCode.STALE_MEMBER_EPOCH and partitions:
            member = self.state.members[member_id]
            since = [member.held_since.get(partition, _NEVER) if partition else _NEVER for partition in partitions]
            if max(since) <= generation < member.epoch:
                return ErrorCode.NONE
        return error_code

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Say whether a client may fetch offsets: a member at its current epoch, or a client that names no member."""
        if not member_id and epoch < 0:
            return ErrorCode.NONE
        return self._check_epoch(member_id or "", epoch)

    def _check_epoch(self, member_id: str, epoch: int) -> ErrorCode:
        member = self.state.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def refuse(group_id: str, refusal: HeartbeatRefusal) -> GroupDecision:
    """Give the decision that a request comes to nothing."""
    response = ConsumerGroupHeartbeatResponse(error_code=refusal.error_code, error_message=refusal.message)
    return GroupDecision(group_id, response=response, error_code=refusal.error_code)
