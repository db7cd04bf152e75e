"""AddOffsetsToTxn: key 25, versions 0 to 4.

A group's offsets become part of a transaction: their partition of the offsets topic is added to it.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.codes import for_producer
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS
from eagleray.broker.transactions.events import AddPartitions, Reply
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

API = ServedApi(25, 0, 4)


def handle(request: AddOffsetsToTxnRequest, call: Call) -> None:
    """Add the group's partition."""
    topic = call.context.image.topics.get(CONSUMER_OFFSETS)
    if not call.has_role(ProcessRole.COORDINATOR):
        call.answer(AddOffsetsToTxnResponse(0, ErrorCode.NOT_COORDINATOR))
        return
    if topic is None or not request.group_id:
        error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE if topic is None else ErrorCode.INVALID_GROUP_ID
        call.answer(AddOffsetsToTxnResponse(0, error_code))
        return

    def answer(reply: Reply | None) -> None:
        if reply is not None:
            call.note_question(ProcessRole.COORDINATOR, request.transactional_id, reply.question)
        error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE if reply is None else reply.error_code
        error_code = for_producer(error_code, call.api_version, fenced_since=2, abortable_since=4)
        call.answer(AddOffsetsToTxnResponse(0, error_code))

    partition = TopicPartition(CONSUMER_OFFSETS, partition_for_name(request.group_id, len(topic.partitions)))
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    client = call.sender(ProcessRole.COORDINATOR, request.transactional_id)
    call.ask_here(answer, AddPartitions, request.transactional_id, producer, (partition,), client=client)
