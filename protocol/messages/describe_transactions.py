"""DescribeTransactions: shows the state of transactions by transactional id."""

from eagleray.protocol.messages.annotations import Int16, Int32, Int64, Message, Wire, WireStruct


class DescribeTransactionsRequest(Message, frozen=True):
    """Transactional ids to show."""

    wire = Wire(api_key=65, versions=(0, 0), flexible_since=0)

    transactional_ids: tuple[str, ...] = ()


class TopicData(WireStruct, frozen=True):
    """The partitions of one topic in the transaction."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class TransactionState(WireStruct, frozen=True):
    """One transaction."""

    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: tuple[TopicData, ...] = ()


class DescribeTransactionsResponse(Message, frozen=True):
    """The transactions."""

    wire = Wire(api_key=65, versions=(0, 0), flexible_since=0)

    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...] = ()
