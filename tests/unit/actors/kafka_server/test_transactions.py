"""DescribeTransactions, ListTransactions and WriteTxnMarkers on the wire."""

import pytest

from eagleray.broker.groups.events import CommitTransactionOffsets, FetchOffsets, OffsetToCommit
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.partitions.events import DescribeProducers, TransactionVerified, VerifyTransaction, WriteMarkers
from eagleray.broker.runtime.coordinator_runtime import CoordinatorRuntime
from eagleray.broker.transactions.descriptions import DescribeTransaction, ListTransactions, TransactionsListed
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    EndTransaction,
    InitProducerId,
    OpenBranch,
    PrepareTransaction,
    TakePoolOver,
)
from eagleray.broker.transactions.preparation import NO_TIMEOUT_MS
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import describe_producers as producers
from eagleray.protocol.messages.describe_transactions import DescribeTransactionsRequest
from eagleray.protocol.messages.init_producer_id import InitProducerIdRequest
from eagleray.protocol.messages.list_transactions import ListTransactionsRequest
from eagleray.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.cluster_in_memory import COORDINATOR, GROUPS, LEADER_A, LEADER_B, entered
from tests.support.kafka_requests import KafkaCluster
from tests.support.lanes_in_memory import Fate

pytestmark = pytest.mark.usefixtures("virtual_time")

ORDERS = [TopicPartition("orders", number) for number in range(3)]

# DescribeTransactions


async def test_a_transaction_is_described_by_its_coordinator(world):
    producer = await world.open_transaction("billing", *ORDERS, TopicPartition("invoices", 1))
    request = DescribeTransactionsRequest(("billing", "nobody", ""))
    response = await world.request(request, node=COORDINATOR)
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


async def test_prepared_and_kept_and_pooled_transactions_are_ongoing_to_kafkas_tools(world):
    ask = world.ask_node_for
    prepared = (await ask(COORDINATOR, InitProducerId, "prepared")).producer
    await ask(COORDINATOR, AddPartitions, "prepared", prepared, (ORDERS[0],), 2)
    assert (await ask(COORDINATOR, PrepareTransaction, "prepared", prepared)).error_code is ErrorCode.NONE
    left = (await ask(COORDINATOR, InitProducerId, "kept", 0, None, None, True)).producer
    await ask(COORDINATOR, AddPartitions, "kept", left, (ORDERS[1],), 2)
    kept = await ask(COORDINATOR, InitProducerId, "kept", 0, None, None, True, True)
    assert kept.ongoing == left
    owner = (await ask(COORDINATOR, TakePoolOver, "pool")).producer
    fields = ("pool.__slot-0", 60_000, None, None, False, False, None, owner)
    slot = (await ask(COORDINATOR, InitProducerId, *fields)).producer
    await ask(COORDINATOR, AddPartitions, "pool.__slot-0", slot, (ORDERS[2],), 2)
    names = ("kept", "pool", "pool.__slot-0", "prepared")

    described = (await world.request(DescribeTransactionsRequest(names), node=COORDINATOR)).transaction_states
    listing = await world.request(ListTransactionsRequest(state_filters=("Ongoing",)), node=COORDINATOR)

    states = {each.transactional_id: (each.error_code, each.transaction_state) for each in described}
    none = ErrorCode.NONE
    assert states == {"pool": (none, "Empty")} | {name: (none, "Ongoing") for name in names if name != "pool"}
    partitions = {each.transactional_id: [each.topics[0].partitions for _ in each.topics] for each in described}
    assert partitions == {"kept": [(1,)], "pool": [], "pool.__slot-0": [(2,)], "prepared": [(0,)]}
    assert {each.transactional_id for each in listing.transaction_states} == set(names) - {"pool"}
    assert {each.transaction_timeout_ms for each in described if each.transactional_id == "kept"} == {NO_TIMEOUT_MS}


@pytest.mark.parametrize(
    ("transactional_id", "said"),
    [
        ("checkout.__slot-1", "'checkout.__slot-1' is the name of a slot of a pool of transactions"),
        ("", "transactional.id '' is no text of 1 to 32767 bytes"),
    ],
    ids=["slot", "empty"],
)
async def test_name_that_no_kafka_client_may_have_is_explained_in_the_log_once(world, caplog, transactional_id, said):
    request = InitProducerIdRequest(transactional_id, 60_000)
    for _ in range(3):
        response = await world.request(request, node=COORDINATOR, version=5)
        assert response.error_code == ErrorCode.INVALID_REQUEST
    [line] = [record.getMessage() for record in caplog.records if "transactional.id" in record.getMessage()]
    assert said in line
    assert "INVALID_REQUEST" in line
    assert "Choose another name" in line
    assert len(line) < 500


