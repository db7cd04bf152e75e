"""DescribeCluster: key 60, versions 0 to 2.

Returns the brokers, as in Metadata. All listeners of this cluster are for clients: a request for controllers has
reached the wrong kind of listener.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.advertised import rack_of
from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.operations import CLUSTER_OPERATIONS, NOT_ASKED_FOR
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

API = ServedApi(60, 0, 2)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(request: DescribeClusterRequest, call: AdminCall) -> DescribeClusterResponse:
    """Describe the brokers of the cluster."""
    if request.endpoint_type == _CONTROLLERS:
        text = "this listener is a broker's, and the request wants a controller's"
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, text)
    if request.endpoint_type != _BROKERS:
        text = f"there is no endpoint type {request.endpoint_type}; expected {_BROKERS} for brokers"
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text)
    image = call.context.image
    return DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=image.cluster_id,
        controller_id=call.advertised.controller_id,
        brokers=tuple(
            DescribeClusterBroker(node.node_id, node.host, node.port, rack_of(image, node.node_id))
            for node in call.advertised.brokers.values()
        ),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )


def _refused(error_code: ErrorCode, text: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error_code, error_message=text)
