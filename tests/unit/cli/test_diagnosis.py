"""Each thing that can be wrong with a cluster is said, with what helps; and nothing is said of a healthy one."""

import msgspec
import pytest

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.metadata.changes import DrainingChanged, NodesPlanned, TopicCreated
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.nodes import NO_NODE, PlannedNode
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.transactions.descriptions import TransactionDescription
from eagleray.broker.transactions.resolver import ResolverKind, ResolverName
from eagleray.cli.diagnosis import ClusterState, diagnose
from eagleray.client.admin.descriptions import BlockingTransaction

NOW_MS = 1_000_000_000
MINUTE_MS = 60_000
ROLES = ("controller", "leader")
WHOLE = PartitionImage(0, 3, (0, 1, 2), (0, 1, 2))
ORDERS = TopicPartition("orders", 0)


def image_with(*partitions, draining=()):
    plan = tuple(PlannedNode(node_id, ROLES, None, f"10.0.0.{node_id}") for node_id in range(3))
    created = TopicCreated("orders", bytes(range(16)), {}, partitions or (WHOLE,))
    return EMPTY_IMAGE.apply([NodesPlanned(plan), created, DrainingChanged(tuple(draining))])


def node(node_id, **changes):
    return {
        "node_id": node_id,
        "roles": list(ROLES),
        "pid": 100 + node_id,
        "machine": f"10.0.0.{node_id}",
        "registered": True,
        "metadata_version": 7,
        "offline": {},
        "cuts": {},
        "stray_logs": [],
        "voter": {"leader": 0, "term": 1, "end_offset": 9, "committed_offset": 9, "may_lead": True},
        "stopped_ruling": False,
        "version": "1.0",
        "time_ms": NOW_MS,
        "disk": {"path": "/data", "total_bytes": 100 * 1024**3, "free_bytes": 50 * 1024**3},
    } | changes


def silent(node_id):
    """What is known of a node that does not answer."""
    return {"node_id": node_id, "roles": list(ROLES), "machine": f"10.0.0.{node_id}", "registered": False}


HEALTHY = ClusterState(
    image=image_with(),
    nodes=[node(0), node(1), node(2)],
    asked_ms=NOW_MS - 10,
    answered_ms=NOW_MS + 10,
    version="1.0",
    hold_ms=5 * MINUTE_MS,
    now_ms=NOW_MS,
)


def found_in(**changes):
    return diagnose(msgspec.structs.replace(HEALTHY, **changes))


def only(**changes):
    (trouble,) = found_in(**changes)
    return trouble


def with_first(**changes):
    return {"nodes": [node(0, **changes), node(1), node(2)]}


def test_healthy_cluster_has_no_trouble():
    assert diagnose(HEALTHY) == []


