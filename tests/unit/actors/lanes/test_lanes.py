"""The three lanes carry the same questions with the same outcomes: direct and local for real, Ray by a stand-in handle.

The stand-in calls the very methods that the actor has; tests/cluster runs them through Ray itself.
"""

import asyncio
import secrets
import socket

import pytest

from eagleray.actors.lanes import direct, frames
from eagleray.actors.lanes import peers as peers_module
from eagleray.actors.lanes.frames import MAGIC, encode_preface
from eagleray.actors.lanes.messages import Malformed
from eagleray.actors.lanes.peers import Lane, Peers, Unanswered, Unreachable
from eagleray.actors.lanes.ray_lane import RayLane, UnknownSession
from eagleray.actors.lanes.sessions import Sessions
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import Fetch, Fetched, Produce, Produced
from eagleray.broker.transactions.producer_ids import AllocateBlock, BlockAllocated
from eagleray.protocol.errors import ErrorCode

TOKEN = bytes(range(32))
NODE = 5
PARTITION = TopicPartition("orders", 0)


class Address:
    def __init__(self, port, host="127.0.0.1"):
        self.host = host
        self.port = port


class Method:
    """What `handle.method` is: `.remote(...)` gives something to await."""

    def __init__(self, method):
        self._method = method

    async def remote(self, *arguments):
        result = self._method(*arguments)
        return await result if asyncio.iscoroutine(result) else result


class Handle:
    """An actor that counts the sessions of the Ray lane, and says where its node listens."""

    def __init__(self, lane, port):
        self.port = port
        self.contact = Method(lambda: ("127.0.0.1", self.port, TOKEN))
        self.attach = Method(lane.attach)
        self.exchange = Method(lane.exchange)
        self.collect = Method(lane.collect)


class Service:
    """A node that allocates at once, takes batches, and answers a fetch only when it is told to."""

    def __init__(self):
        self.incarnation = secrets.randbits(40)
        self.taken = []
        self.waiting = []
        self._next = 0
        self.turn = Turn(asyncio.get_running_loop())
        self.sessions = Sessions(
            {AllocateBlock: self._allocate, Produce: self._produce, Fetch: self.waiting.append},
            self.turn,
            first_session=secrets.randbits(20),
        )
        self.ray_lane = RayLane(self.sessions)
        self.server = None

    def _allocate(self, question):
        self._next += 1
        self._answer(BlockAllocated(question.request_id, ErrorCode.NONE, self._next * 1000, 1000))

    def _produce(self, question):
        self.taken.append(question.records)
        self._answer(Produced(question.request_id, ErrorCode.NONE, len(self.taken) - 1))

    def _answer(self, reply):
        self.turn.act(lambda: self.sessions.answer(reply))

    def release(self):
        for question in self.waiting:
            self.sessions.answer(Fetched(question.request_id, ()))

    async def listen(self, port=0):
        self.server = await asyncio.get_running_loop().create_server(
            lambda: direct.DirectSession(
                self.sessions, self.turn, token=TOKEN, node_id=NODE, incarnation=self.incarnation
            ),
            "127.0.0.1",
            port,
        )
        return self.server.sockets[0].getsockname()[1]

    async def kill(self):
        self.server.close()
        for session in [*self.sessions._sessions.values()]:
            if isinstance(session, direct.DirectSession):
                session._transport.abort()
        await asyncio.sleep(0.01)


class World:
    """A node and somebody who asks it, by one of the lanes."""

    def __init__(self, lane, *, timeout_s=20, peers=Peers):
        self.lane = lane
        self.service = Service()
        self._timeout_s = timeout_s
        self._peers = peers

    async def __aenter__(self):
        self.port = await self.service.listen()
        self.actor = Handle(self.service.ray_lane, self.port)
        self.peers = self._peers(
            token=TOKEN,
            actor_of=lambda _: self.actor,
            lane=Lane.RAY if self.lane == "ray" else Lane.DIRECT,
            timeout_s=self._timeout_s,
        )
        if self.lane == "local":
            self.peers.add_local(NODE, self.service.sessions)
        else:
            self.peers.learn({NODE: Address(self.port)})
        return self

    async def __aexit__(self, *raised):
        self.peers.close()
        self.service.server.close()
        await asyncio.sleep(0)


