"""Every message that a lane brings, with every field at its limits and beyond: none fails, and the honest go on."""

import asyncio

import pytest

from eagleray.actors.lanes.catalog import NODE_REQUESTS, REPLICA_REQUESTS, REQUESTS
from eagleray.actors.lanes.frames import decode_readable, encode_messages
from eagleray.broker.controller.events import DeleteTopics, PlanNodes, RegisterNode
from eagleray.broker.controller.replica_events import ChangeIsr, DrainNodes, NodeBeat
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.transactions.events import EndTransaction
from eagleray.protocol.errors import ErrorCode
from tests.support.cluster_in_memory import CONTROLLER, COORDINATOR, GROUPS, LEADER_A, entered
from tests.support.extreme_messages import extreme_messages, impossible_messages, unlimited_fields
from tests.support.kafka_requests import KafkaCluster

ALL = [*(kind for kinds in REQUESTS.values() for kind in kinds), *NODE_REQUESTS, *REPLICA_REQUESTS]
BETWEEN_NODES = {PlanNodes, RegisterNode, NodeBeat, ChangeIsr, DrainNodes, *REPLICA_REQUESTS}
"""What only nodes and those who run the cluster say; it is bounded, and what it means is not tried here."""

PERSISTED = {"NodeRegistration", "PlannedNode", "MetadataPosition"}
"""What nodes say of themselves is in the metadata log too, as msgpack, which has room for whatever a lane carries."""

NODE_OF = {
    ProcessRole.LEADER: LEADER_A,
    ProcessRole.COORDINATOR: COORDINATOR,
    ProcessRole.GROUPS: GROUPS,
    ProcessRole.CONTROLLER: CONTROLLER,
}
ASKED = [
    (NODE_OF[role], kind)
    for role, kinds in REQUESTS.items()
    if role in NODE_OF
    for kind in kinds
    if kind not in BETWEEN_NODES and kind.__name__ != "RaftMessage"
]
FOREVER_S = 3000


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_number_and_text_has_limits(kind):
    unlimited = [field for field in unlimited_fields(kind) if field.split(".")[0] not in PERSISTED]
    assert not unlimited, "annotate them with a type of eagleray.broker.limits"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_value_beyond_its_limits_reaches_no_role(kind):
    for what, message in impossible_messages(kind, 7):
        readable, malformed = decode_readable(encode_messages([message]))
        assert not readable, what
        assert [each.request_id for each in malformed] == [7]


@pytest.fixture
def world(virtual_time, runner):
    with runner.entered(entered(KafkaCluster)) as world:
        yield world


@pytest.mark.parametrize(("node", "kind"), ASKED, ids=lambda each: getattr(each, "__name__", each))
async def test_question_at_its_limits_is_answered(node, kind, world):
    await world.open_transaction("billing", TopicPartition("orders", 0))
    loop = asyncio.get_running_loop()
    for what, message in extreme_messages(kind, 0):
        reply = loop.create_future()
        fields = [getattr(message, name) for name in message.__struct_fields__[1:]]
        world.peers.ask(node, reply.set_result, kind, *fields)
        async with asyncio.timeout(FOREVER_S):
            found = await reply
        assert getattr(found, "error_code", None) is not ErrorCode.UNKNOWN_SERVER_ERROR, (what, message)
        assert not [found for each in world.nodes.values() for found in each.describe()["failed_requests"]], what
        assert not world.failures, (what, message)
    if kind is not DeleteTopics:
        honest = await world.open_transaction("honest", TopicPartition("orders", 1))
        ended = await world.ask_node_for(COORDINATOR, EndTransaction, "honest", honest, True)
        assert ended.error_code is ErrorCode.NONE
