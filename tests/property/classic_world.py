"""Members of a classic group that come, go and fall silent as they like, and what has to be true whatever they do.

Nothing here says what the coordinator has to do next. It says what no member may ever see: two leaders of a generation,
another protocol than its fellows', another's assignment, a generation that goes back, or no answer.
"""

from __future__ import annotations

import msgspec

from eagleray.broker.groups.classic.events import GroupJoined, GroupSynced, LeavingMember, MemberAssignment
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.log_records import RECORD_TYPE, encode_group
from eagleray.broker.groups.classic.states import GroupState
from eagleray.broker.groups.config import GroupConfig
from eagleray.protocol.codec import decode_versioned
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_offsets import GroupMetadataValue
from tests.support.classic_groups import ClassicDriver, knows
from tests.support.groups import GROUP, ORDERS_0, offset

SESSION_MS = 10_000
REBALANCE_MS = 30_000
_ALL_SILENT_MS = 400_000


class Client(msgspec.Struct):
    """Somebody who may be a member."""

    instance_id: str | None
    is_modern: bool
    member_id: str = ""
    joined: GroupJoined | None = None
    """The last generation that it was told of."""


class Generation(msgspec.Struct):
    """What members were told of one generation."""

    protocol: str
    leaders: set[str] = set()


class ClassicWorld(ClassicDriver):
    """Drives one group and checks every answer."""

    def __init__(self, delay_ms: int, max_size: int) -> None:
        config = GroupConfig(
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=delay_ms,
            group_max_size=max_size,
            offsets_retention_check_interval_ms=1000,
        )
        self.clients = [Client("host-1", True), Client("host-2", False), *(Client(None, bool(n)) for n in range(4))]
        self.asked: dict[int, tuple[Client, object]] = {}
        """Who waits for an answer to what."""
        self.asked_of_old: set[int] = set()
        """Requests to a group that is deleted by now; the answers wait for the log."""
        self.generations: dict[int, Generation] = {}
        """Those that members were told of since the coordinator began, or the group."""
        self.last_generation = 0
        self.synced_generation = 0
        self.checked_up_to = 0, -1
        super().__init__(config)

    # What clients do

    def client_joins(self, client: Client, protocols: tuple[str, ...], *, forgets_id: bool) -> None:
        if forgets_id:
            client.member_id = ""
        request_id = self.join(
            client.member_id,
            protocols=knows(*protocols),
            group_instance_id=client.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            requires_known_member_id=client.is_modern,
            supports_skipping_assignment=client.is_modern,
        )
        self._note(request_id, client)

    def rally(self, numbers: set[int], protocols: tuple[str, ...]) -> None:
        """Have clients join until each of them waits, or is in a generation with the others."""
        for _ in range(3):
            for client in (self.clients[number] for number in sorted(numbers)):
                if not any(asking is client for asking, _ in self.asked.values()):
                    self.client_joins(client, protocols, forgets_id=False)

    def client_syncs(self, client: Client) -> None:
        joined = client.joined
        if joined is None:
            return
        given = tuple(
            MemberAssignment(member.member_id, _share(joined.generation, member.group_instance_id or member.member_id))
            for member in joined.members
        )
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        request_id = self.sync(joined, group_instance_id=client.instance_id, assignments=given if leads else ())
        self._note(request_id, client)

    def client_beats(self, client: Client) -> None:
        if client.joined is not None:
            self.send_beat(client.joined, group_instance_id=client.instance_id)

    def client_leaves(self, client: Client) -> None:
        self.leave(LeavingMember(client.member_id, client.instance_id))

    def client_commits(self, client: Client) -> None:
        if client.joined is not None:
            self.commit(offset(ORDERS_0, 1), generation=client.joined.generation, member_id=client.member_id)

    def _note(self, request_id: int, client: Client) -> None:
        self.asked[request_id] = client, client.joined
        self._take_answers()

    # What becomes of it

    def send(self, *events: object) -> list:
        effects = super().send(*events)
        if hasattr(self, "coordinator"):
            self._take_answers()
        return effects

    def _take_answers(self) -> None:
        for request_id in [request_id for request_id in self.asked if request_id in self.replies]:
            client, before = self.asked.pop(request_id)
            answer = self.replies[request_id]
            if request_id in self.asked_of_old:
                self.asked_of_old.remove(request_id)
            elif isinstance(answer, GroupJoined):
                self._check_joined(client, answer)
            elif isinstance(answer, GroupSynced) and answer.error_code is ErrorCode.NONE:
                self._check_synced(client, before, answer)

    def _check_joined(self, client: Client, answer: GroupJoined) -> None:
        if answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        if answer.error_code is not ErrorCode.NONE:
            return
        client.member_id, client.joined = answer.member_id, answer
        assert answer.generation >= self.last_generation, "a generation goes back"
        self.last_generation = answer.generation
        told = self.generations.setdefault(answer.generation, Generation(answer.protocol_name or ""))
        assert told.protocol == answer.protocol_name, "members of a generation speak different protocols"
        leads = answer.leader == answer.member_id
        if leads:
            # An instance that has been replaced is the same leader under another id.
            told.leaders.add(client.instance_id or client.member_id)
            assert len(told.leaders) == 1, "two leaders"
        assert bool(answer.members) == leads, "the leader, and only the leader, knows everybody"
        assert not leads or answer.member_id in {member.member_id for member in answer.members}

    def _check_synced(self, client: Client, joined: object, answer: GroupSynced) -> None:
        assert isinstance(joined, GroupJoined)
        owner = client.instance_id or joined.member_id
        assert answer.assignment == _share(joined.generation, owner), "another's assignment"
        self.synced_generation = max(self.synced_generation, joined.generation)

    # Trouble

    def lose_newest(self) -> None:
        """The log does not take what was just appended; all that wait are told, and the group is loaded again."""
        self._begin_anew()
        self.checked_up_to = 0, -1
        self.lose()
        assert not self.asked, "not everybody was told"
        self._check_recovered()

    def refuse(self, *, refuses: bool) -> None:
        self.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE if refuses else ErrorCode.NONE

    def crash(self) -> None:
        """The process dies; whoever waited never hears of it."""
        self.asked.clear()
        self._begin_anew()
        self.restart()
        self._check_recovered()

    def resign_and_lead(self) -> None:
        self.resign()
        assert not self.asked, "not everybody was told"
        self.appends.clear()
        self.epoch += 1
        self._begin_anew()
        self.lead()
        self._check_recovered()

    def _begin_anew(self) -> None:
        self.generations.clear()
        self.last_generation = 0

    def _check_recovered(self) -> None:
        if self.is_live():
            assert self.live().generation >= self.synced_generation, "what a member was given is forgotten"
        else:
            assert not self.synced_generation

    def delete(self) -> None:
        """Have the group deleted; a new one begins to count at the beginning."""
        was_live = self.is_live()
        self.delete_group()
        if was_live and not self.is_live():
            self._forget_group()

    def pass_time(self, after_ms: int) -> None:
        was_live = self.is_live()
        self.tick(after_ms)
        if was_live and not self.is_live():
            self._forget_group()

    def _forget_group(self) -> None:
        self.asked_of_old.update(self.asked)
        self.generations.clear()
        self.last_generation = self.synced_generation = 0

    # What is true at any time

    def check(self) -> None:
        group = self.live() if self.is_live() else None
        waiting = set() if group is None else _waiting_in(group)
        assert waiting <= set(self.asked), "somebody waits for nothing"
        assert self.appends or waiting == set(self.asked), "nobody waits for an answer"
        if group is not None:
            _check_group(group)
            if group.is_completing_rebalance:
                assert self.appends or self.generations[group.generation].leaders, "a generation without a leader"
        self._check_log(group)

    def _check_log(self, group: ClassicGroup | None) -> None:
        if self.checked_up_to != (self.epoch, self.logs[0].log_end_offset):
            self.checked_up_to = self.epoch, self.logs[0].log_end_offset
            self.logged_groups = self.logged().groups
        logged = self.logged_groups
        shard = self.coordinator._context.shards.by_partition[0]
        assert shard.state.members[RECORD_TYPE].groups == logged, "the state is not what the log says"
        if group is None or not group.is_logged:
            assert GROUP not in logged
        elif group.state in (GroupState.STABLE, GroupState.EMPTY):
            assert _without_time(_record_of(group)) == _without_time(logged[GROUP]), (
                "a recovery would give another group"
            )

    def see_everything_end(self) -> None:
        """When everybody is silent, everybody is told something, and nobody is left."""
        self.refuse(refuses=False)
        for _ in range(3):
            self.settle()
            self.tick(_ALL_SILENT_MS)
        self.settle()
        assert not self.asked, "somebody waits for ever"
        assert not self.is_live() or self.live().state is GroupState.EMPTY


