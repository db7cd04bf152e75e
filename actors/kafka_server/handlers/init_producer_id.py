"""InitProducerId: key 22, versions 0 to 5, and 6 with `transaction.two.phase.commit.enable`.

Gives a producer its id and epoch. Without a transactional id any node does, and passes the request on where it is no
coordinator itself. From version 3 on a producer may name the id and epoch that it has; from 4 on it knows
PRODUCER_FENCED. In version 6 it may take part in a two-phase commit, and keep what its predecessor left open (KIP-939).
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.codes import for_producer
from eagleray.broker.identities import NO_EPOCH, NO_PRODUCER_ID, ProducerIdentity
from eagleray.broker.metadata.nodes import NO_NODE, ProcessRole
from eagleray.broker.transactions.events import InitProducerId, Reply
from eagleray.broker.transactions.origin import Origin
from eagleray.broker.transactions.pools.names import LONGEST_ID_BYTES, is_possible_id, slot_of
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

API = ServedApi(22, 0, 5, highest_in_two_phases=6)
_SHOWN: Final = 100
"""As many characters of a name as are logged."""


def handle(request: InitProducerIdRequest, call: Call) -> None:
    """Ask a coordinator."""
    is_named = request.producer_id != NO_PRODUCER_ID
    node_id = call.context.spec.node_id if call.has_role(ProcessRole.COORDINATOR) else NO_NODE
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
            _explain(call, transactional_id, reply.error_code)
            _refuse(call, for_producer(reply.error_code, call.api_version, fenced_since=4, abortable_since=5))
        else:
            producer, ongoing = reply.producer, reply.ongoing
            call.answer(
                InitProducerIdResponse(0, 0, producer.producer_id, producer.epoch, ongoing.producer_id, ongoing.epoch)
            )

    expected = ProducerIdentity(request.producer_id, request.producer_epoch) if is_named else None
    transactional_id = request.transactional_id
    # Only an id without transactions may be asked for at another node, to which the connection says nothing.
    client = None if transactional_id is None else call.sender(ProcessRole.COORDINATOR, transactional_id)
    call.ask(
        node_id,
        answer,
        InitProducerId,
        transactional_id,
        request.transaction_timeout_ms,
        expected,
        Origin(call.client_host, call.client_id or "", principal=call.identity.shown),
        request.enable2_pc,
        request.keep_prepared_txn,
        client,
    )


def _any_coordinator(call: Call) -> int:
    coordinators = call.context.image.nodes_with(ProcessRole.COORDINATOR)
    return coordinators[call.context.spec.node_id % len(coordinators)] if coordinators else NO_NODE


def _explain(call: Call, transactional_id: str | None, error_code: ErrorCode) -> None:
    """Log what only the name tells: the response has no message, and clients repeat what they do not know."""
    if transactional_id is None or error_code not in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_TXN_STATE):
        return
    if slot_of(transactional_id) is not None:
        why = "is the name of a slot of a pool of transactions, which only the program that has the pool may use"
    elif not is_possible_id(transactional_id):
        why = f"is no text of 1 to {LONGEST_ID_BYTES} bytes in UTF-8"
    else:
        return
    client, name = (call.client_id or "")[:_SHOWN], transactional_id[:_SHOWN]
    said = f"client {client!r} was answered {error_code.name}: transactional.id {name!r} {why}. Choose another name."
    call.listener.throttled_log.log_refusal(call.client_host, call.served.api.name, said)


def _refuse(call: Call, error_code: ErrorCode) -> None:
    call.answer(InitProducerIdResponse(0, error_code, NO_PRODUCER_ID, NO_EPOCH))
