"""AddPartitionsToTxn: key 24, versions 0 to 5.

Partitions that a transaction is about to write: all of them are added or none. Up to version 3 it is a client's, for
one transaction. From 4 on it is a broker's, for many, and may ask only whether partitions take part.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.wire.call import Call
from eagleray.actors.wire.codes import for_producer
from eagleray.actors.wire.joining import Joined
from eagleray.broker.controller.nodes import Role
from eagleray.broker.controller.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions.events import AddPartitions, Reply
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_BATCHED_SINCE: Final = 4
_UNANSWERED: Final = Reply(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)

Topics = tuple[AddPartitionsToTxnTopic, ...]


def handle(request: AddPartitionsToTxnRequest, call: Call) -> None:
    """Ask the coordinator about each transaction."""
    if not call.has_role(Role.COORDINATOR):
        call.answer(refuse(request, call.api_version, ErrorCode.NOT_COORDINATOR))
    elif call.api_version < _BATCHED_SINCE:
        _add_for_client(request, call)
    else:
        _add_for_brokers(request.transactions, call)


def refuse(request: AddPartitionsToTxnRequest, version: int, error_code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Refuse every partition of every transaction."""
    if version < _BATCHED_SINCE:
        topics = request.v3_and_below_topics
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_same_for_all(topics, error_code))
    return AddPartitionsToTxnResponse(error_code=error_code)


def _add_for_client(request: AddPartitionsToTxnRequest, call: Call) -> None:
    topics = request.v3_and_below_topics

    def answer(errors: dict[TopicPartition, ErrorCode] | ErrorCode) -> None:
        call.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, errors)))

    partitions = _partitions_of(topics)
    impossible = _impossible(call, partitions)
    if impossible:
        answer({partition: impossible.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions})
        return

    def received(reply: Reply | None) -> None:
        answer(_for_client((reply or _UNANSWERED).error_code, call))

    producer = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    call.ask_here(received, AddPartitions, request.v3_and_below_transactional_id, producer, partitions)


def _add_for_brokers(transactions: tuple[AddPartitionsToTxnTransaction, ...], call: Call) -> None:
    asked = [_partitions_of(transaction.topics) for transaction in transactions]

    def answer(replies: list[Reply | None]) -> None:
        results = tuple(
            AddPartitionsToTxnResult(
                transaction.transactional_id, _results(transaction.topics, _errors(call, partitions, reply))
            )
            for transaction, partitions, reply in zip(transactions, asked, replies, strict=True)
        )
        call.answer(AddPartitionsToTxnResponse(results_by_transaction=results))

    joined = Joined(call, len(transactions), answer)
    for place, transaction in enumerate(transactions):
        producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        is_verification = transaction.verify_only
        version = 1 if is_verification else IMPLICIT_VERSION
        joined.ask(
            place,
            AddPartitions,
            transaction.transactional_id,
            producer,
            asked[place],
            version,
            is_verification,
        )
    joined.finish()


def _errors(
    call: Call, partitions: tuple[TopicPartition, ...], reply: Reply | None
) -> dict[TopicPartition, ErrorCode] | ErrorCode:
    reply = reply or _UNANSWERED
    if not reply.partition_errors:
        return _for_client(reply.error_code, call)
    return {
        partition: _for_client(error_code, call)
        for partition, error_code in zip(partitions, reply.partition_errors, strict=True)
    }


def _for_client(error_code: ErrorCode, call: Call) -> ErrorCode:
    return for_producer(error_code, call.api_version, fenced_since=2, abortable_since=5)


def _partitions_of(topics: Topics) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)


def _impossible(call: Call, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions to which no marker could ever be written."""
    image = call.host.image
    impossible = {}
    for partition in partitions:
        if image.find(partition) is None:
            impossible[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.topic in INTERNAL_TOPICS and partition.topic != CONSUMER_OFFSETS:
            impossible[partition] = ErrorCode.INVALID_TOPIC_EXCEPTION
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