@pytest.fixture(params=["local", "direct", "ray"])
def lane(request):
    return request.param


async def test_a_question_is_answered_and_the_lane_is_the_one_that_was_chosen(lane):
    async with World(lane) as world:
        first = await world.peers.call(NODE, AllocateBlock)
        second = await world.peers.call(NODE, AllocateBlock)
        assert (first.first_id, second.first_id) == (1000, 2000)
        assert world.peers.lane_to(NODE) == lane


async def test_gatherer_asks_before_a_lane_is_open_and_when_one_is(lane):
    def produced(number):
        return Produce, TopicPartition("orders", 0), b"%d" % number, 1

    async with World(lane) as world:
        for number in range(2):
            world.peers.gather(NODE, lambda number=number: world.peers.ask(NODE, None, *produced(number)))
            await world.peers.call(NODE, AllocateBlock)
        assert world.service.taken == [b"0", b"1"]


async def test_questions_of_one_asker_arrive_in_their_order(lane):
    async with World(lane) as world:
        batches = [str(number).encode() for number in range(500)]
        answers = await asyncio.gather(*(world.peers.call(NODE, Produce, PARTITION, batch) for batch in batches))
        assert world.service.taken == batches
        assert [answer.base_offset for answer in answers] == list(range(500))


async def test_a_question_that_waits_does_not_hold_up_the_others(lane):
    async with World(lane) as world:
        waiting = asyncio.ensure_future(world.peers.call(NODE, Fetch, ()))
        await world.peers.call(NODE, AllocateBlock)
        await world.peers.call(NODE, AllocateBlock)
        assert not waiting.done()
        world.service.release()
        assert isinstance(await waiting, Fetched)


async def test_a_batch_larger_than_a_frame_is_cut_at_arrives_whole(lane):
    async with World(lane) as world:
        large = [secrets.token_bytes(3_000_000) for _ in range(5)]
        await asyncio.gather(*(world.peers.call(NODE, Produce, PARTITION, batch) for batch in large))
        assert world.service.taken == large


async def test_a_question_that_no_role_takes_is_unanswered_at_once(lane):
    async with World(lane) as world:
        del world.service.sessions.receivers[AllocateBlock]
        with pytest.raises(Unanswered, match="node 5 did not answer AllocateBlock"):
            await world.peers.call(NODE, AllocateBlock)


WRONG = {
    "a text for a number": ("0", b"batch"),
    "a number for bytes": (PARTITION, 5),
    "a number of 70 bits": (TopicPartition("orders", 2**70), b"batch"),
    "an object of its own": (object(), b"batch"),
    "a text without bytes": (TopicPartition("\udc80", 0), b"batch"),
}


@pytest.mark.parametrize("wrong", [*WRONG])
@pytest.mark.parametrize("asking", ["direct", "ray"])
async def test_malformed_question_is_answered_at_once_and_costs_no_other_its_answer(asking, wrong):
    async with World(asking) as world:
        world.peers.hears_malformed = True
        replies = asyncio.Queue()
        for number in range(3):
            world.peers.ask(NODE, replies.put_nowait, Produce, PARTITION, b"%d" % number, -1, None, 2)
            if number == 0:
                world.peers.ask(NODE, replies.put_nowait, Produce, *WRONG[wrong], -1, None, 2)
        async with asyncio.timeout(10):
            found = [await replies.get() for _ in range(4)]
        (malformed,) = [reply for reply in found if type(reply) is Malformed]
        assert malformed.error_code is ErrorCode.INVALID_REQUEST
        assert malformed.message.startswith("Produce cannot be")
        assert sorted(reply.base_offset for reply in found if reply is not malformed) == [0, 1, 2]
        assert world.service.taken == [b"0", b"1", b"2"]


