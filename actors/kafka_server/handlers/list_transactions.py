"""ListTransactions: key 66, versions 0 to 2.

Clients ask every broker; one that coordinates no transactions returns none.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_coordinator
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.patterns import BadPattern, compile_pattern
from eagleray.broker.transactions.descriptions import ListTransactions, TransactionDescription
from eagleray.broker.transactions.states import KAFKA_NAMES
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

API = ServedApi(66, 0, 2)


async def handle(request: ListTransactionsRequest, call: AdminCall) -> ListTransactionsResponse:
    """List the transactional ids that are coordinated here and pass all the filters."""
    if ProcessRole.COORDINATOR not in call.context.spec.roles:
        return ListTransactionsResponse(unknown_state_filters=_unknown_states(request))
    try:
        pattern = compile_pattern(request.transactional_id_pattern or "(?s:.*)")
    except BadPattern:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    fields = (request.state_filters, request.producer_id_filters, request.duration_filter)
    reply = await ask_coordinator(call, ProcessRole.COORDINATOR, ListTransactions, *fields)
    if isinstance(reply, ErrorCode):
        return ListTransactionsResponse(error_code=reply)
    found = (_state_of(each) for each in reply.transactions if pattern.describes(each.transactional_id))
    return ListTransactionsResponse(unknown_state_filters=_unknown_states(request), transaction_states=tuple(found))


def _unknown_states(request: ListTransactionsRequest) -> tuple[str, ...]:
    return tuple(state for state in request.state_filters if state not in KAFKA_NAMES)


def _state_of(found: TransactionDescription) -> TransactionState:
    return TransactionState(found.transactional_id, found.producer.producer_id, found.state)
