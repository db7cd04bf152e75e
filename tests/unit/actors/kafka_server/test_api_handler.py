"""What every API that is served has in common, whatever it is about."""

import asyncio
import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.broker.metadata.topics import PartitionImage, TopicImage
from eagleray.protocol.codec import decode_response, encode_request, encode_response
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.kafka_peer import Peer
from tests.unit.actors.kafka_server.fakes import make_listener

EVERY_ROLE = ("controller", "coordinator", "groups", "leader")
TOPICS = tuple(
    TopicImage(
        name, name.encode()[:16].ljust(16), {}, (PartitionImage(1, 0, (1,), (1,)), PartitionImage(2, 0, (2,), (2,)))
    )
    for name in ("orders", "__consumer_offsets", "__transaction_state")
)
VERSIONS = [
    (served, version)
    for served in SERVED.values()
    for version in range(served.lowest, served.highest_with(two_phase=True) + 1)
]
IDS = [f"{served.api.name} {version}" for served, version in VERSIONS]


def smallest_request(served):
    request = served.api.request()
    if served.api.name == "Produce":
        return msgspec.structs.replace(request, acks=-1)
    if served.api.name == "ApiVersions":
        return ApiVersionsRequest("tests", "1")
    return request


@pytest.mark.parametrize(("served", "version"), VERSIONS, ids=IDS)
@pytest.mark.parametrize("roles", [(), EVERY_ROLE], ids=["no role", "every role"])
async def test_smallest_request_is_answered_though_no_role_answers(served, version, roles):
    peer = Peer(make_listener(roles=roles, topics=TOPICS, transaction_two_phase_commit_enable=True))
    peer.send(smallest_request(served), version)
    (response,) = await peer.responses()
    assert not peer.transport.is_closed
    assert getattr(response.body, "error_code", 0) != ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(("served", "version"), VERSIONS, ids=IDS)
def test_a_request_can_be_refused_as_a_whole_or_is_known_not_to_be(served, version):
    refusal = served.refusal(smallest_request(served), version, ErrorCode.UNKNOWN_SERVER_ERROR)
    if refusal is None:
        # Nothing in these versions could say it; the connection is closed.
        assert "error_code" not in served.api.response.__struct_fields__ or served.api.name == "Metadata"
    else:
        frame = encode_response(refusal, version, 1)
        assert type(decode_response(frame[4:], served.api.key, version).body) is type(refusal)


def unexpected(host, request, error):
    raise AssertionError(f"{request} failed") from error


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_bytes_break_a_connection(data):
    """Whatever comes, it is answered or the connection is closed, and the next connection works."""
    served, version = data.draw(st.sampled_from(VERSIONS))
    good = encode_request(smallest_request(served), version, 1, "tests")[4:]
    cut = data.draw(st.integers(0, len(good)))
    frame = good[:cut] + data.draw(st.binary(max_size=40)) + good[data.draw(st.integers(cut, len(good))) :]

    async def scenario():
        listener = make_listener(roles=EVERY_ROLE, topics=TOPICS, auto_create_topics_enable=False)
        listener.throttled_log.report_failure = unexpected
        peer = Peer(listener)
        peer.send_bytes(struct.pack(">i", len(frame)) + frame)
        for _ in range(5):
            await asyncio.sleep(0)
        next_peer = Peer(listener)
        next_peer.send(ApiVersionsRequest("tests", "1"), 3)
        assert len(await next_peer.responses()) == 1

    asyncio.run(scenario())
