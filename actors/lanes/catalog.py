"""Every message that travels on a lane, and which role takes it."""

from __future__ import annotations

from typing import Any, Final, Union

from eagleray.actors.lanes import messages
from eagleray.broker.controller import credential_events, replica_events
from eagleray.broker.controller import events as controller
from eagleray.broker.groups import events as groups
from eagleray.broker.groups.classic import events as classic_groups
from eagleray.broker.groups.consumer import events as consumer_groups
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.partitions import events as partitions
from eagleray.broker.transactions import descriptions, producer_ids
from eagleray.broker.transactions import events as transactions

REQUESTS: Final[dict[ProcessRole, tuple[type, ...]]] = {
    ProcessRole.LEADER: (
        partitions.Produce,
        partitions.Fetch,
        partitions.WriteMarkers,
        partitions.ListOffset,
        partitions.DeleteRecords,
        partitions.DescribeProducers,
        partitions.EpochEndOffset,
        partitions.DescribePartition,
    ),
    ProcessRole.COORDINATOR: (
        transactions.InitProducerId,
        transactions.TakePoolOver,
        transactions.AddPartitions,
        transactions.EndTransaction,
        transactions.BeginBranched,
        transactions.OpenBranch,
        transactions.EndBranched,
        transactions.PrepareTransaction,
        transactions.CompleteTransaction,
        transactions.ForgetTransactionalId,
        descriptions.DescribeTransaction,
        descriptions.ListTransactions,
        transactions.LastDecision,
    ),
    ProcessRole.MARKERS: (messages.MarkersRequested,),
    ProcessRole.ALLOCATOR: (producer_ids.AllocateBlock,),
    ProcessRole.GROUPS: (
        groups.CommitOffsets,
        groups.CommitTransactionOffsets,
        groups.FetchOffsets,
        groups.DeleteOffsets,
        groups.DeleteGroup,
        groups.ListGroups,
        classic_groups.JoinGroup,
        classic_groups.SyncGroup,
        classic_groups.Heartbeat,
        classic_groups.LeaveGroup,
        classic_groups.DescribeGroup,
        consumer_groups.ConsumerHeartbeat,
        consumer_groups.DescribeConsumerGroup,
        messages.WriteGroupMarkers,
    ),
    ProcessRole.CONTROLLER: (
        controller.PlanNodes,
        controller.RegisterNode,
        replica_events.NodeBeat,
        replica_events.ChangeIsr,
        controller.ReserveProducerIds,
        controller.FollowMetadata,
        controller.CreateTopics,
        controller.DeleteTopics,
        controller.GrowTopic,
        controller.AlterTopicConfigs,
        replica_events.ReassignPartitions,
        replica_events.ListReassignments,
        replica_events.ElectLeaders,
        replica_events.DrainNodes,
        credential_events.AlterCredentials,
        messages.RaftMessage,
    ),
}
"""What each role answers."""

NODE_REQUESTS: Final[tuple[type, ...]] = (controller.GetMetadata, controller.DescribeConfigs)
"""What any node answers, from the metadata that it follows."""

PROCESS_REQUESTS: Final[tuple[type, ...]] = (messages.AcceptClock,)
"""What any node answers of its own process."""

REPLICA_REQUESTS: Final[tuple[type, ...]] = (messages.ReplicationBatch,)
"""What a node takes that keeps replicas, whatever its roles are."""

REPLIES: Final[tuple[type, ...]] = (
    partitions.Produced,
    partitions.Fetched,
    partitions.MarkersAnswered,
    partitions.OffsetListed,
    partitions.RecordsDeleted,
    partitions.ProducersDescribed,
    partitions.EpochEndFound,
    partitions.PartitionDescribed,
    transactions.Reply,
    transactions.BranchedReply,
    transactions.PoolReply,
    descriptions.TransactionDescribed,
    descriptions.TransactionsListed,
    messages.MarkersFinished,
    messages.Misdirected,
    messages.Malformed,
    messages.ClockAccepted,
    producer_ids.BlockAllocated,
    groups.OffsetsCommitted,
    groups.OffsetsFetched,
    groups.GroupsListed,
    classic_groups.GroupJoined,
    classic_groups.GroupSynced,
    classic_groups.HeartbeatAnswered,
    classic_groups.GroupLeft,
    classic_groups.GroupDescribed,
    consumer_groups.ConsumerHeartbeatAnswered,
    consumer_groups.ConsumerGroupDescribed,
    controller.PlanAnswered,
    controller.NodeRegistered,
    replica_events.NodeBeatAnswered,
    replica_events.IsrChanged,
    controller.ProducerIdsReserved,
    controller.MetadataFollowed,
    controller.MetadataAnswered,
    controller.TopicsAnswered,
    replica_events.PartitionsAnswered,
    replica_events.ReassignmentsListed,
    replica_events.DrainAnswered,
    credential_events.CredentialsAltered,
    controller.ConfigsDescribed,
)

_ALL: Final = (
    *(message for of_role in REQUESTS.values() for message in of_role),
    *NODE_REQUESTS,
    *PROCESS_REQUESTS,
    *REPLICA_REQUESTS,
    *REPLIES,
)

MESSAGES: Any = Union[_ALL]  # noqa: UP007 - the members are known only here
"""The union that frames are decoded by."""
