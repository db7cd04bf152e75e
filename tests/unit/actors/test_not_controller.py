"""Every request for the controller has an answer that says that this node is not it."""

import pytest

from eagleray.actors.lanes.catalog import NODE_REQUESTS, REQUESTS
from eagleray.actors.messages import QuorumTold
from eagleray.actors.not_controller import not_controller, says_not_controller
from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    ChangeIsr,
    CreateTopics,
    DeleteTopics,
    DescribeConfigs,
    DrainNodes,
    ElectLeaders,
    FollowMetadata,
    GetMetadata,
    GrowTopic,
    ListReassignments,
    NewTopic,
    NodeBeat,
    NodeRegistration,
    PartitionMove,
    PlanNodes,
    ReassignPartitions,
    RegisterNode,
    ReserveProducerIds,
)
from eagleray.broker.controller.image import EMPTY_IMAGE
from eagleray.broker.controller.nodes import NO_NODE, Role
from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.events import BrokerHeartbeat, ProposeIsr

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
]


@pytest.mark.parametrize("request_", REFUSED, ids=lambda request: type(request).__name__)
def test_answer_to_each_request_says_not_controller(request_):
    answer = not_controller(request_, EMPTY_IMAGE, NO_NODE)
    assert answer.request_id == 7
    assert says_not_controller(answer)


def test_every_request_of_a_controller_is_looked_at_here():
    taken = {*REQUESTS[Role.CONTROLLER], *NODE_REQUESTS} - {QuorumTold, DescribeConfigs}
    assert {type(request) for request in REFUSED} == taken


def test_answer_names_the_controller_where_that_is_known():
    assert not_controller(PlanNodes(7, ()), EMPTY_IMAGE, 100).message == "this node is not the controller; node 100 is"