@pytest.mark.parametrize("asking", ["direct", "ray"])
async def test_malformed_question_of_a_node_is_one_without_an_answer(asking):
    async with World(asking) as world:
        async with asyncio.timeout(10):
            with pytest.raises(Unanswered):
                await world.peers.call(NODE, Produce, PARTITION, 5, -1, None, 2)
            assert (await world.peers.call(NODE, AllocateBlock)).first_id == 1000


@pytest.mark.parametrize("asking", ["direct", "ray"])
async def test_answer_that_cannot_be_encoded_is_heard_of(asking):
    async with World(asking) as world:
        world.peers.hears_malformed = True
        replies = asyncio.Queue()
        world.peers.ask(NODE, replies.put_nowait, Fetch, (), Isolation.READ_COMMITTED, 0, 0, 0)
        world.peers.ask(NODE, replies.put_nowait, Produce, PARTITION, b"0", -1, None, 2)
        async with asyncio.timeout(10):
            await replies.get()
            (question,) = world.service.waiting
            world.service.sessions.answer(Fetched(question.request_id, (2**70,)))
            assert "Fetched cannot be encoded" in (await replies.get()).message


def test_message_too_long_for_a_frame_is_malformed(monkeypatch):
    monkeypatch.setattr(frames, "_SPLIT_BYTES", 100)
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 1000)
    short, long = AllocateBlock(1), Produce(2, PARTITION, bytes(2000), -1, None, 2)
    encodable, (malformed,) = frames.split_encodable((short, long))
    assert encodable == [short]
    assert malformed.request_id == 2
    assert malformed.message.endswith(" bytes; at most 1000 go into a frame")


async def test_a_broken_connection_answers_none_and_the_next_question_opens_another():
    async with World("direct") as world:
        waiting = asyncio.ensure_future(world.peers.call(NODE, Fetch, ()))
        await world.peers.call(NODE, AllocateBlock)
        await world.service.kill()
        with pytest.raises(Unanswered):
            await waiting
        await world.service.listen(world.port)
        assert (await world.peers.call(NODE, AllocateBlock)).first_id == 2000
        assert world.peers.lane_to(NODE) == "direct"


@pytest.mark.parametrize("lane", ["direct", "ray"])
async def test_question_to_a_node_that_is_gone_is_answered_at_once_and_may_be_asked_again(lane):
    async with World(lane) as world:
        waiting = asyncio.ensure_future(world.peers.call(NODE, Fetch, ()))
        await world.peers.call(NODE, AllocateBlock)
        opening = asyncio.ensure_future(world.peers.call(NODE + 1, AllocateBlock))
        await asyncio.sleep(0)
        world.peers.forget([NODE, NODE + 1, NODE + 2])
        for told in (waiting, opening):
            with pytest.raises(Unanswered):
                await told
        assert (await world.peers.call(NODE, AllocateBlock)).first_id == 2000


async def test_question_to_a_role_of_this_process_never_expires():
    async with World("local", timeout_s=0.01) as world:
        waiting = asyncio.ensure_future(world.peers.call(NODE, Fetch, ()))
        # The timeout of another lane would be over many times.
        await asyncio.sleep(0.2)
        assert not waiting.done()
        world.service.release()
        assert isinstance(await waiting, Fetched)


async def test_a_node_of_this_process_is_never_given_up():
    async with World("local") as world:
        waiting = asyncio.ensure_future(world.peers.call(NODE, Fetch, ()))
        await world.peers.call(NODE, AllocateBlock)
        world.peers.forget([NODE])
        world.service.release()
        assert isinstance(await waiting, Fetched)


