"""A stranger and a handle at the direct lane: prefaces, tokens and questions, as bytes choose them."""

import asyncio
from typing import Any

import msgspec

from eagleray.actors.lanes.direct import DirectSession
from eagleray.actors.lanes.frames import (
    CANNOT_ENCODE,
    MAGIC,
    VERSION,
    decode_messages,
    decode_readable,
    decode_welcome,
    encode_messages,
    encode_preface,
)
from eagleray.actors.lanes.link import SESSION_SHIFT
from eagleray.actors.lanes.messages import MarkersRequested
from eagleray.broker.checked_file import CANNOT_DECODE
from eagleray.broker.groups.classic.events import JoinGroup, SyncGroup
from eagleray.protocol.framing import LENGTH
from tests.fuzz.choices import Choices
from tests.fuzz.cluster import FuzzedCluster
from tests.fuzz.cluster_target import ClusterTarget
from tests.fuzz.knowledge import Knowledge
from tests.fuzz.lane_messages import LaneMaker
from tests.fuzz.requests import may_wait_long
from tests.fuzz.stranger import Stranger
from tests.fuzz.violation import Violation

MOST_STEPS = 400
MOST_CONNECTIONS = 4
_PATIENCE_S = 45.0
_FIRST_LOOK_S = 0.01
_UNANSWERED = (MarkersRequested, JoinGroup, SyncGroup)
"""Answered only when others have done their part, which may never be."""


class DirectLaneTarget(ClusterTarget):
    """One input after the other, on a cluster that is begun anew now and then."""

    async def play(self, cluster: FuzzedCluster, data: bytes) -> int:
        play = _Play(cluster, Choices(data))
        await play.run()
        return play.frames


class Handle(Stranger):
    """One connection of the direct lane."""

    def __init__(self, cluster: FuzzedCluster, node_id: int) -> None:
        super().__init__(cluster.nodes[node_id].listener)
        self.session: int | None = None
        self.has_token = False
        self.asked: dict[int, Any] = {}
        """Questions without an answer yet, by their ids."""
        self._next = 0

    def next_id(self) -> int:
        self._next += 1
        return ((self.session or 0) << SESSION_SHIFT) + self._next

    def answers(self) -> list[tuple[Any, Any]]:
        """Take the answers that have come; each has to be to a question that was asked, and to nobody else's."""
        found = []
        for frame in self.frames():
            if not self.has_token:
                raise Violation("a peer without the token was told something")
            if self.session is None:
                self.session = decode_welcome(frame).session
                continue
            for reply in decode_messages(frame):
                question = self.asked.pop(reply.request_id, None)
                if question is None and self.is_clean:
                    raise Violation(f"a node answers what was not asked: {reply!r:.300}")
                found.append((question, reply))
        return found