async def test_only_the_coordinator_describes_a_transaction(world):
    response = await world.request(DescribeTransactionsRequest(("billing",)), node=LEADER_A)
    assert response.transaction_states[0].error_code == ErrorCode.NOT_COORDINATOR
    world.network.plan(DescribeTransaction, Fate.REQUEST_LOST)
    response = await world.request(DescribeTransactionsRequest(("billing",)), node=COORDINATOR)
    assert response.transaction_states[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# ListTransactions


async def listed(version=2, node=COORDINATOR, **filters):
    """List transactions where one is open, one is decided, and one id has none yet."""
    async with entered(KafkaCluster) as world:
        await world.open_transaction("billing-1", ORDERS[0])
        await world.ask_node_for(COORDINATOR, InitProducerId, "billing-2")
        await world.ask_node_for(COORDINATOR, InitProducerId, "shipping")
        return await world.request(ListTransactionsRequest(**filters), node=node, version=version)


@pytest.mark.parametrize("version", range(3))
async def test_all_transactional_ids_are_listed(version):
    response = await listed(version)
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
async def test_a_transactional_id_has_to_pass_all_filters(filters, names):
    assert {state.transactional_id for state in (await listed(**filters)).transaction_states} == names


async def test_states_that_do_not_exist_are_named():
    for node in (COORDINATOR, LEADER_A):
        response = await listed(node=node, state_filters=("Ongoing", "Nonsense"))
        assert response.error_code == ErrorCode.NONE
        assert response.unknown_state_filters == ("Nonsense",)


async def test_a_pattern_that_is_none_is_refused():
    assert (await listed(transactional_id_pattern="(")).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_node_that_coordinates_nothing_lists_nothing():
    response = await listed(node=LEADER_A)
    assert (response.error_code, response.transaction_states) == (ErrorCode.NONE, ())


async def test_a_coordinator_that_does_not_answer_is_not_available(world):
    world.network.plan(ListTransactions, Fate.REQUEST_LOST)
    response = await world.request(ListTransactionsRequest(), node=COORDINATOR)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


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
    response = await world.request(request, node=world.image.leader_of(partition))
    return [each.current_txn_start_offset for each in response.topics[0].partitions[0].active_producers]


ORPHAN = ProducerIdentity(424_242, 3)


async def abort(world, producer, partition, **fields):
    request = markers(producer, (partition.topic, (partition.partition,)), **fields)
    ((*_, code),) = outcomes(await world.request(request, node=world.image.leader_of(partition)))
    return code


@pytest.mark.parametrize("version", [1, 2])
async def test_a_hanging_transaction_is_ended_in_the_partitions_that_are_led_here(version, world):
    for partition in ORDERS:
        await world.leave_hanging(partition, ORPHAN)
    request = markers(ORPHAN, ("orders", (0, 1, 2)), ("nothing", (0,)))
    response = await world.request(request, node=LEADER_A, version=version)
    assert response.markers[0].producer_id == ORPHAN.producer_id
    leads = [world.image.leader_of(partition) == LEADER_A for partition in ORDERS]
    codes = {True: ErrorCode.NONE, False: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    expected = [("orders", number, codes[is_led]) for number, is_led in enumerate(leads)]
    assert outcomes(response) == [*expected, ("nothing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    for partition, is_led in zip(ORDERS, leads, strict=True):
        assert await open_in(world, partition) == [-1 if is_led else 0]


async def test_transaction_of_a_coordinator_is_not_ended_for_a_client(world):
    producer = await world.open_transaction("billing", ORDERS[0])
    for commit in (False, True):
        assert await abort(world, producer, ORDERS[0], commit=commit) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await open_in(world, ORDERS[0]) == [0]
    ended = await world.ask_node_for(COORDINATOR, EndTransaction, "billing", producer, True)
    assert ended.error_code is ErrorCode.NONE
    await world.until(lambda: world.committed("orders", 0))


async def test_branch_of_a_coordinator_is_not_ended_for_a_client(world):
    owner = (await world.ask_node_for(COORDINATOR, BeginBranched, "job", "batch-1")).producer
    branch = (await world.ask_node_for(COORDINATOR, OpenBranch, "job", owner)).producer
    await world.ask_node_for(COORDINATOR, AddPartitions, "job", branch, (ORDERS[0],), 2)
    await world.leave_hanging(ORDERS[0], branch)
    assert await abort(world, branch, ORDERS[0]) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_hanging_transaction_is_not_committed_for_a_client(world):
    await world.leave_hanging(ORDERS[0], ORPHAN)
    assert await abort(world, ORPHAN, ORDERS[0], commit=True) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await open_in(world, ORDERS[0]) == [0]


async def test_nothing_hangs_while_a_coordinator_cannot_be_asked(world):
    await world.leave_hanging(ORDERS[0], ORPHAN)
    world.network.plan(ListTransactions, Fate.REPLY_LOST)
    assert await abort(world, ORPHAN, ORDERS[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await open_in(world, ORDERS[0]) == [0]


async def test_nothing_hangs_while_a_partition_of_the_coordinators_log_moves(world, monkeypatch):
    """The node that the metadata name does not have the partition any more, or not yet, and knows of nothing in it."""
    producer = await world.open_transaction("billing", ORDERS[0])
    monkeypatch.setattr(CoordinatorRuntime, "say_of_all", answer_without_shards)
    assert await abort(world, producer, ORDERS[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await open_in(world, ORDERS[0]) == [0]


def answer_without_shards(runtime, shards, said):
    runtime.say_at_once(TransactionsListed(said.request_id, ErrorCode.NONE))


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (ProducerIdentity(424_242, 2), ErrorCode.INVALID_PRODUCER_EPOCH),
        (ProducerIdentity(424_242, 4), ErrorCode.INVALID_TXN_STATE),
        (ProducerIdentity(424_242, 32_767), ErrorCode.INVALID_TXN_STATE),
        (ProducerIdentity(1, 3), ErrorCode.INVALID_TXN_STATE),
        (ProducerIdentity(-1, -1), ErrorCode.INVALID_TXN_STATE),
    ],
)
async def test_another_transaction_than_the_named_is_left_alone(producer, code, world):
    await world.leave_hanging(ORDERS[0], ORPHAN)
    assert await abort(world, producer, ORDERS[0]) is code
    assert await open_in(world, ORDERS[0]) == [0]


async def test_coordinator_epoch_of_a_client_fences_no_coordinator(world):
    await world.leave_hanging(ORDERS[0], ORPHAN)
    assert await abort(world, ORPHAN, ORDERS[0], coordinator_epoch=2**31 - 1) is ErrorCode.NONE
    described = await world.ask_node_for(world.image.leader_of(ORDERS[0]), DescribeProducers, ORDERS[0])
    assert [each.coordinator_epoch for each in described.producers] == [0]
    await world.ask_node_for(COORDINATOR, InitProducerId, "billing")
    assert await abort(world, ORPHAN, ORDERS[0], coordinator_epoch=-1) is ErrorCode.INVALID_TXN_STATE


async def test_several_markers_of_a_request_are_told_apart(world):
    other = ProducerIdentity(424_243, 0)
    for producer in (ORPHAN, other):
        await world.leave_hanging(ORDERS[0], producer)
    both = (*markers(ORPHAN, ("orders", (0,))).markers, *markers(other, ("orders", (0, 9))).markers)
    leader = world.image.leader_of(ORDERS[0])
    response = await world.request(WriteTxnMarkersRequest(both), node=leader)
    assert [marker.producer_id for marker in response.markers] == [ORPHAN.producer_id, other.producer_id]
    codes = [code for _, _, code in outcomes(response)]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await open_in(world, ORDERS[0]) == [-1, -1]


async def test_offsets_of_a_hanging_transaction_are_let_go(world, monkeypatch):
    number = partition_for_name("audit", 3)
    producer = ProducerIdentity(424_242, 0)
    (role,) = world.nodes[GROUPS]._roles

    def verify(question):
        role.post(TransactionVerified(question.partition, 424_242, question.verification_id, ErrorCode.NONE))

    with monkeypatch.context() as patched:
        patched.setitem(role._performers, VerifyTransaction, verify)
        offsets = (OffsetToCommit(ORDERS[0], 5),)
        await world.ask_node_for(GROUPS, CommitTransactionOffsets, "audit", "billing", producer, offsets)
    held = await world.ask_node_for(GROUPS, FetchOffsets, "audit", (ORDERS[0],), True)
    assert held.offsets[0].error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    response = await world.request(markers(producer, ("__consumer_offsets", (number,))), node=GROUPS)
    assert outcomes(response) == [("__consumer_offsets", number, ErrorCode.NONE)]
    fetched = await world.ask_node_for(GROUPS, FetchOffsets, "audit", (ORDERS[0],), True)
    assert (fetched.offsets[0].error_code, fetched.offsets[0].offset) == (ErrorCode.NONE, -1)


async def test_markers_for_the_log_of_transactions_are_refused(world):
    producer = await world.open_transaction("billing", ORDERS[0])
    request = markers(producer, ("__transaction_state", (0,)))
    response = await world.request(request, node=COORDINATOR)
    assert outcomes(response) == [("__transaction_state", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


@pytest.mark.parametrize(("kind", "partition"), [(WriteMarkers, ORDERS[0]), (DescribeProducers, ORDERS[0])])
async def test_a_client_looks_again_for_a_leader_that_does_not_answer(kind, partition, world):
    await world.leave_hanging(ORDERS[0], ORPHAN)
    world.network.plan(kind, Fate.REPLY_LOST)
    request = markers(ORPHAN, (partition.topic, (partition.partition,)))
    response = await world.request(request, node=world.image.leader_of(partition))
    assert outcomes(response) == [(partition.topic, partition.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


async def test_a_node_that_leads_nothing_of_a_topic_says_so(world):
    producer = await world.open_transaction("billing", ORDERS[0])
    response = await world.request(markers(producer, ("orders", (0,))), node=GROUPS)
    assert outcomes(response) == [("orders", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert world.image.leader_of(ORDERS[0]) in (LEADER_A, LEADER_B)
