"""Fetch sessions (KIP-227): the broker remembers what a consumer reads, so that requests only name what has changed."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from eagleray.broker.partitions.events import FetchedPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.fetch import FetchPartition, FetchRequest

NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_LAST_EPOCH: Final = -1
_HIGHEST_EPOCH: Final = 2**31 - 1
_KEPT_S: Final = 120.0
"""A session that was used within this time is not evicted for another."""

_POSITION_BYTES: Final = 400
"""What a session keeps of a partition besides the name of its topic, roughly."""

_NO_BOUND: Final = 2**63

_IDS_SINCE: Final = 13

PartitionKey: TypeAlias = tuple[str, bytes, int]
"""A partition as the client names it: by the name or the id of its topic."""


class ReadPosition:
    """From where, and how much, a consumer reads of one partition, and the offsets that it was last told."""

    __slots__ = ("high_watermark", "key", "leader_epoch", "log_start_offset", "max_bytes", "offset")

    def __init__(self, key: PartitionKey, asked: FetchPartition) -> None:
        self.key = key
        self.high_watermark = -1
        self.log_start_offset = -1
        self.move(asked)

    def move(self, asked: FetchPartition) -> None:
        """Go on from where the consumer says."""
        self.offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.leader_epoch = asked.current_leader_epoch

    def hear(self, found: FetchedPartition) -> bool:
        """Note what the consumer is about to be told; return whether there is news in it."""
        if found.error_code is not ErrorCode.NONE:
            self.high_watermark = -1
            return True
        is_news = (
            bool(found.records)
            or found.high_watermark != self.high_watermark
            or found.log_start_offset != self.log_start_offset
        )
        self.high_watermark = found.high_watermark
        self.log_start_offset = found.log_start_offset
        return is_news


class FetchSession:
    """What one consumer reads, and the epoch that its next request has to name."""

    __slots__ = ("epoch", "positions", "session_id", "size_bytes", "used_at_s", "uses_ids")

    def __init__(self, session_id: int, positions: dict[PartitionKey, ReadPosition], *, uses_ids: bool) -> None:
        self.session_id = session_id
        self.positions = positions
        self.uses_ids = uses_ids
        self.epoch = 1
        self.used_at_s = 0.0
        self.size_bytes = sum(map(_size_of, positions))

    def advance(self) -> None:
        """Expect the next epoch; after the highest comes 1, since 0 begins a session."""
        self.epoch = 1 if self.epoch == _HIGHEST_EPOCH else self.epoch + 1

    def change(self, request: FetchRequest) -> None:
        """Take what a request adds, moves and forgets."""
        for key, asked in _named(request):
            known = self.positions.get(key)
            if known is None:
                self.positions[key] = ReadPosition(key, asked)
                self.size_bytes += _size_of(key)
            else:
                known.move(asked)
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                key = (topic.topic, topic.topic_id, number)
                if self.positions.pop(key, None) is not None:
                    self.size_bytes -= _size_of(key)


class Reading:
    """What one request reads, and how much of the outcome it wants to hear."""

    __slots__ = ("_session", "is_incremental", "positions", "session_id")

    def __init__(
        self, positions: Iterable[ReadPosition], session: FetchSession | None = None, *, is_incremental: bool = False
    ) -> None:
        self.positions = tuple(positions)
        self.session_id = NO_SESSION if session is None else session.session_id
        self.is_incremental = is_incremental
        self._session = session

    def tells(self, position: ReadPosition, found: FetchedPartition) -> bool:
        """Whether the response includes a partition; one that had records goes behind the others for the next time."""
        if self._session is None:
            return True
        is_news = position.hear(found)
        if found.records and self.is_incremental:
            positions = self._session.positions
            if positions.pop(position.key, None) is not None:
                positions[position.key] = position
        return is_news or not self.is_incremental


class FetchSessions:
    """The sessions of one node, as many as there are slots and room; the least recently used is evicted.

    A session that is in use makes no room for another. One that grows beyond the room ends: its consumer then names
    everything in each request, which costs it more than the node.
    """

    def __init__(self, slots: int, clock_s: Callable[[], float], *, most_bytes: int = _NO_BOUND) -> None:
        self.size_bytes = 0
        self._slots = slots
        self._most_bytes = most_bytes
        self._clock_s = clock_s
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, version: int) -> Reading | ErrorCode:
        """Return what a request reads, or why its session cannot go on."""
        session_id, epoch = request.session_id, request.session_epoch
        if epoch not in (_FIRST_EPOCH, _LAST_EPOCH):
            return self._go_on(request, uses_ids=version >= _IDS_SINCE)
        # Both begin by ending what there was.
        self._end(session_id)
        positions = {key: ReadPosition(key, asked) for key, asked in _named(request)}
        if epoch == _LAST_EPOCH or not positions:
            return Reading(positions.values())
        return Reading(positions.values(), self._open(positions, uses_ids=version >= _IDS_SINCE))

    def _go_on(self, request: FetchRequest, *, uses_ids: bool) -> Reading | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_ids is not uses_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.advance()
        before_bytes = session.size_bytes
        session.change(request)
        self.size_bytes += session.size_bytes - before_bytes
        self._use(session)
        if not session.positions:
            self._end(session.session_id)
            return Reading(())
        if session.size_bytes > before_bytes and not self._has_room_for(0, 0):
            self._end(session.session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return Reading(session.positions.values(), session, is_incremental=True)

    def _open(self, positions: dict[PartitionKey, ReadPosition], *, uses_ids: bool) -> FetchSession | None:
        """Open a session if there is room; without one the client names everything each time."""
        session = FetchSession(0, positions, uses_ids=uses_ids)
        if not self._has_room_for(1, session.size_bytes):
            return None
        while not session.session_id or session.session_id in self._sessions:
            session.session_id = secrets.randbelow(_HIGHEST_EPOCH) + 1
        self._sessions[session.session_id] = session
        self.size_bytes += session.size_bytes
        self._use(session)
        return session

    def _has_room_for(self, sessions: int, size_bytes: int) -> bool:
        """Say whether there is room for more, perhaps in the place of sessions that are not in use."""
        while len(self._sessions) + sessions > self._slots or self.size_bytes + size_bytes > self._most_bytes:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or self._clock_s() - oldest.used_at_s < _KEPT_S:
                return False
            self._end(oldest.session_id)
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.size_bytes -= session.size_bytes

    def _use(self, session: FetchSession) -> None:
        session.used_at_s = self._clock_s()
        self._sessions.move_to_end(session.session_id)


def _named(request: FetchRequest) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        for asked in topic.partitions:
            yield (topic.topic, topic.topic_id, asked.partition), asked


def _size_of(key: PartitionKey) -> int:
    return _POSITION_BYTES + len(key[0])
