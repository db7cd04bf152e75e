"""Moving replicas from node to node, and placing new ones."""

import pytest

from eagleray.broker.controller.elections import after_leaving, after_resigning
from eagleray.broker.controller.isr_changes import judge_isr
from eagleray.broker.controller.reassignment import cancel, reassign
from eagleray.broker.controller.reassignment_progress import waits_for_leader
from eagleray.broker.controller.replica_placer import ReplicaPlacer, Site, rack_of
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import NodeRegistration
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import InSyncReplica, ProposeIsr
from eagleray.protocol.errors import ErrorCode
from tests.support.replicas import INCARNATIONS, PARTITION, metadata

BEFORE = PartitionImage(1, 5, (1, 2), (1, 2))
MOVING = PartitionImage(1, 5, (2, 3, 1), (1, 2), 1, (3,), (1,))


def test_a_move_adds_first_and_removes_when_all_are_in_sync_and_the_leader_has_handed_over() -> None:
    image = metadata(BEFORE)
    error_code, changes = reassign(PARTITION, (2, 3), image)
    image = image.apply(changes)
    assert (error_code, image.find(PARTITION)) == (ErrorCode.NONE, MOVING)
    replicas = tuple(InSyncReplica(node_id, INCARNATIONS[node_id]) for node_id in (1, 2, 3))
    _, changes = judge_isr(ProposeIsr(PARTITION, 1, 5, 1, replicas), image)
    image = image.apply(changes)
    state = image.find(PARTITION)
    assert state == PartitionImage(1, 5, (2, 3, 1), (1, 2, 3), 2, (3,), (1,))
    assert waits_for_leader(state)
    image = image.apply(after_resigning(image, PARTITION, 5, 1))
    assert image.find(PARTITION) == PartitionImage(2, 6, (2, 3), (2, 3), 3)


def test_a_move_whose_leader_stays_is_complete_when_the_last_one_is_in_sync() -> None:
    image = metadata(PartitionImage(1, 5, (1, 3, 2), (1, 2), 4, (3,), (2,)))
    replicas = tuple(InSyncReplica(node_id, INCARNATIONS[node_id]) for node_id in (1, 2, 3))
    answer, changes = judge_isr(ProposeIsr(PARTITION, 1, 5, 4, replicas), image)
    assert image.apply(changes).find(PARTITION) == PartitionImage(1, 6, (1, 3), (1, 3), 5), "what goes is fenced"
    assert (answer.isr, answer.replicas, answer.leader_epoch, answer.partition_epoch) == ((1, 3), (1, 3), 6, 5)


def test_a_move_is_complete_when_the_leader_that_held_it_up_dies() -> None:
    image = metadata(PartitionImage(1, 5, (2, 3, 1), (1, 2, 3), 2, (3,), (1,)))
    image = image.apply(after_leaving(image, (1,)))
    assert image.find(PARTITION) == PartitionImage(2, 6, (2, 3), (2, 3), 3)


def test_another_order_is_taken_at_once() -> None:
    image = metadata(BEFORE)
    assert image.apply(reassign(PARTITION, (2, 1), image)[1]).find(PARTITION) == PartitionImage(1, 5, (2, 1), (1, 2), 1)
    assert reassign(PARTITION, (1, 2), image) == (ErrorCode.NONE, ())


def test_a_move_is_cancelled() -> None:
    image = metadata(MOVING)
    assert image.apply(cancel(PARTITION, image)[1]).find(PARTITION) == PartitionImage(1, 6, (2, 1), (1, 2), 2), (
        "what goes is fenced"
    )
    assert cancel(PARTITION, metadata(BEFORE))[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("target", [(), (1, 1), (1, 9)])
def test_a_move_to_where_nothing_can_be_is_refused(target: tuple[int, ...]) -> None:
    assert reassign(PARTITION, target, metadata(BEFORE)) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, ())


def test_missing_partition_is_not_moved() -> None:
    unknown = TopicPartition("nothing", 0)
    assert reassign(unknown, (1,), metadata(BEFORE))[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cancel(unknown, metadata(BEFORE))[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_are_on_different_racks_while_there_are_enough() -> None:
    placement = ReplicaPlacer([Site(number, f"rack {number // 2}") for number in range(6)])
    for _ in range(12):
        assert len({node_id // 2 for node_id in placement.place(3)}) == 3
    assert len(set(placement.place(5))) == 5


def test_replicas_and_leaders_are_spread_evenly() -> None:
    placement = ReplicaPlacer([Site(number, str(number)) for number in range(4)])
    placed = [placement.place(3) for _ in range(8)]
    assert [sum(node_id in replicas for replicas in placed) for node_id in range(4)] == [6, 6, 6, 6]
    assert [sum(node_id == replicas[0] for replicas in placed) for node_id in range(4)] == [2, 2, 2, 2]


def test_a_node_is_its_own_rack_unless_its_machine_is_known() -> None:
    assert rack_of(NodeRegistration(1, 0, "", 0, ())) != rack_of(NodeRegistration(2, 0, "", 0, ()))
    assert rack_of(NodeRegistration(1, 0, "", 0, (), 0, "m")) == rack_of(NodeRegistration(2, 0, "", 0, (), 0, "m"))
