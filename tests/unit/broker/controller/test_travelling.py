"""Requests, answers and changes travel between nodes as bytes; all of them arrive as they were sent."""

import msgspec
import pytest

from eagleray.broker.controller.credential_events import (
    AlterCredentials,
    CredentialChange,
    CredentialResult,
    CredentialsAltered,
)
from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    Answer,
    ConfigsDescribed,
    CreateTopics,
    DeleteTopics,
    DescribeConfigs,
    FollowMetadata,
    GetMetadata,
    GrowTopic,
    MetadataAnswered,
    MetadataFollowed,
    NewTopic,
    NodeRegistered,
    PlanAnswered,
    PlanNodes,
    ProducerIdsReserved,
    RegisterNode,
    Request,
    ReserveProducerIds,
    TopicResult,
    TopicsAnswered,
)
from eagleray.broker.controller.replica_events import (
    ChangeIsr,
    DrainAnswered,
    DrainNodes,
    ElectLeaders,
    IsrChanged,
    ListReassignments,
    NodeBeat,
    NodeBeatAnswered,
    PartitionMove,
    PartitionResult,
    PartitionsAnswered,
    Reassignment,
    ReassignmentsListed,
    ReassignPartitions,
)
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata import changes
from eagleray.broker.metadata.log_records import decode_record, encode_changes
from eagleray.broker.metadata.losses import Loss
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import (
    BrokerHeartbeat,
    BrokerHeartbeatAnswered,
    InSyncReplica,
    IsrAnswered,
    ProposeIsr,
    Resigned,
)
from eagleray.broker.security.scram import ScramCredential
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import PLAN, planned_driver, registration

ORDERS_0 = TopicPartition("orders", 0)
DEDICATED = PlannedNode(1000, ("leader",), ORDERS_0)
PARTITION = PartitionImage(1, 2, (1, 2), (1,), 3)
IMAGE = planned_driver().image
CREDENTIAL = ScramCredential(b"salt", b"s" * 32, b"t" * 32, 4096)

CHANGES = (
    changes.ClusterCreated("c"),
    changes.NodesPlanned((*PLAN, DEDICATED)),
    changes.NodesUnplanned((1, 2)),
    changes.NodeJoined(registration(PLAN[0])),
    changes.TopicCreated("orders", b"1" * 16, {"a": "b"}, (PARTITION,)),
    changes.TopicDeleted("orders", b"1" * 16),
    changes.PartitionsAdded("orders", (PARTITION,)),
    changes.TopicConfigsChanged("orders", {"a": "b"}),
    changes.NodesLeft((1,)),
    changes.ProducerIdsTaken(3000),
    changes.DrainingChanged((30, 31)),
    changes.CredentialChanged("ada", 1, CREDENTIAL),
    changes.CredentialChanged("ben", 2),
    changes.DeletedTopicsForgotten((b"1" * 16,)),
    changes.TermBegan(7),
    changes.ReplicasChanged((changes.ReplicasChange(ORDERS_0, 1, 2, (1, 2), (1,), (2,), (1,)),)),
)
REQUESTS = (
    PlanNodes(1, (*PLAN, DEDICATED)),
    PlanNodes(1, PLAN, PLAN[:1]),
    RegisterNode(1, registration(PLAN[0]), Loss((ORDERS_0,), (TopicPartition("orders", 1),), is_everything=True)),
    NodeBeat(1, BrokerHeartbeat(1, 2, 3, (Resigned(ORDERS_0, 4),))),
    ChangeIsr(1, ProposeIsr(ORDERS_0, 1, 2, 3, (InSyncReplica(1, 11),))),
    ReserveProducerIds(1, 1000),
    ReassignPartitions(1, (PartitionMove(ORDERS_0, (1, 2)), PartitionMove(ORDERS_0, None)), False),
    DrainNodes(1, "machine", None, True),
    AlterCredentials(1, (CredentialChange("ada", 1, CREDENTIAL), CredentialChange("ben", 2))),
    ElectLeaders(1, (ORDERS_0,), True),
    ListReassignments(1, (ORDERS_0,)),
    CreateTopics(1, (NewTopic("orders", 3, 1, {"a": "b"}, ((1,), (2,))),), True),
    DeleteTopics(1, ("orders",), {"orders": bytes(16)}),
    GrowTopic(1, "orders", 3, True, ((1,),)),
    AlterTopicConfigs(1, "orders", {"a": None, "b": "c"}, True, True, {"d": "e"}, {"f": "g"}),
    FollowMetadata(1, 2, 3),
    GetMetadata(1),
    GetMetadata(1, ("orders",)),
    DescribeConfigs(1, "orders"),
)
ANSWERS = (
    PlanAnswered(1, ErrorCode.NONE, None, PLAN),
    NodeRegistered(1, ErrorCode.NONE, IMAGE),
    NodeRegistered(1, ErrorCode.INVALID_REGISTRATION, None, "no"),
    NodeRegistered(1, ErrorCode.STALE_BROKER_EPOCH, None, "no", 77),
    NodeBeatAnswered(1, BrokerHeartbeatAnswered(1, 2, 3, ErrorCode.NONE, 4, (Resigned(ORDERS_0, 4),))),
    IsrChanged(1, IsrAnswered(ORDERS_0, ErrorCode.NONE, 1, 2, 3, (1,), (1, 2))),
    ProducerIdsReserved(1, ErrorCode.NONE, 2000, 1000),
    PartitionsAnswered(1, (PartitionResult(ORDERS_0, ErrorCode.NONE, "m"),), ErrorCode.NOT_CONTROLLER),
    ReassignmentsListed(1, ErrorCode.NONE, (Reassignment(ORDERS_0, (1, 2), (2,), (1,)),)),
    DrainAnswered(1, ErrorCode.NONE, None, 5),
    CredentialsAltered(1, (CredentialResult("ada", ErrorCode.NONE), CredentialResult("ben", ErrorCode.NONE, "why"))),
    MetadataFollowed(1, ErrorCode.NONE, 3, CHANGES),
    MetadataFollowed(1, ErrorCode.NONE, 3, (), IMAGE),
    MetadataAnswered(1, ErrorCode.NONE, IMAGE),
    TopicsAnswered(1, (TopicResult("orders", ErrorCode.NONE, "m", b"1" * 16, 3),)),
    ConfigsDescribed(1, ErrorCode.NONE, {"a": "b"}, ("a",)),
)


def test_there_is_a_sample_of_every_kind():
    assert {type(request) for request in REQUESTS} == set(Request.__args__)
    assert {type(answer) for answer in ANSWERS} == set(Answer.__args__)
    assert {type(change) for change in CHANGES} == set(changes.Change.__args__)


@pytest.mark.parametrize("message", [*REQUESTS, *ANSWERS], ids=lambda message: type(message).__name__)
def test_messages_arrive_as_they_were_sent(message):
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Request | Answer) == message


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_changes_are_read_as_they_were_written(change):
    assert list(map(decode_record, encode_changes([change]))) == [change]
