"""AddPartitionsToTxn: key 24, versions 0 to 5.

Adds partitions that a transaction is about to write to: all of them or none. Up to version 3 a client sends it, for one
transaction. From 4 on Kafka's brokers send it to each other, for many; ours ask on another lane, so a client that
sends it here is refused, as by Kafka's authorizer.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.codes import for_producer
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.metadata.topics import INTERNAL_TOPICS
from eagleray.broker.transactions.events import AddPartitions, Reply
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

API = ServedApi(24, 0, 5)

_BATCHED_SINCE: Final = 4
_UNANSWERED: Final = Reply(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)

Topics = tuple[AddPartitionsToTxnTopic, ...]


def handle(request: AddPartitionsToTxnRequest, call: Call) -> None:
    """Ask the coordinator."""
    if call.api_version >= _BATCHED_SINCE:
        call.answer(refuse(request, call.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    elif not call.has_role(ProcessRole.COORDINATOR):
        call.answer(refuse(request, call.api_version, ErrorCode.NOT_COORDINATOR))
    else:
        _add_for_client(request, call)


def refuse(request: AddPartitionsToTxnRequest, version: int, error_code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Refuse every partition of every transaction."""
    if version < _BATCHED_SINCE:
        topics = request.v3_and_below_topics
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_same_for_all(topics, error_code))
    return AddPartitionsToTxnResponse(error_code=error_code)


def _add_for_client(request: AddPartitionsToTxnRequest, call: Call) -> None:
    topics, transactional_id = request.v3_and_below_topics, request.v3_and_below_transactional_id

    def answer(errors: dict[TopicPartition, ErrorCode] | ErrorCode) -> None:
        call.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, errors)))

    partitions = _partitions_of(topics)
    impossible = _impossible(call, partitions)
    if impossible:
        answer({partition: impossible.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions})
        return

    def received(reply: Reply | None) -> None:
        reply = reply or _UNANSWERED
        call.note_question(ProcessRole.COORDINATOR, transactional_id, reply.question)
        answer(_for_client(reply.error_code, call))

    producer = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    client = call.sender(ProcessRole.COORDINATOR, transactional_id)
    call.ask_here(received, AddPartitions, transactional_id, producer, partitions, client=client)


def _for_client(error_code: ErrorCode, call: Call) -> ErrorCode:
    return for_producer(error_code, call.api_version, fenced_since=2, abortable_since=5)


def _partitions_of(topics: Topics) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)


def _impossible(call: Call, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions that no client may write to in a transaction, and why not."""
    image = call.context.image
    impossible = {}
    for partition in partitions:
        if image.find(partition) is None:
            impossible[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.topic in INTERNAL_TOPICS:
            # Offsets join a transaction by AddOffsetsToTxn.
            impossible[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return impossible


def _same_for_all(topics: Topics, error_code: ErrorCode) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    return tuple(
        AddPartitionsToTxnTopicResult(
            topic.name, tuple(AddPartitionsToTxnPartitionResult(number, error_code) for number in topic.partitions)
        )
        for topic in topics
    )


def _results(
    topics: Topics, errors: dict[TopicPartition, ErrorCode] | ErrorCode
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    if isinstance(errors, ErrorCode):
        return _same_for_all(topics, errors)
    return tuple(
        AddPartitionsToTxnTopicResult(
            topic.name,
            tuple(
                AddPartitionsToTxnPartitionResult(number, errors[TopicPartition(topic.name, number)])
                for number in topic.partitions
            ),
        )
        for topic in topics
    )