async def test_silence_is_told_while_a_question_waits_for_long(monkeypatch):
    monkeypatch.setattr(peers_module, "_SILENT_S", 0.05)
    monkeypatch.setattr(peers_module, "_SILENT_AGAIN_S", 0.02)
    monkeypatch.setattr(peers_module, "_LOOK_S", 0.01)

    async with World("direct") as world:
        told = asyncio.Event()
        world.peers.on_silence = told.set
        await world.peers.call(NODE, AllocateBlock)
        await asyncio.sleep(0.2)
        assert not told.is_set(), "nobody waits"
        waiting = asyncio.ensure_future(world.peers.call(NODE, Fetch, ()))
        async with asyncio.timeout(10):
            await told.wait()
        told.clear()
        async with asyncio.timeout(10):
            await told.wait()
        world.service.release()
        await waiting


async def test_question_without_an_answer_is_given_up_when_its_own_time_is_over():
    async def waited_for(peers):
        asked_at = asyncio.get_running_loop().time()
        with pytest.raises(Unanswered):
            await peers.call(NODE, Fetch, ())
        return asyncio.get_running_loop().time() - asked_at

    async with World("direct", timeout_s=0.3) as world, asyncio.timeout(20):
        first = asyncio.ensure_future(waited_for(world.peers))
        await asyncio.sleep(0.2)
        second = asyncio.ensure_future(waited_for(world.peers))
        await world.peers.call(NODE, AllocateBlock)
        assert min(await first, await second) >= 0.3
        assert len(world.service.waiting) == 2


async def test_question_that_waited_for_its_lane_longer_than_for_an_answer_is_given_up():
    async with World("direct", timeout_s=0.1) as world, asyncio.timeout(20):
        await world.service.kill()
        unanswered = asyncio.ensure_future(world.peers.call(NODE, Fetch, ()))
        await asyncio.sleep(0.3)
        assert not unanswered.done()
        await world.service.listen(world.port)
        with pytest.raises(Unanswered):
            await unanswered
        assert len(world.service.waiting) == 1


@pytest.mark.parametrize("hears_silence", [False, True])
async def test_peers_wake_only_while_a_question_is_open(monkeypatch, hears_silence):
    monkeypatch.setattr(peers_module, "_SILENT_S", 0.05)
    monkeypatch.setattr(peers_module, "_LOOK_S", 0.01)
    looks = []

    class Looking(Peers):
        def _look(self):
            looks.append(self._loop.time())
            super()._look()

    async with World("direct", timeout_s=0.1, peers=Looking) as world:
        if hears_silence:
            world.peers.on_silence = lambda: None
        await asyncio.sleep(0.2)
        assert looks == [], "nothing was asked"
        for _ in range(2):
            asked = len(looks)
            await world.peers.call(NODE, AllocateBlock)
            await asyncio.sleep(0.4)
            idle = len(looks)
            assert idle > asked
            await asyncio.sleep(0.4)
            assert len(looks) == idle, "nothing was open"


