"""DescribeTransactions, ListTransactions and WriteTxnMarkers on the wire."""

import pytest

from eagleray.actors.messages import WriteGroupMarkers
from eagleray.actors.wire.handlers import (
    describe_producers,
    describe_transactions,
    list_transactions,
    write_txn_markers,
)
from eagleray.broker.groups.events import CommitTransactionOffsets, FetchOffsets, OffsetToCommit
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import WriteMarkers
from eagleray.broker.transactions.events import AddPartitions, DescribeTransaction, InitProducerId, ListTransactions
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import describe_producers as producers
from eagleray.protocol.messages.describe_transactions import DescribeTransactionsRequest
from eagleray.protocol.messages.list_transactions import ListTransactionsRequest
from eagleray.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.client_world import COORDINATOR, GROUPS, LEADER_A, LEADER_B, Fate
from tests.support.wire_calls import in_wire_world

ORDERS = [TopicPartition("orders", number) for number in range(3)]

# DescribeTransactions


def test_a_transaction_is_described_by_its_coordinator():
    async def main(world):
        producer = await world.open_transaction("billing", *ORDERS, TopicPartition("invoices", 1))
        request = DescribeTransactionsRequest(("billing", "nobody", ""))
        response = await world.request(describe_transactions, request, node=COORDINATOR)
        state, *refused = response.transaction_states
        assert (state.transactional_id, state.transaction_state) == ("billing", "Ongoing")
        assert (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.epoch)
        assert state.transaction_timeout_ms == 60_000
        assert state.transaction_start_time_ms > 0
        topics = [(topic.topic, topic.partitions) for topic in state.topics]
        assert topics == [("invoices", (1,)), ("orders", (0, 1, 2))]
        assert [(each.transactional_id, each.error_code) for each in refused] == [
            ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
            ("", ErrorCode.INVALID_REQUEST),
        ]

    in_wire_world(main)


def test_only_the_coordinator_describes_a_transaction():
    async def main(world):
        response = await world.request(describe_transactions, DescribeTransactionsRequest(("billing",)), node=LEADER_A)
        assert response.transaction_states[0].error_code == ErrorCode.NOT_COORDINATOR
        world.network.plan(DescribeTransaction, Fate.REQUEST_LOST)
        response = await world.request(
            describe_transactions, DescribeTransactionsRequest(("billing",)), node=COORDINATOR
        )
        assert response.transaction_states[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    in_wire_world(main)


# ListTransactions


def listed(version=2, node=COORDINATOR, **filters):
    """List transactions where one is open, one is decided, and one id has none yet."""

    async def main(world):
        await world.open_transaction("billing-1", ORDERS[0])
        await world.ask_node_for(COORDINATOR, InitProducerId, "billing-2")
        await world.ask_node_for(COORDINATOR, InitProducerId, "shipping")
        return await world.request(list_transactions, ListTransactionsRequest(**filters), node=node, version=version)

    return in_wire_world(main)


@pytest.mark.parametrize("version", range(3))
def test_all_transactional_ids_are_listed(version):
    response = listed(version)
    assert response.error_code == ErrorCode.NONE
    states = {state.transactional_id: state.transaction_state for state in response.transaction_states}
    assert states == {"billing-1": "Ongoing", "billing-2": "Empty", "shipping": "Empty"}
    assert len({state.producer_id for state in response.transaction_states}) == 3


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"state_filters": ("Ongoing",)}, {"billing-1"}),
        ({"state_filters": ("Ongoing", "Empty")}, {"billing-1", "billing-2", "shipping"}),
        ({"state_filters": ("Nonsense",)}, set()),
        ({"producer_id_filters": (10**6,)}, set()),
        ({"duration_filter": 10**6}, set()),
        ({"transactional_id_pattern": "billing-.*"}, {"billing-1", "billing-2"}),
        ({"transactional_id_pattern": "billing"}, set()),
        ({"transactional_id_pattern": ""}, {"billing-1", "billing-2", "shipping"}),
        ({"transactional_id_pattern": ".*", "state_filters": ("Empty",)}, {"billing-2", "shipping"}),
    ],
)
def test_a_transactional_id_has_to_pass_all_filters(filters, names):
    assert {state.transactional_id for state in listed(**filters).transaction_states} == names


def test_states_that_do_not_exist_are_named():
    for node in (COORDINATOR, LEADER_A):
        response = listed(node=node, state_filters=("Ongoing", "Nonsense"))
        assert response.error_code == ErrorCode.NONE
        assert response.unknown_state_filters == ("Nonsense",)