@pytest.mark.parametrize(
    ("changes", "what", "helps"),
    [
        ({"nodes": [silent(0), node(1), node(2)]}, "node 0 on machine 10.0.0.0 does not answer", "eagleray logs 0"),
        (with_first(registered=False), "node 0 on machine 10.0.0.0 runs, and is not part", "eagleray logs 0"),
        (with_first(voter=node(0)["voter"] | {"may_lead": False}), "voter 0 is empty or lacks", "eagleray logs 0"),
        (with_first(stopped_ruling=True), "has stopped ruling", "start it with the metadata log that is whole"),
        (with_first(stray_logs=["orders-0"]), "neither serves nor removes orders-0", "storage strays list /data"),
        (with_first(cuts={"cut": 3, "cut unflushed": 1}), "(cut unflushed: 1)", "eagleray storage dump"),
        (with_first(uncertain_ends=2), "since the last flush of 2 logs that no other replica has", "eagleray logs 0"),
        (with_first(damaged={"orders-0": "rot"}), "orders-0 on node 0", "make another replica of it in sync"),
        (with_first(damaged={"__cluster_metadata-0": "rot"}), "__cluster_metadata-0", "storage restore-metadata"),
        (with_first(offline={"orders-0": "damaged; `eagleray storage repair`"}), "eagleray storage repair", ""),
        (
            with_first(disk={"path": "/data", "total_bytes": 100 * 1024**3, "free_bytes": 1024**3}),
            "nearly full: 1.0 GiB of 100.0 GiB",
            "retention.bytes",
        ),
        (with_first(time_ms=NOW_MS - 5_010), "is 5.0 s behind", "chronyc tracking"),
        (with_first(time_ms=NOW_MS + 5_010), "is 5.0 s ahead of", "chronyc tracking"),
        (with_first(version="0.9"), "(node 0: 0.9)", "install the same release"),
        (
            {"image": image_with(PartitionImage(NO_NODE, 3, (0, 1, 2), (1,)))},
            "1 partition (orders-0) have no leader, and serve nothing; their last replicas in sync are on node 1",
            "eagleray topic elect orders --unclean",
        ),
        (
            {"image": image_with(PartitionImage(0, 3, (0, 1, 2), (0,))), "min_isr": {"orders": 2}},
            "refuse acks=all; missing are those on node 1, 2",
            "eagleray topic describe orders",
        ),
        (
            {"image": image_with(PartitionImage(0, 3, (0, 1, 2), (0, 1))), "min_isr": {"orders": 2}},
            "missing are those on node 2",
            "eagleray topic reassign orders",
        ),
        ({"unanswered": ["the question what holds readers back"]}, "got no answer in time", "eagleray status"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_trouble_is_said_with_what_helps(changes, what, helps):
    trouble = only(**changes)
    assert what in trouble.what
    assert helps in trouble.help
    assert trouble.is_problem


def test_lost_majority_of_voters_is_said_besides_the_nodes():
    found = [trouble.what for trouble in found_in(nodes=[node(0), silent(1), silent(2)])]
    assert len(found) == 3
    assert any("1 of 3 voters answer, which is no majority" in what for what in found)


def test_disk_that_nodes_of_a_machine_share_is_named_once():
    full = {"path": "/data", "total_bytes": 100, "free_bytes": 1}
    assert len(found_in(nodes=[node(0, disk=full), node(1, disk=full, machine="10.0.0.0"), node(2)])) == 1
    assert len(found_in(nodes=[node(0, disk=full), node(1, disk=full), node(2)])) == 2


def test_node_whose_clock_is_asked_slowly_is_not_suspected():
    assert found_in(asked_ms=NOW_MS - 60_000, answered_ms=NOW_MS + 60_000) == []


def test_replica_that_is_being_added_is_not_missed():
    adding = PartitionImage(0, 3, (0, 1, 2), (0, 1), adding=(2,))
    (notice,) = found_in(image=image_with(adding))
    assert "1 partition move to other nodes: orders-0" in notice.what
    assert not notice.is_problem


def test_what_only_a_person_may_want_to_know_comes_last():
    found = found_in(image=image_with(draining=(1,)), nodes=[silent(0), node(1), node(2)])
    assert [trouble.is_problem for trouble in found] == [True, False]


def blocking(**changes):
    fields = {
        "partition": ORDERS,
        "open_since_offset": 5,
        "records_waiting": 9,
        "last_timestamp_ms": NOW_MS - MINUTE_MS,
        "producer": ProducerIdentity(7, 1),
        "transactional_id": "loader",
        "state": "Ongoing",
        "start_ms": NOW_MS - 10 * MINUTE_MS,
        "end_with": "eagleray txn abort loader",
    }
    return BlockingTransaction(**(fields | changes))


def test_transaction_that_holds_readers_back_for_long_is_said_with_the_command_that_ends_it():
    trouble = only(blocking=[blocking()])
    assert "the transaction of 'loader' (Ongoing) holds back readers of committed records of orders-0" in trouble.what
    assert trouble.help == "to end it: `eagleray txn abort loader`"
    assert found_in(blocking=[blocking(start_ms=NOW_MS - MINUTE_MS)]) == []


def test_transaction_that_no_coordinator_knows_is_said_at_once():
    hanging = blocking(transactional_id=None, state="hanging", start_ms=-1, end_with="eagleray txn abort-hanging")
    assert "no coordinator knows" in only(blocking=[hanging]).what


def prepared(**changes):
    fields = {
        "transactional_id": "billing",
        "state": "Ongoing",
        "producer": ProducerIdentity(7, 1),
        "timeout_ms": -1,
        "start_ms": NOW_MS,
        "updated_ms": NOW_MS,
        "partitions": (ORDERS,),
        "prepared_ms": NOW_MS,
    }
    return TransactionDescription(**(fields | changes))


def test_prepared_transaction_without_a_resolver_is_said_with_both_ways_to_end_it():
    trouble = only(prepared=[prepared()])
    assert "eagleray txn commit billing --producer 7:1" in trouble.help
    assert "eagleray txn abort billing --producer 7:1" in trouble.help
    resolver = ResolverName(ResolverKind.TOPIC, "outcomes", "", "", 1000, 1000, 3, aborts_when_exhausted=True)
    assert found_in(prepared=[prepared(resolver=resolver)]) == []
