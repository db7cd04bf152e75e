"""EndTxn: key 26, versions 0 to 5.

A producer commits or aborts; answered once the decision is in the log. From version 5 on every transaction ends with a
new epoch, which the response carries; from 2 on producers know PRODUCER_FENCED.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.codes import for_producer
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.transactions.events import EndTransaction, Reply
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

API = ServedApi(26, 0, 5)

_NEW_EPOCH_SINCE: Final = 5


def handle(request: EndTxnRequest, call: Call) -> None:
    """Ask the coordinator to decide."""
    if not call.has_role(ProcessRole.COORDINATOR):
        call.answer(EndTxnResponse(0, ErrorCode.NOT_COORDINATOR))
        return
    has_new_epoch = call.api_version >= _NEW_EPOCH_SINCE

    def answer(reply: Reply | None) -> None:
        if reply is None:
            call.answer(EndTxnResponse(0, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif reply.error_code is not ErrorCode.NONE:
            call.note_question(ProcessRole.COORDINATOR, request.transactional_id, reply.question)
            error_code = for_producer(reply.error_code, call.api_version, fenced_since=2, abortable_since=4)
            call.answer(EndTxnResponse(0, error_code))
        elif has_new_epoch:
            call.answer(EndTxnResponse(0, 0, reply.producer.producer_id, reply.producer.epoch))
        else:
            call.answer(EndTxnResponse())

    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    version = IMPLICIT_VERSION if has_new_epoch else 1
    client = call.sender(ProcessRole.COORDINATOR, request.transactional_id)
    call.ask_here(answer, EndTransaction, request.transactional_id, producer, request.committed, version, client)