def _share(generation: int, owner: str) -> bytes:
    return f"{generation}/{owner}".encode()


def _waiting_in(group: ClassicGroup) -> set[int]:
    members = group.members.values()
    waiting = {member.waiting_join for member in members} | {member.waiting_sync for member in members}
    return {request_id for request_id in waiting if request_id is not None}


def _check_group(group: ClassicGroup) -> None:
    members = group.members
    assert group.joining == sum(member.waiting_join is not None for member in members.values())
    assert group.static_members == {
        member.group_instance_id: member_id
        for member_id, member in members.items()
        if member.group_instance_id is not None
    }
    assert group.pending_syncs <= set(members)
    assert not set(group.pending_joins) & set(members)
    assert (group.leader in members) if members else group.leader is None
    if group.state is GroupState.EMPTY:
        assert not members
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        assert members
        assert all(member.metadata(group.protocol_name) is not None for member in members.values())
    if group.state is not GroupState.COMPLETING_REBALANCE:
        assert all(member.waiting_sync is None for member in members.values())
    if group.state is GroupState.COMPLETING_REBALANCE:
        assert not group.joining
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is not GroupState.EMPTY:
        assert not group.all_have_joined, "everybody is there, and nothing happens"


def _record_of(group: ClassicGroup) -> GroupMetadataValue:
    _, value = encode_group(group)
    assert value is not None
    return decode_versioned(GroupMetadataValue, value)


def _without_time(record: GroupMetadataValue) -> GroupMetadataValue:
    members = tuple(sorted(record.members, key=lambda member: member.member_id))
    return msgspec.structs.replace(record, current_state_timestamp=-1, members=members)
