"""Every request for the controller has an answer that says that this node is not it."""

import pytest

from eagleray.actors.lanes.catalog import NODE_REQUESTS, REQUESTS
from eagleray.actors.lanes.messages import RaftMessage
from eagleray.actors.roles.controller import not_controller
from eagleray.broker.controller.credential_events import AlterCredentials, CredentialChange
from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    CreateTopics,
    DeleteTopics,
    DescribeConfigs,
    FollowMetadata,
    GetMetadata,
    GrowTopic,
    NewTopic,
    PlanNodes,
    RegisterNode,
    ReserveProducerIds,
)
from eagleray.broker.controller.replica_events import (
    ChangeIsr,
    DrainNodes,
    ElectLeaders,
    ListReassignments,
    NodeBeat,
    PartitionMove,
    ReassignPartitions,
)
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.nodes import NO_NODE, NodeRegistration, ProcessRole
from eagleray.broker.replication.events import BrokerHeartbeat, ProposeIsr
from eagleray.protocol.errors import ErrorCode

REFUSED = [
    PlanNodes(7, ()),
    RegisterNode(7, NodeRegistration(3, 1, "", 0, ("leader",))),
    NodeBeat(7, BrokerHeartbeat(3, 1, 1000)),
    ChangeIsr(7, ProposeIsr(TopicPartition("orders", 0), 3, 1, 5, ())),
    ReserveProducerIds(7, 1000),
    FollowMetadata(7, 3, 1000),
    CreateTopics(7, (NewTopic("orders"),)),
    DeleteTopics(7, ("orders",)),
    GrowTopic(7, "orders", 3),
    AlterTopicConfigs(7, "orders", {}),
    GetMetadata(7),
    ReassignPartitions(7, (PartitionMove(TopicPartition("orders", 0), (1, 2)),)),
    ListReassignments(7),
    ElectLeaders(7),
    DrainNodes(7, "here"),
    AlterCredentials(7, (CredentialChange("ada", 1),)),
]


@pytest.mark.parametrize("request_", REFUSED, ids=lambda request: type(request).__name__)
def test_answer_to_each_request_says_not_controller(request_):
    answer = not_controller(request_, EMPTY_IMAGE, NO_NODE)
    assert answer.request_id == 7
    assert answer.says(ErrorCode.NOT_CONTROLLER)
    assert not answer.says(ErrorCode.NONE)


def test_every_request_of_a_controller_is_looked_at_here():
    taken = {*REQUESTS[ProcessRole.CONTROLLER], *NODE_REQUESTS} - {RaftMessage, DescribeConfigs}
    assert {type(request) for request in REFUSED} == taken


def test_answer_names_the_controller_where_that_is_known():
    assert not_controller(PlanNodes(7, ()), EMPTY_IMAGE, 100).message == "this node is not the controller; node 100 is"
