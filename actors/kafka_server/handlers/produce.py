"""Produce: key 0, versions 3 to 13; advertised from 0 on.

A batch for each of some partitions, all of which this node leads. With acks 0 there is no response; a client with
outdated metadata is then disconnected, so that it asks for new ones. Up to version 11 a transactional producer has
added its partitions by itself, and the leader verifies that with the coordinator; from 12 on the leader has them added.
From 13 on topics are named by their ids.

Versions 0 to 2 are advertised and not served: librdkafka compresses only where it sees them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.codes import for_batch
from eagleray.actors.kafka_server.fan_out import FanOut
from eagleray.actors.kafka_server.partitions import endpoints, leader_hint, refusal_of, topic_name
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.partitions.events import ALL_IN_SYNC, Produce, Produced
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

API = ServedApi(0, 3, 13, advertised_lowest=0)

_ACKS: Final = frozenset({ALL_IN_SYNC, 0, 1})
_IMPLICIT_SINCE: Final = 12
_HINTS_SINCE: Final = 10
_NO_OFFSET: Final = -1
_UNANSWERED: Final = Produced(0, ErrorCode.REQUEST_TIMED_OUT)


def handle(request: ProduceRequest, call: Call) -> None:
    """Append the batches, and answer when each is appended or refused."""
    if request.acks not in _ACKS:
        call.answer(refuse(request, call.api_version, ErrorCode.INVALID_REQUIRED_ACKS))
    elif request.acks == 0:
        _produce_without_answer(request, call)
    else:
        _Appends(request, call)


def refuse(request: ProduceRequest, version: int, error_code: ErrorCode) -> ProduceResponse:  # noqa: ARG001 - all have it
    """Refuse every batch."""
    return ProduceResponse(
        tuple(
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                tuple(PartitionProduceResponse(data.index, error_code, _NO_OFFSET) for data in topic.partition_data),
            )
            for topic in request.topic_data
        )
    )


class _Appends:
    """The batches of one request, and what became of each."""

    __slots__ = ("_call", "_partitions", "_request")

    def __init__(self, request: ProduceRequest, call: Call) -> None:
        self._request = request
        self._call = call
        self._partitions: list[TopicPartition] = []
        version = IMPLICIT_VERSION if call.api_version >= _IMPLICIT_SINCE else 1
        joined = FanOut(call, sum(len(topic.partition_data) for topic in request.topic_data), self._answer)
        place = 0
        for topic in request.topic_data:
            name = topic_name(call.context.image, topic.name, topic.topic_id)
            for data in topic.partition_data:
                partition = TopicPartition(name or "", data.index)
                self._partitions.append(partition)
                refusal = _refusal(call, name, partition)
                if refusal is not ErrorCode.NONE:
                    joined.results[place] = Produced(0, refusal)
                else:
                    fields = (partition, _records(data), request.acks, request.transactional_id, version)
                    joined.ask(place, Produce, *fields, request.timeout_ms)
                place += 1
        joined.finish()

    def _answer(self, results: list[Produced | None]) -> None:
        outcomes = iter(zip(self._partitions, results, strict=True))
        leaders: set[int] = set()
        responses = tuple(
            TopicProduceResponse(topic.name, topic.topic_id, self._of_topic(topic, outcomes, leaders))
            for topic in self._request.topic_data
        )
        if leaders:
            self._call.answer(ProduceResponse(responses, 0, endpoints(self._call, leaders, NodeEndpoint)))
        else:
            self._call.answer(ProduceResponse(responses))

    def _of_topic(
        self,
        topic: TopicProduceData,
        outcomes: Iterator[tuple[TopicPartition, Produced | None]],
        leaders: set[int],
    ) -> tuple[PartitionProduceResponse, ...]:
        return tuple(self._of_partition(*next(outcomes), leaders) for _ in topic.partition_data)

    def _of_partition(
        self, partition: TopicPartition, outcome: Produced | None, leaders: set[int]
    ) -> PartitionProduceResponse:
        if outcome is None:
            outcome = _UNANSWERED
        if outcome.error_code is ErrorCode.NONE:
            return PartitionProduceResponse(
                partition.partition, 0, outcome.base_offset, outcome.append_time_ms, outcome.log_start_offset
            )
        error_code = for_batch(outcome.error_code, self._call.api_version)
        hint = LeaderIdAndEpoch()
        if error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._call.api_version >= _HINTS_SINCE:
            hint = leader_hint(self._call, partition, LeaderIdAndEpoch)
            leaders.add(hint.leader_id)
        record_errors = tuple(
            BatchIndexAndErrorMessage(error.batch_index, error.message) for error in outcome.record_errors
        )
        return PartitionProduceResponse(
            partition.partition,
            error_code,
            _NO_OFFSET,
            record_errors=record_errors,
            error_message=outcome.message,
            current_leader=hint,
        )


def _refusal(call: Call, name: str | None, partition: TopicPartition) -> ErrorCode:
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return refusal_of(call, partition, if_internal=ErrorCode.INVALID_TOPIC_EXCEPTION)


def _records(data: PartitionProduceData) -> bytes:
    """Return the batch as it lies in the frame: the leader is in this process, and reads any buffer."""
    return cast("bytes", data.records or b"")


def _produce_without_answer(request: ProduceRequest, call: Call) -> None:
    context, version = call.context, IMPLICIT_VERSION if call.api_version >= _IMPLICIT_SINCE else 1
    call.answer_nothing()
    for topic in request.topic_data:
        name = topic_name(context.image, topic.name, topic.topic_id)
        for data in topic.partition_data:
            partition = TopicPartition(name or "", data.index)
            if _refusal(call, name, partition) is not ErrorCode.NONE:
                call.disconnect(f"it sent a batch without acks for {partition}, which is not led here")
                return
            fields = (partition, _records(data), 0, request.transactional_id, version)
            context.peers.ask(context.spec.node_id, None, Produce, *fields)