def test_a_pattern_that_is_none_is_refused():
    assert listed(transactional_id_pattern="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_who_coordinates_nothing_lists_nothing():
    response = listed(node=LEADER_A)
    assert (response.error_code, response.transaction_states) == (ErrorCode.NONE, ())


def test_a_coordinator_that_does_not_answer_is_not_available():
    async def main(world):
        world.network.plan(ListTransactions, Fate.REQUEST_LOST)
        response = await world.request(list_transactions, ListTransactionsRequest(), node=COORDINATOR)
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    in_wire_world(main)


# WriteTxnMarkers


def markers(producer, *topics, coordinator_epoch=0, commit=False):
    wanted = tuple(WritableTxnMarkerTopic(name, numbers) for name, numbers in topics)
    marker = WritableTxnMarker(producer.producer_id, producer.epoch, commit, wanted, coordinator_epoch)
    return WriteTxnMarkersRequest((marker,))


def outcomes(response):
    return [
        (topic.name, each.partition_index, ErrorCode(each.error_code))
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    ]


async def open_in(world, partition):
    """Since when a transaction is open in a partition, by DescribeProducers as an admin asks it."""
    topics = (producers.TopicRequest(partition.topic, (partition.partition,)),)
    request = producers.DescribeProducersRequest(topics)
    response = await world.request(describe_producers, request, node=world.image.leader_of(partition))
    return [each.current_txn_start_offset for each in response.topics[0].partitions[0].active_producers]


@pytest.mark.parametrize("version", [1, 2])
def test_a_hanging_transaction_is_ended_in_the_partitions_that_are_led_here(version):
    async def main(world):
        producer = await world.open_transaction("billing", *ORDERS)
        request = markers(producer, ("orders", (0, 1, 2)), ("nothing", (0,)))
        response = await world.request(write_txn_markers, request, node=LEADER_A, version=version)
        assert response.markers[0].producer_id == producer.producer_id
        leads = [world.image.leader_of(partition) == LEADER_A for partition in ORDERS]
        codes = {True: ErrorCode.NONE, False: ErrorCode.NOT_LEADER_OR_FOLLOWER}
        expected = [("orders", number, codes[is_led]) for number, is_led in enumerate(leads)]
        assert outcomes(response) == [*expected, ("nothing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        for partition, is_led in zip(ORDERS, leads, strict=True):
            assert await open_in(world, partition) == [-1 if is_led else 0]

    in_wire_world(main)


def test_a_marker_is_fenced_by_epochs():
    async def main(world):
        producer = await world.open_transaction("billing", ORDERS[0])
        leader = world.image.leader_of(ORDERS[0])
        newer = markers(producer, ("orders", (0,)), coordinator_epoch=7)
        await world.request(write_txn_markers, newer, node=leader)
        response = await world.request(write_txn_markers, markers(producer, ("orders", (0,))), node=leader)
        assert outcomes(response) == [("orders", 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)]

    in_wire_world(main)


def test_several_markers_of_a_request_are_told_apart():
    async def main(world):
        one = await world.open_transaction("billing-1", ORDERS[0])
        other = await world.open_transaction("billing-2", ORDERS[0])
        both = (*markers(one, ("orders", (0,))).markers, *markers(other, ("orders", (0, 9))).markers)
        leader = world.image.leader_of(ORDERS[0])
        response = await world.request(write_txn_markers, WriteTxnMarkersRequest(both), node=leader)
        assert [marker.producer_id for marker in response.markers] == [one.producer_id, other.producer_id]
        codes = [code for _, _, code in outcomes(response)]
        assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await open_in(world, ORDERS[0]) == [-1, -1]

    in_wire_world(main)


def test_offsets_of_a_hanging_transaction_are_let_go():
    async def main(world):
        number = partition_for_name("audit", world.offsets_partitions)
        partition = TopicPartition("__consumer_offsets", number)
        producer = (await world.ask_node_for(COORDINATOR, InitProducerId, "billing")).producer
        await world.ask_node_for(COORDINATOR, AddPartitions, "billing", producer, (partition,))
        offsets = (OffsetToCommit(ORDERS[0], 5),)
        await world.ask_node_for(GROUPS, CommitTransactionOffsets, "audit", "billing", producer, offsets)
        held = await world.ask_node_for(GROUPS, FetchOffsets, "audit", (ORDERS[0],), True)
        assert held.offsets[0].error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
        request = markers(producer, ("__consumer_offsets", (number,)), commit=True)
        response = await world.request(write_txn_markers, request, node=GROUPS)
        assert outcomes(response) == [("__consumer_offsets", number, ErrorCode.NONE)]
        fetched = await world.ask_node_for(GROUPS, FetchOffsets, "audit", (ORDERS[0],), True)
        assert fetched.offsets[0].offset == 5

    in_wire_world(main)


def test_nobody_writes_markers_to_the_log_of_transactions():
    async def main(world):
        producer = await world.open_transaction("billing", ORDERS[0])
        request = markers(producer, ("__transaction_state", (0,)))
        response = await world.request(write_txn_markers, request, node=COORDINATOR)
        assert outcomes(response) == [("__transaction_state", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    in_wire_world(main)


@pytest.mark.parametrize(
    ("kind", "partition"), [(WriteMarkers, ORDERS[0]), (WriteGroupMarkers, TopicPartition("__consumer_offsets", 0))]
)
def test_a_client_looks_again_for_a_leader_that_does_not_answer(kind, partition):
    async def main(world):
        producer = await world.open_transaction("billing", *ORDERS)
        world.network.plan(kind, Fate.REPLY_LOST)
        request = markers(producer, (partition.topic, (partition.partition,)))
        response = await world.request(write_txn_markers, request, node=world.image.leader_of(partition))
        assert outcomes(response) == [(partition.topic, partition.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    in_wire_world(main)


def test_a_node_that_leads_nothing_of_a_topic_says_so():
    async def main(world):
        producer = await world.open_transaction("billing", ORDERS[0])
        response = await world.request(write_txn_markers, markers(producer, ("orders", (0,))), node=GROUPS)
        assert outcomes(response) == [("orders", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert world.image.leader_of(ORDERS[0]) in (LEADER_A, LEADER_B)

    in_wire_world(main)
