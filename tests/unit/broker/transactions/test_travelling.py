"""Events and effects travel between actors as bytes; all of them arrive as they were sent."""

import msgspec
import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.messages import Marker
from eagleray.broker.runtime.coordinator_events import AppendFailed, Committed, PartitionAssigned, PartitionResigned
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.transactions.branches.branching import Branch, Branching
from eagleray.broker.transactions.descriptions import (
    DescribeTransaction,
    ListTransactions,
    TransactionDescribed,
    TransactionDescription,
    TransactionsListed,
)
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    BranchedReply,
    BranchMarkers,
    CompleteTransaction,
    Effect,
    EndBranched,
    EndTransaction,
    Event,
    ForgetTransactionalId,
    InitProducerId,
    MarkersForgotten,
    MarkersWritten,
    OpenBranch,
    PrepareTransaction,
    ProducerIdsReceived,
    Reply,
    RequestProducerIds,
    SendMarkers,
)
from eagleray.broker.transactions.marker_events import (
    LeadersLearned,
    MarkerCall,
    MarkerCallAnswered,
    MarkerCallUnanswered,
    MarkerEffect,
    MarkerEvent,
    PartitionsDeleted,
    ResolveLeaders,
)
from eagleray.broker.transactions.producer_ids import (
    AllocateBlock,
    BlockAllocated,
)
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, snapshot

PRODUCER = ProducerIdentity(2**40, 3)
ONGOING = snapshot(TransactionState.ONGOING)
BRANCHED = snapshot(
    TransactionState.PREPARE_COMMIT,
    branching=Branching(
        tag="batch-2",
        committed_tag="batch-1",
        branches={2**40: Branch(frozenset({ORDERS_0, ORDERS_1}), True), 9: Branch()},
    ),
)
DESCRIPTION = TransactionDescription(
    "t", "Ongoing", PRODUCER, 1, 2, 3, (ORDERS_0,), "batch-1", 2, prepared_ms=4, context=b"42"
)

MESSAGES = [
    InitProducerId(1, None),
    InitProducerId(1, "t", 5, PRODUCER),
    InitProducerId(1, "t", 5, PRODUCER, two_phase=True, keep_prepared=True),
    PrepareTransaction(1, "t", PRODUCER, b"42", (PRODUCER, PRODUCER)),
    CompleteTransaction(1, "t", PRODUCER, True, True),
    AddPartitions(1, "t", PRODUCER, (ORDERS_0, ORDERS_1), 2, True),
    EndTransaction(1, "t", PRODUCER, True, 2),
    Committed(0, 1, 2),
    AppendFailed(0, 1),
    MarkersWritten("t", 0, 1, 2),
    MarkersForgotten(),
    ProducerIdsReceived(0, 1000),
    PartitionAssigned(0, 1),
    PartitionResigned(0, 1),
    Tick(),
    SendMarkers("t", 0, 1, 2, PRODUCER, False, frozenset({ORDERS_0}), 2),
    BeginBranched(1, "t", "batch-1", 5, True, True),
    OpenBranch(1, "t", PRODUCER),
    EndBranched(1, "t", PRODUCER, True, (PRODUCER, PRODUCER)),
    ForgetTransactionalId(1, "t", PRODUCER),
    BranchedReply(1, ErrorCode.NONE, PRODUCER, True, PRODUCER),
    DescribeTransaction(1, "t"),
    TransactionDescribed(1, ErrorCode.NONE, DESCRIPTION),
    ListTransactions(1, ("Ongoing",), (1, 2), 5),
    TransactionsListed(1, ErrorCode.NONE, (DESCRIPTION, DESCRIPTION)),
    SendMarkers("t", 0, 1, 2, PRODUCER, True, frozenset(), 2, (BranchMarkers(PRODUCER, False, frozenset({ORDERS_1})),)),
    RequestProducerIds(),
    Reply(1, ErrorCode.NONE, PRODUCER, (ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE), ongoing=PRODUCER),
]
MARKER_MESSAGES = [
    PartitionsDeleted((ORDERS_0,)),
    MarkerCallAnswered(1, 2, (ErrorCode.NONE,)),
    MarkerCallUnanswered(1, 2),
    MarkerCall(1, 2, (Marker(PRODUCER, True, 1, 2, (ORDERS_0,)),)),
    ResolveLeaders((ORDERS_0,)),
]
ALLOCATOR_MESSAGES = [
    AllocateBlock(1),
    BlockAllocated(1, ErrorCode.NONE, 0, 1000),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_of_the_coordinator(message: Event | Effect):
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Event | Effect) == message


@pytest.mark.parametrize("message", MARKER_MESSAGES, ids=lambda message: type(message).__name__)
def test_of_the_marker_channel_manager(message: MarkerEvent | MarkerEffect):
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=MarkerEvent | MarkerEffect) == message


@pytest.mark.parametrize("message", ALLOCATOR_MESSAGES, ids=lambda message: type(message).__name__)
def test_of_the_allocator(message: AllocateBlock | BlockAllocated):
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=AllocateBlock | BlockAllocated) == message


def test_the_table_of_leaders_too():
    learned = LeadersLearned({ORDERS_0: 1, ORDERS_1: 2})

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(learned), type=MarkerEvent) == learned
