"""DescribeCluster: shows the brokers of the cluster and its controller."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Message, Since, Wire, WireStruct


class DescribeClusterRequest(Message, frozen=True):
    """What to show: endpoint type 1 is brokers, 2 controllers."""

    wire = Wire(api_key=60, versions=(0, 2), flexible_since=0)

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[Int8, Since(1)] = 1
    include_fenced_brokers: Annotated[bool, Since(2)] = False


class DescribeClusterBroker(WireStruct, frozen=True):
    """A broker and how to reach it."""

    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None
    is_fenced: Annotated[bool, Since(2)] = False


class DescribeClusterResponse(Message, frozen=True):
    """The cluster."""

    wire = Wire(api_key=60, versions=(0, 2), flexible_since=0)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[Int8, Since(1)] = 1
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = -0x80000000
