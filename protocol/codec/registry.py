"""Which APIs there are: their keys, their messages and the versions of their headers."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from eagleray.protocol.codec.errors import UnknownApi, UnsupportedVersion
from eagleray.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from eagleray.protocol.messages.annotations import Message


class Api(Struct, frozen=True):
    """A request and the response to it, which always have the same versions."""

    request: type[Message]
    response: type[Message]

    @property
    def key(self) -> int:
        """The number that stands for the API on the wire."""
        assert self.request.wire.api_key is not None
        return self.request.wire.api_key

    @property
    def name(self) -> str:
        """The name of the API, as in Kafka's documentation."""
        return self.request.__name__.removesuffix("Request")

    @property
    def versions(self) -> tuple[int, int]:
        """The lowest and the highest version."""
        return self.request.wire.versions

    def request_header_version(self, version: int) -> int:
        """Give the version of the header before a request."""
        return 2 if self.request.wire.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Give the version of the header before a response.

        ApiVersions is answered with the oldest header always: whoever asks does not know yet how old the
        broker is.
        """
        return 1 if self.response.wire.is_flexible(version) and self.key != API_VERSIONS_KEY else 0

    def check_version(self, version: int, correlation_id: int | None = None) -> None:
        """Raise UnsupportedVersion if the API has no such version."""
        if not self.request.wire.is_valid(version):
            raise UnsupportedVersion(self.name, version, self.versions, self.key, correlation_id)


API_VERSIONS_KEY = 18

_APIS = (
    Api(produce.ProduceRequest, produce.ProduceResponse),
    Api(fetch.FetchRequest, fetch.FetchResponse),
    Api(list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsResponse),
    Api(metadata.MetadataRequest, metadata.MetadataResponse),
    Api(offset_commit.OffsetCommitRequest, offset_commit.OffsetCommitResponse),
    Api(offset_fetch.OffsetFetchRequest, offset_fetch.OffsetFetchResponse),
    Api(find_coordinator.FindCoordinatorRequest, find_coordinator.FindCoordinatorResponse),
    Api(join_group.JoinGroupRequest, join_group.JoinGroupResponse),
    Api(heartbeat.HeartbeatRequest, heartbeat.HeartbeatResponse),
    Api(leave_group.LeaveGroupRequest, leave_group.LeaveGroupResponse),
    Api(sync_group.SyncGroupRequest, sync_group.SyncGroupResponse),
    Api(describe_groups.DescribeGroupsRequest, describe_groups.DescribeGroupsResponse),
    Api(list_groups.ListGroupsRequest, list_groups.ListGroupsResponse),
    Api(sasl_handshake.SaslHandshakeRequest, sasl_handshake.SaslHandshakeResponse),
    Api(api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse),
    Api(create_topics.CreateTopicsRequest, create_topics.CreateTopicsResponse),
    Api(delete_topics.DeleteTopicsRequest, delete_topics.DeleteTopicsResponse),
    Api(delete_records.DeleteRecordsRequest, delete_records.DeleteRecordsResponse),
    Api(init_producer_id.InitProducerIdRequest, init_producer_id.InitProducerIdResponse),
    Api(offset_for_leader_epoch.OffsetForLeaderEpochRequest, offset_for_leader_epoch.OffsetForLeaderEpochResponse),
    Api(add_partitions_to_txn.AddPartitionsToTxnRequest, add_partitions_to_txn.AddPartitionsToTxnResponse),
    Api(add_offsets_to_txn.AddOffsetsToTxnRequest, add_offsets_to_txn.AddOffsetsToTxnResponse),
    Api(end_txn.EndTxnRequest, end_txn.EndTxnResponse),
    Api(write_txn_markers.WriteTxnMarkersRequest, write_txn_markers.WriteTxnMarkersResponse),
    Api(txn_offset_commit.TxnOffsetCommitRequest, txn_offset_commit.TxnOffsetCommitResponse),
    Api(describe_acls.DescribeAclsRequest, describe_acls.DescribeAclsResponse),
    Api(create_acls.CreateAclsRequest, create_acls.CreateAclsResponse),
    Api(delete_acls.DeleteAclsRequest, delete_acls.DeleteAclsResponse),
    Api(describe_configs.DescribeConfigsRequest, describe_configs.DescribeConfigsResponse),
    Api(alter_configs.AlterConfigsRequest, alter_configs.AlterConfigsResponse),
    Api(describe_log_dirs.DescribeLogDirsRequest, describe_log_dirs.DescribeLogDirsResponse),
    Api(sasl_authenticate.SaslAuthenticateRequest, sasl_authenticate.SaslAuthenticateResponse),
    Api(create_partitions.CreatePartitionsRequest, create_partitions.CreatePartitionsResponse),
    Api(delete_groups.DeleteGroupsRequest, delete_groups.DeleteGroupsResponse),
    Api(elect_leaders.ElectLeadersRequest, elect_leaders.ElectLeadersResponse),
    Api(
        incremental_alter_configs.IncrementalAlterConfigsRequest,
        incremental_alter_configs.IncrementalAlterConfigsResponse,
    ),
    Api(
        alter_partition_reassignments.AlterPartitionReassignmentsRequest,
        alter_partition_reassignments.AlterPartitionReassignmentsResponse,
    ),
    Api(
        list_partition_reassignments.ListPartitionReassignmentsRequest,
        list_partition_reassignments.ListPartitionReassignmentsResponse,
    ),
    Api(offset_delete.OffsetDeleteRequest, offset_delete.OffsetDeleteResponse),
    Api(
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest,
        describe_user_scram_credentials.DescribeUserScramCredentialsResponse,
    ),
    Api(
        alter_user_scram_credentials.AlterUserScramCredentialsRequest,
        alter_user_scram_credentials.AlterUserScramCredentialsResponse,
    ),
    Api(update_features.UpdateFeaturesRequest, update_features.UpdateFeaturesResponse),
    Api(describe_cluster.DescribeClusterRequest, describe_cluster.DescribeClusterResponse),
    Api(describe_producers.DescribeProducersRequest, describe_producers.DescribeProducersResponse),
    Api(describe_transactions.DescribeTransactionsRequest, describe_transactions.DescribeTransactionsResponse),
    Api(list_transactions.ListTransactionsRequest, list_transactions.ListTransactionsResponse),
    Api(allocate_producer_ids.AllocateProducerIdsRequest, allocate_producer_ids.AllocateProducerIdsResponse),
    Api(
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest, consumer_group_heartbeat.ConsumerGroupHeartbeatResponse
    ),
    Api(consumer_group_describe.ConsumerGroupDescribeRequest, consumer_group_describe.ConsumerGroupDescribeResponse),
    Api(
        get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest,
        get_telemetry_subscriptions.GetTelemetrySubscriptionsResponse,
    ),
    Api(push_telemetry.PushTelemetryRequest, push_telemetry.PushTelemetryResponse),
    Api(
        describe_topic_partitions.DescribeTopicPartitionsRequest,
        describe_topic_partitions.DescribeTopicPartitionsResponse,
    ),
)

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in _APIS})


def find_api(api_key: int) -> Api:
    """Give the API with this key, or raise UnknownApi."""
    try:
        return APIS[api_key]
    except KeyError:
        raise UnknownApi(api_key) from None