async def test_port_that_cannot_be_reached_is_an_error_that_names_it_and_what_to_do(monkeypatch, caplog):
    monkeypatch.setattr(peers_module, "_REACH_S", 0.1)

    async with World("direct") as world:
        await world.service.kill()
        expected = f"node 5 runs, but cannot be reached at 127.0.0.1:{world.port} from here"
        for _ in range(2):
            with pytest.raises(Unreachable) as raised:
                await world.peers.call(NODE, AllocateBlock)
            assert str(raised.value).startswith(expected)
            assert world.peers.why_unreachable(NODE) == str(raised.value)
        (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert said == f'{raised.value}: open the port, or take Ray\'s lane with lane="ray"'
        assert len(world.service.sessions) == 0, "no other lane is taken"
        await world.service.listen(world.port)
        assert (await world.peers.call(NODE, AllocateBlock)).first_id == 1000
        assert world.peers.lane_to(NODE) == "direct"
        assert world.peers.why_unreachable(NODE) is None


async def test_node_that_does_not_run_is_unanswered_and_not_unreachable():
    class Dead:
        async def remote(self):
            raise ConnectionError("the actor died")

    async with World("direct") as world:
        await world.service.kill()
        world.actor.contact = Dead()
        with pytest.raises(Unanswered) as raised:
            await world.peers.call(NODE, AllocateBlock)
        assert type(raised.value) is Unanswered


async def test_address_that_is_not_known_is_asked_of_ray_and_then_the_lane_is_direct():
    async with World("direct") as world:
        peers = Peers(token=TOKEN, actor_of=lambda _: world.actor, timeout_s=20)
        assert (await peers.call(NODE, AllocateBlock)).first_id == 1000
        assert peers.lane_to(NODE) == "direct"
        peers.close()


async def test_node_that_listens_at_another_port_after_a_restart_is_found_by_asking_ray():
    async with World("direct") as world:
        await world.peers.call(NODE, AllocateBlock)
        await world.service.kill()
        world.actor.port = await world.service.listen()
        assert world.actor.port != world.port
        # The metadata say what they said before.
        world.peers.learn({NODE: Address(world.port)})
        assert (await world.peers.call(NODE, AllocateBlock)).first_id == 2000
        assert world.peers.lane_to(NODE) == "direct"


async def test_another_node_at_the_known_address_has_ray_asked_for_the_right_one():
    async with World("direct") as world:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            world.actor.port = taken.getsockname()[1]
        other = Service()
        server = await asyncio.get_running_loop().create_server(
            lambda: direct.DirectSession(other.sessions, other.turn, token=TOKEN, node_id=NODE + 1, incarnation=0),
            "127.0.0.1",
            world.actor.port,
        )
        world.peers.learn({NODE: Address(world.actor.port)})
        world.actor.port = world.port
        assert (await world.peers.call(NODE, AllocateBlock)).first_id == 1000
        assert len(other.sessions) == 0
        server.close()


async def test_ray_lane_needs_no_listener():
    async with World("ray") as world:
        await world.service.kill()
        assert (await world.peers.call(NODE, AllocateBlock)).first_id == 1000
        assert world.peers.lane_to(NODE) == "ray"


async def test_a_node_that_began_anew_does_not_take_calls_of_an_old_session():
    async with World("ray") as world:
        await world.peers.call(NODE, AllocateBlock)
        successor = Service()
        world.actor.exchange = Method(successor.ray_lane.exchange)
        world.actor.collect = Method(successor.ray_lane.collect)
        world.actor.attach = Method(successor.ray_lane.attach)
        with pytest.raises(Unanswered):
            await world.peers.call(NODE, Produce, PARTITION, b"once")
        assert successor.taken == []
        await world.peers.call(NODE, Produce, PARTITION, b"twice")
        assert successor.taken == [b"twice"]


async def test_collecting_for_an_unknown_session_is_an_error():
    with pytest.raises(UnknownSession):
        await Service().ray_lane.collect(12345)


async def test_question_without_a_node_is_unanswered():
    peers = Peers(token=TOKEN, actor_of=None)
    with pytest.raises(Unanswered):
        await peers.call(NODE, AllocateBlock)
    peers.close()


async def test_closing_answers_open_questions():
    async with World("direct") as world:
        waiting = asyncio.ensure_future(world.peers.call(NODE, Fetch, ()))
        await world.peers.call(NODE, AllocateBlock)
        world.peers.close()
        with pytest.raises(Unanswered):
            await waiting
        with pytest.raises(Unanswered):
            await world.peers.call(NODE, AllocateBlock)


async def test_another_node_at_the_address_is_not_taken_for_the_one_that_was_meant():
    async with World("direct") as world:
        with pytest.raises(ConnectionError, match="node 5 listens"):
            await direct.connect("127.0.0.1", world.port, TOKEN, world.peers.turn, node_id=6, timeout_s=5)


@pytest.mark.parametrize(
    "said",
    [
        encode_preface(bytes(32)),
        b"GET / HTTP/1.1\r\nHost: example\r\n\r\n" + bytes(20),
        MAGIC + b"\0\x63" + TOKEN,
        encode_preface(TOKEN) + b"\x00\x00\x00\x03abc",
        encode_preface(TOKEN) + b"\x7f\xff\xff\xff",
    ],
    ids=["wrong token", "http", "another version", "garbage in a frame", "a frame without end"],
)
async def test_bad_peer_is_sent_away_and_no_other_notices(said):
    async with World("direct") as world:
        await world.peers.call(NODE, AllocateBlock)
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(said)
        async with asyncio.timeout(10):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(1_000_000)
        writer.close()
        assert (await world.peers.call(NODE, AllocateBlock)).first_id == 2000


async def test_a_peer_that_does_not_read_is_not_read_from():
    async with World("direct") as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(encode_preface(TOKEN))
        await reader.read(1)
        (session,) = world.service.sessions._sessions.values()
        paused = []
        session._transport.pause_reading = lambda: paused.append(True)
        session._transport.resume_reading = lambda: paused.append(False)
        number = next(iter(world.service.sessions._sessions))
        for _ in range(64):
            session.answer(Produced(number << 32, ErrorCode.NONE, message="x" * 1_000_000))
        await asyncio.sleep(0.05)
        assert paused == [True]
        async with asyncio.timeout(20):
            while paused != [True, False]:
                assert await reader.read(1_000_000)
        writer.close()


async def test_questions_to_other_nodes_are_counted_and_those_in_the_process_are_not():
    async with World("direct") as world:
        await asyncio.gather(*(world.peers.call(NODE, Produce, PARTITION, bytes(1000)) for _ in range(3)))
        counted = world.peers.traffic.as_dict()
        await world.peers.call(NODE, AllocateBlock)
        later = world.peers.traffic.as_dict()
    assert (counted["questions"], counted["frames"]) == (3, 1)
    assert 3000 < counted["sent_bytes"] < 3300
    assert 0 < counted["received_bytes"] < 300
    assert (later["questions"], later["frames"]) == (4, 2)
    assert later["sent_bytes"] > counted["sent_bytes"]
    async with World("local") as world:
        await world.peers.call(NODE, AllocateBlock)
        assert not any(world.peers.traffic.as_dict().values())


async def test_lane_that_does_not_open_is_silence_too():
    """A machine that is gone refuses nobody: neither lane opens, and neither fails for a while."""

    class Gone:
        async def remote(self):
            await asyncio.sleep(60)

    with socket.create_server(("127.0.0.1", 0)) as nobody_accepts:
        peers = Peers(token=TOKEN, actor_of=lambda _: type("Actor", (), {"contact": Gone()}))
        peers.learn({NODE: Address(nobody_accepts.getsockname()[1])})
        noticed = asyncio.Event()
        peers.on_silence = noticed.set
        waiting = asyncio.ensure_future(peers.call(NODE, AllocateBlock))
        async with asyncio.timeout(5):
            await noticed.wait()
        peers.forget([NODE])
        with pytest.raises(Unanswered):
            await waiting
        noticed.clear()
        await asyncio.sleep(1)
        # Nobody waits any more.
        assert not noticed.is_set()
        peers.close()


async def test_direct_lane_is_taken_as_soon_as_it_opens_while_ray_still_waits_for_an_actor():
    """A node that was killed listens again before Ray tells those who wait for its actor."""

    class Waiting:
        async def remote(self):
            await asyncio.sleep(60)

    service = Service()
    port = await service.listen()
    await service.kill()
    peers = Peers(token=TOKEN, actor_of=lambda _: type("Actor", (), {"contact": Waiting()}))
    peers.learn({NODE: Address(port)})
    waiting = asyncio.ensure_future(peers.call(NODE, AllocateBlock))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await service.listen(port)
    async with asyncio.timeout(2):
        assert (await waiting).error_code is ErrorCode.NONE
    assert peers.lane_to(NODE) == "direct"
    peers.close()
    await service.kill()
