"""InitProducerId: key 22, versions 0 to 5.

A producer's identity. Without a transactional id any node gives one, and passes the question on where it coordinates
nothing itself. From version 3 on a producer may say who it believes to be; from 4 on it knows PRODUCER_FENCED. Version
6 is not stable in Kafka and not served.
"""

from __future__ import annotations

from eagleray.actors.wire.call import Call
from eagleray.actors.wire.codes import for_producer
from eagleray.broker.controller.nodes import NO_NODE, Role
from eagleray.broker.identities import NO_EPOCH, NO_PRODUCER_ID, ProducerIdentity
from eagleray.broker.transactions.events import InitProducerId, Reply
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(request: InitProducerIdRequest, call: Call) -> None:
    """Ask a coordinator."""
    is_named = request.producer_id != NO_PRODUCER_ID
    node_id = call.host.spec.node_id if call.has_role(Role.COORDINATOR) else NO_NODE
    if is_named is (request.producer_epoch == NO_EPOCH):
        _refuse(call, ErrorCode.INVALID_REQUEST)
        return
    if request.transactional_id is None and node_id == NO_NODE:
        node_id = _any_coordinator(call)
    if node_id == NO_NODE:
        _refuse(call, ErrorCode.NOT_COORDINATOR)
        return

    def answer(reply: Reply | None) -> None:
        if reply is None:
            _refuse(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif reply.error_code is not ErrorCode.NONE:
            _refuse(call, for_producer(reply.error_code, call.api_version, fenced_since=4, abortable_since=5))
        else:
            producer: ProducerIdentity = reply.producer
            call.answer(InitProducerIdResponse(0, 0, producer.producer_id, producer.epoch))

    expected = ProducerIdentity(request.producer_id, request.producer_epoch) if is_named else None
    call.ask(node_id, answer, InitProducerId, request.transactional_id, request.transaction_timeout_ms, expected)


def _any_coordinator(call: Call) -> int:
    coordinators = call.host.image.nodes_with(Role.COORDINATOR)
    return coordinators[call.host.spec.node_id % len(coordinators)] if coordinators else NO_NODE


def _refuse(call: Call, error_code: ErrorCode) -> None:
    call.answer(InitProducerIdResponse(0, error_code, NO_PRODUCER_ID, NO_EPOCH))
