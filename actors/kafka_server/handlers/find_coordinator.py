"""FindCoordinator: key 10, versions 0 to 6.

Returns the coordinator of a group or a transactional id: the leader of its partition of the internal topic. All of
these partitions exist from the start of a cluster. One key up to version 3, many from 4 on; share groups are refused.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.broker.transactions.pools.names import log_partition_of
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

API = ServedApi(10, 0, 6)

_TOPICS: Final = {0: (CONSUMER_OFFSETS, partition_for_name), 1: (TRANSACTION_STATE, log_partition_of)}
"""By the type of the key: which topic has what coordinators keep, and in which of its partitions that of a key is."""
_BATCHED_SINCE: Final = 4
_NOWHERE: Final = -1


def handle(request: FindCoordinatorRequest, call: Call) -> None:
    """Look the coordinators up."""
    if call.api_version >= _BATCHED_SINCE:
        found = tuple(_find(call, request.key_type, key) for key in request.coordinator_keys)
        call.answer(FindCoordinatorResponse(coordinators=found))
        return
    one = _find(call, request.key_type, request.key)
    call.answer(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def refuse(request: FindCoordinatorRequest, version: int, error_code: ErrorCode) -> FindCoordinatorResponse:
    """Refuse every key."""
    if version < _BATCHED_SINCE:
        return FindCoordinatorResponse(error_code=error_code, error_message=error_code.name, node_id=_NOWHERE)
    refused = tuple(_refused(key, error_code, error_code.name) for key in request.coordinator_keys)
    return FindCoordinatorResponse(coordinators=refused)


def _find(call: Call, key_type: int, key: str) -> Coordinator:
    if key_type not in _TOPICS:
        return _refused(key, ErrorCode.INVALID_REQUEST, f"coordinators of key type {key_type} do not exist here")
    topic_name, partition_of = _TOPICS[key_type]
    topic = call.context.image.topics.get(topic_name)
    if topic is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic_name} does not exist yet")
    leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
    node = call.advertised.brokers.get(leader)
    if node is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has not come yet")
    return Coordinator(key, node.node_id, node.host, node.port, ErrorCode.NONE, None)


def _refused(key: str, error_code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key, _NOWHERE, "", _NOWHERE, error_code, message)