class _Play:
    """One input."""

    def __init__(self, cluster: FuzzedCluster, choices: Choices) -> None:
        self._cluster = cluster
        self._choices = choices
        self._knowledge = Knowledge.beside_honest_work(cluster.image)
        self._handles: dict[int, Handle] = {}
        self.frames = 0

    async def run(self) -> None:
        steps = 0
        while self._choices.are_left and steps < MOST_STEPS:
            steps += 1
            await self._step()
        await self._answered()
        for handle in self._handles.values():
            handle.close()
        for _ in range(3):
            await asyncio.sleep(0)
        self._cluster.check_let_go()
        for node_id, node in self._cluster.nodes.items():
            if any(isinstance(session, DirectSession) for session in node.sessions._sessions.values()):
                raise Violation(f"node {node_id} keeps sessions of connections that are closed")

    async def _step(self) -> None:
        choices = self._choices
        kind = choices.below(32)
        handle = self._handle()
        if handle.is_closed or handle.session is None:
            return
        if kind < 24:
            self._ask(handle)
            if kind < 14:
                await self._turns()
        elif kind < 26:
            self._ask_together(handle)
        elif kind == 26:
            self._say(handle, choices.bytes(choices.below(64)))
        elif kind == 27:
            handle.close()
        elif kind < 31:
            await self._turns()
        else:
            await asyncio.sleep(choices.of((0.001, 0.1, 2.0, 12.0, 70.0)))

    def _handle(self) -> Handle:
        """One of a few connections; a new one, which says its preface, in the place of one that was closed."""
        choices = self._choices
        place = choices.below(MOST_CONNECTIONS)
        handle = self._handles.get(place)
        if handle is None or handle.is_closed:
            handle = self._handles[place] = Handle(self._cluster, place // 3)
            preface = encode_preface(self._cluster.token)
            handle.has_token = not choices.one_in(16)
            if not handle.has_token:
                preface = self._other_preface()
            self.frames += 1
            self._send(handle, preface)
            handle.answers()
        return handle

    def _other_preface(self) -> bytes:
        choices = self._choices
        token = choices.bytes(32).ljust(32, b"\0")
        preface = choices.of((encode_preface(token), encode_preface(bytes(32)), MAGIC + VERSION.to_bytes(2)))
        changed = bytearray(preface + choices.bytes(choices.below(40)))
        changed[choices.below(len(changed))] ^= choices.byte()
        return bytes(changed) if self._cluster.token not in changed else MAGIC

    def _send(self, handle: Handle, data: bytes) -> None:
        if self._choices.one_in(8):
            place = self._choices.number(2) % (len(data) + 1)
            handle.send(data[:place])
            data = data[place:]
        handle.send(data)

    async def _turns(self) -> None:
        for _ in range(1 + self._choices.below(6)):
            await asyncio.sleep(0)
        self._hear()

    def _hear(self) -> None:
        for handle in self._handles.values():
            for question, answer in handle.answers():
                self._knowledge.hear(question, answer)

    def _question(self, handle: Handle) -> Any:
        return LaneMaker(self._choices, self._knowledge, self._cluster.now_ms).make(handle.next_id())

    def _ask(self, handle: Handle) -> None:
        """Ask one question, as it is, or with bytes changed."""
        self._frame(handle, [self._question(handle)])

    def _ask_together(self, handle: Handle) -> None:
        self._frame(handle, [self._question(handle) for _ in range(1 + self._choices.below(4))])

    def _frame(self, handle: Handle, questions: list[Any]) -> None:
        choices = self._choices
        try:
            payload = encode_messages(questions)
        except CANNOT_ENCODE:
            return
        if choices.one_in(12):
            payload = self._changed(payload)
            handle.is_clean = False
        if any(secret in payload for secret in self._cluster.secrets):
            return
        if handle.is_clean:
            handle.asked |= {each.request_id: each for each in _readable(payload)}
        self.frames += 1
        self._send(handle, LENGTH.pack(len(payload)) + payload)

    def _changed(self, payload: bytes) -> bytes:
        choices, changed = self._choices, bytearray(payload)
        for _ in range(1 + choices.below(3)):
            changed[choices.number(2) % len(changed)] = choices.byte()
        if choices.one_in(4):
            del changed[choices.number(2) % len(changed) :]
        # A handle that has the token can say what ends a cluster; here it says nothing of that kind by chance.
        return bytes(changed)

    def _say(self, handle: Handle, data: bytes) -> None:
        """Say anything."""
        if not any(secret in data for secret in self._cluster.secrets):
            handle.is_clean = False
            self.frames += 1
            handle.send(data)

    async def _answered(self) -> None:
        """Wait until every question is answered that does not ask to wait for longer, or its connection is closed."""
        deadline_s, look_s = self._cluster.loop.time() + _PATIENCE_S, _FIRST_LOOK_S
        self._hear()
        while waiting := [question for handle in self._handles.values() for question in _owed(handle)]:
            if self._cluster.loop.time() > deadline_s:
                raise Violation(f"a question is not answered, the first of {waiting!r:.500}")
            await asyncio.sleep(look_s)
            look_s *= 2
            self._hear()


def _readable(payload: bytes) -> list[Any]:
    """Every question of a frame, also those that will be answered to be malformed."""
    try:
        return decode_messages(payload)
    except msgspec.ValidationError:
        try:
            readable, malformed = decode_readable(payload)
        except CANNOT_DECODE:
            return []
        return [*readable, *malformed]
    except CANNOT_DECODE:
        return []


def _owed(handle: Handle) -> list[Any]:
    """What a node should have answered by now."""
    if handle.is_closed or not handle.is_clean:
        return []
    return [each for each in handle.asked.values() if not (_is_never_answered(each) or may_wait_long(each))]


def _is_never_answered(question: Any) -> bool:
    """Whether a question is one that others have to do their part for, or that wants no answer."""
    return isinstance(question, _UNANSWERED) or getattr(question, "acks", None) == 0
