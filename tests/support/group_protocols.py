"""The smallest protocol of groups there can be: a room whose members a test names, with records of its own in the log.

It stands for whatever protocol a group's members speak, in tests of what offsets and the log do with any of them.
"""

from collections.abc import Set as AbstractSet
from typing import ClassVar

import msgspec

from eagleray.broker.groups.group_protocol import GroupProtocol, Handlers
from eagleray.broker.groups.membership import GenerationMembership, LogRecord
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import NO_TIME, MembersState
from eagleray.broker.messages import Message
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import GroupDriver

RECORD_TYPE = 99
_PREFIX = RECORD_TYPE.to_bytes(2)


class EnterRoom(Message, frozen=True):
    """From now on these are in the room."""

    request_id: int
    group: str
    generation: int
    members: frozenset[str]


class Room(GenerationMembership):
    kind: ClassVar = "room"
    state_name = "Open"
    protocol_type = "reading"
    is_completing_rebalance = False

    def __init__(
        self,
        *,
        generation: int,
        members: AbstractSet[str],
        static_members: dict[str, str] | None = None,
        is_completing_rebalance: bool = False,
        name: str = "",
        empty_since_ms: int = NO_TIME,
    ) -> None:
        self.generation = generation
        self.members = members
        self.static_members = static_members or {}
        self.is_completing_rebalance = is_completing_rebalance
        self.name = name
        self.has_members = bool(members)
        self.empty_since_ms = empty_since_ms
        self.commits: list[tuple[str, int]] = []

    has_members = False
    empty_since_ms = NO_TIME

    def commit_taken(self, member_id: str, now_ms: int) -> None:
        self.commits.append((member_id, now_ms))

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        stale = member_id is not None and member_epoch != self.generation
        return ErrorCode.STALE_MEMBER_EPOCH if stale else ErrorCode.NONE

    def subscribes_to(self, topic: str) -> bool:
        return self.has_members and topic == "orders"

    def tombstones(self) -> tuple[LogRecord, ...]:
        return ((_PREFIX + self.name.encode(), None),) if self.name else ()


class RoomsState(MembersState):
    def __init__(self) -> None:
        self.rooms: dict[str, tuple[int, list[str]]] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        name = key[len(_PREFIX) :].decode()
        if value is None:
            self.rooms.pop(name, None)
        else:
            self.rooms[name] = msgspec.json.decode(value, type=tuple[int, list[str]])


class ReadingRoom(GroupProtocol):
    record_types: ClassVar = frozenset({RECORD_TYPE})

    def new_state(self) -> RoomsState:
        return RoomsState()

    def handlers(self) -> Handlers:
        return {EnterRoom: self._enter}

    def _enter(self, request: EnterRoom, now_ms: int) -> None:
        shard = self.context.shards.find(request.group)
        assert isinstance(shard, Shard)
        content = msgspec.json.encode((request.generation, sorted(request.members)))

        refusal = self.context.refusal(shard)
        if refusal is not ErrorCode.NONE:
            self.context.reply(request.request_id, refusal)
            return
        self.context.log_members(shard, ((_PREFIX + request.group.encode(), content),))
        self.loaded(shard, now_ms)
        self.context.reply(request.request_id, ErrorCode.NONE, shard)

    def loaded(self, shard: Shard, now_ms: int) -> None:
        for name, (generation, members) in shard.state.members[RECORD_TYPE].rooms.items():
            shard.live[name] = Room(
                generation=generation, members=set(members), name=name, empty_since_ms=NO_TIME if members else now_ms
            )

    def closed(self, shard: Shard, error_code: ErrorCode, now_ms: int) -> None:
        shard.live.clear()

    @property
    def next_due_ms(self) -> int:
        return NEVER_MS

    def tick(self, now_ms: int) -> None:
        """No member is timed."""


def room_of(driver: GroupDriver, group: str, room: Room) -> None:
    """Put a member into a group without asking the log."""
    shard = driver.coordinator._context.shards.find(group)
    shard.live[group] = room
