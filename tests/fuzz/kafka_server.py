"""A stranger at Kafka's protocol: bytes become frames on connections with real nodes, whose invariants are checked."""

import asyncio

from eagleray.protocol.codec import encode_request
from eagleray.protocol.errors import ProtocolError
from tests.fuzz.choices import Choices
from tests.fuzz.cluster import FuzzedCluster
from tests.fuzz.cluster_target import ClusterTarget
from tests.fuzz.knowledge import Knowledge
from tests.fuzz.requests import RequestMaker, may_wait_long
from tests.fuzz.stranger import KafkaStranger
from tests.fuzz.violation import Violation

MOST_STEPS = 400
MOST_CONNECTIONS = 4
_PATIENCE_S = 45.0
_FIRST_LOOK_S = 0.01


class KafkaServerTarget(ClusterTarget):
    """One input after the other, on a cluster that is begun anew now and then."""

    async def play(self, cluster: FuzzedCluster, data: bytes) -> int:
        play = _Play(cluster, Choices(data))
        await play.run()
        return play.frames


class _Play:
    """One input: up to four connections, and what is said on them."""

    def __init__(self, cluster: FuzzedCluster, choices: Choices) -> None:
        self._cluster = cluster
        self._choices = choices
        self._knowledge = Knowledge.beside_honest_work(cluster.image)
        self._strangers: dict[int, KafkaStranger] = {}
        self._numbers = 0
        self.frames = 0

    async def run(self) -> None:
        steps = 0
        while self._choices.are_left and steps < MOST_STEPS:
            steps += 1
            await self._step()
        await self._answered()
        for stranger in self._strangers.values():
            stranger.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._cluster.check_let_go()

    async def _step(self) -> None:
        choices = self._choices
        kind = choices.below(64)
        stranger = self._stranger()
        if kind < 44:
            self._ask(stranger, wholly=True)
            if kind < 24:
                await self._turns()
        elif kind < 50:
            self._ask(stranger, wholly=False)
        elif kind < 53:
            self._say(stranger, choices.bytes(choices.below(64)))
        elif kind < 55:
            length = choices.of((0, -1, 2**31 - 1, 100_000_000, 104_857_601, choices.byte()))
            self._say(stranger, length.to_bytes(4, signed=True) + choices.bytes(choices.byte()))
        elif kind < 57:
            stranger.close()
        elif kind < 63:
            await self._turns()
        else:
            await asyncio.sleep(choices.of((0.001, 0.1, 2.0, 12.0, 70.0)))

    def _stranger(self) -> KafkaStranger:
        """One of a few connections; a new one in the place of one that was closed."""
        place = self._choices.below(MOST_CONNECTIONS)
        stranger = self._strangers.get(place)
        if stranger is None or stranger.is_closed:
            stranger = self._strangers[place] = KafkaStranger(self._cluster.nodes[place // 3].listener)
        return stranger

    async def _turns(self) -> None:
        """Let the nodes work, and hear what they say."""
        for _ in range(1 + self._choices.below(6)):
            await asyncio.sleep(0)
        self._hear()

    def _hear(self) -> None:
        for stranger in self._strangers.values():
            for request, answer in stranger.answers():
                self._knowledge.hear(request, answer)

    def _ask(self, stranger: KafkaStranger, *, wholly: bool) -> None:
        """Send a request, whole or with bytes changed, at once or in pieces."""
        choices = self._choices
        key, version, request = RequestMaker(choices, self._knowledge, self._cluster.now_ms).make()
        number = self._numbers = (self._numbers + 1) % 2**31
        try:
            data = encode_request(request, version, number, choices.of(("tests", None, "", "ü" * 100)))
        except ProtocolError:
            return
        if any(secret in data for secret in self._cluster.secrets):
            return
        self.frames += 1
        if not wholly:
            data = self._changed(data)
            stranger.is_clean = False
        elif getattr(request, "acks", None) != 0:
            stranger.asked.append((number, key, version, request))
        if choices.one_in(8):
            place = choices.number(2) % (len(data) + 1)
            stranger.send(data[:place])
            data = data[place:]
        stranger.send(data)

    def _changed(self, data: bytes) -> bytes:
        choices, changed = self._choices, bytearray(data)
        for _ in range(1 + choices.below(3)):
            changed[choices.number(2) % len(changed)] = choices.byte()
        kind = choices.below(4)
        if kind == 0:
            del changed[choices.number(2) % len(changed) :]
        elif kind == 1:
            changed += choices.bytes(choices.below(16))
        if kind != 3:
            # The length is true, so that the request is taken.
            changed[:4] = max(len(changed) - 4, 0).to_bytes(4)
        return b"" if any(secret in changed for secret in self._cluster.secrets) else bytes(changed)

    def _say(self, stranger: KafkaStranger, data: bytes) -> None:
        """Say anything."""
        if not any(secret in data for secret in self._cluster.secrets):
            stranger.is_clean = False
            self.frames += 1
            stranger.send(data)

    async def _answered(self) -> None:
        """Wait until every request is answered that does not ask to wait for longer, or its connection is closed."""
        loop = self._cluster.loop
        deadline_s, look_s = loop.time() + _PATIENCE_S, _FIRST_LOOK_S
        for _ in range(4):
            await asyncio.sleep(0)
        self._hear()
        while waiting := [each for each in self._strangers.values() if _owes(each)]:
            if loop.time() > deadline_s:
                requests = [call.request for call in waiting[0].connection._waiting]
                raise Violation(f"a request is not answered, the first of {requests!r:.500}")
            await asyncio.sleep(look_s)
            look_s *= 2
            self._hear()


def _owes(stranger: KafkaStranger) -> bool:
    """Whether a node has taken a request that it should have answered by now."""
    if stranger.is_closed:
        return False
    connection = stranger.connection
    if connection._waiting:
        return not may_wait_long(connection._waiting[0].request)
    if connection._is_scheduled:
        return True
    is_partial = connection._frames.buffered_bytes or connection._first_bytes
    if stranger.is_clean and stranger.asked and not is_partial:
        raise Violation(f"a node has taken requests that it does not answer: {stranger.asked[:3]}")
    return False
