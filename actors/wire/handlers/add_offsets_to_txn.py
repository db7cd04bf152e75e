"""AddOffsetsToTxn: key 25, versions 0 to 4.

The offsets of a group take part in a transaction: their partition of the offsets topic is added to it.
"""

from __future__ import annotations

from eagleray.actors.wire.call import Call
from eagleray.actors.wire.codes import for_producer
from eagleray.broker.controller.nodes import Role
from eagleray.broker.controller.topics import CONSUMER_OFFSETS
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.events import AddPartitions, Reply
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(request: AddOffsetsToTxnRequest, call: Call) -> None:
    """Add the group's partition."""
    topic = call.host.image.topics.get(CONSUMER_OFFSETS)
    if not call.has_role(Role.COORDINATOR):
        call.answer(AddOffsetsToTxnResponse(0, ErrorCode.NOT_COORDINATOR))
        return
    if topic is None or not request.group_id:
        error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE if topic is None else ErrorCode.INVALID_GROUP_ID
        call.answer(AddOffsetsToTxnResponse(0, error_code))
        return

    def answer(reply: Reply | None) -> None:
        error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE if reply is None else reply.error_code
        error_code = for_producer(error_code, call.api_version, fenced_since=2, abortable_since=4)
        call.answer(AddOffsetsToTxnResponse(0, error_code))

    partition = TopicPartition(CONSUMER_OFFSETS, partition_for_name(request.group_id, len(topic.partitions)))
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    call.ask_here(answer, AddPartitions, request.transactional_id, producer, (partition,))
