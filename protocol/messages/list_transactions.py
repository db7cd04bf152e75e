"""ListTransactions: lists the transactions that a coordinator holds."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Int16, Int32, Int64, Message, Since, Wire, WireStruct


class ListTransactionsRequest(Message, frozen=True):
    """Filters that a transaction must all pass; an empty one passes everything."""

    wire = Wire(api_key=66, versions=(0, 2), flexible_since=0)

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, Since(1)] = -1
    transactional_id_pattern: Annotated[str | None, Since(2)] = None


class TransactionState(WireStruct, frozen=True):
    """One transaction."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


class ListTransactionsResponse(Message, frozen=True):
    """The transactions of this coordinator."""

    wire = Wire(api_key=66, versions=(0, 2), flexible_since=0)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()
