"""ElectLeaders: key 43, versions 0 to 2.

A preferred replica leads when the present leader has resigned, which takes a heartbeat; the response waits for it. An
unclean election is for partitions without a leader: it is decided at once, whatever the topic's settings say.
"""

from __future__ import annotations

import asyncio
from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, allowed_s, ask_controller, until_seen
from eagleray.actors.kafka_server.partitions import by_topic
from eagleray.broker.controller.replica_events import ElectLeaders
from eagleray.broker.controller.replica_events import PartitionResult as Found
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

API = ServedApi(43, 0, 2)

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_NOT_YET: Final = "the leader of now has not handed over in time; it may yet"
_NO_ANSWER: Final = "the controller has not answered in time; the election may take place or not"


async def handle(request: ElectLeadersRequest, call: AdminCall) -> ElectLeadersResponse:
    """Elect preferred replicas, or any replica for partitions without a leader."""
    wanted = _wanted(request)
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        text = f"there is no election type {request.election_type}; expected {_PREFERRED} or {_UNCLEAN}"
        return _refused(wanted, call.api_version, ErrorCode.INVALID_REQUEST, text)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + allowed_s(request.timeout_ms)
    is_unclean = request.election_type == _UNCLEAN
    answer = await ask_controller(call, request.timeout_ms, ElectLeaders, wanted, is_unclean)
    if answer is None:
        return _refused(wanted, call.api_version, ErrorCode.REQUEST_TIMED_OUT, _NO_ANSWER)
    waiting = {result.partition for result in answer.results if result.error_code is ErrorCode.NONE}

    def are_elected() -> bool:
        # Each is checked until it was so once; what happens to it afterwards does not matter here.
        waiting.difference_update([each for each in waiting if _is_elected(each, call, is_unclean=is_unclean)])
        return not waiting

    await until_seen(are_elected, deadline_s - loop.time())
    late = {each: Found(each, ErrorCode.REQUEST_TIMED_OUT, _NOT_YET) for each in waiting}
    results = [late.get(result.partition, result) for result in answer.results]
    return _response(call.api_version, answer.error_code, results)


def _wanted(request: ElectLeadersRequest) -> tuple[TopicPartition, ...] | None:
    if request.topic_partitions is None:
        return None
    return tuple(TopicPartition(topic.topic, each) for topic in request.topic_partitions for each in topic.partitions)


def _is_elected(partition: TopicPartition, call: AdminCall, *, is_unclean: bool) -> bool:
    state = call.context.image.find(partition)
    return state is None or (state.leader != NO_NODE if is_unclean else state.leader == state.replicas[0])


def refuse(request: ElectLeadersRequest, version: int, error_code: ErrorCode) -> ElectLeadersResponse:
    """Refuse each partition as well: the first version has no other place for an error."""
    return _refused(_wanted(request), version, error_code, None)


def _refused(
    wanted: tuple[TopicPartition, ...] | None, version: int, error_code: ErrorCode, text: str | None
) -> ElectLeadersResponse:
    results = [Found(partition, error_code, text) for partition in dict.fromkeys(wanted or ())]
    return _response(version, error_code, results)


def _response(version: int, error_code: ErrorCode, results: list[Found]) -> ElectLeadersResponse:
    topics = (
        ReplicaElectionResult(topic, tuple(map(_result, found)))
        for topic, found in by_topic(results, lambda result: result.partition.topic)
    )
    whole = error_code if version > 0 else ErrorCode.NONE
    return ElectLeadersResponse(error_code=whole, replica_election_results=tuple(topics))


def _result(found: Found) -> PartitionResult:
    return PartitionResult(found.partition.partition, found.error_code, found.message)
