"""What the controller says to proposals of in-sync sets."""

import pytest

from eagleray.broker.controller.isr_changes import judge_isr
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import InSyncReplica, ProposeIsr
from eagleray.protocol.errors import ErrorCode
from tests.support.replicas import INCARNATIONS, PARTITION, metadata

STATE = PartitionImage(1, 5, (1, 2, 3), (1, 2), 8)


def proposal(
    *isr: int, leader: int = 1, epoch: int = 5, partition_epoch: int = 8, incarnations: dict[int, int] = INCARNATIONS
) -> ProposeIsr:
    replicas = tuple(InSyncReplica(node_id, incarnations.get(node_id, -1)) for node_id in isr)
    return ProposeIsr(PARTITION, leader, epoch, partition_epoch, replicas)


@pytest.mark.parametrize("isr", [(1, 2, 3), (1, 3)])
def test_a_good_proposal_is_logged_and_answered_with_the_state_that_it_leads_to(isr: tuple[int, ...]) -> None:
    image = metadata(STATE)
    answer, changes = judge_isr(proposal(*isr), image)
    after = image.apply(changes).find(PARTITION)
    assert after == PartitionImage(1, 5, (1, 2, 3), isr, 9)
    assert (answer.error_code, answer.leader_epoch, answer.partition_epoch, answer.isr) == (ErrorCode.NONE, 5, 9, isr)


@pytest.mark.parametrize(
    ("asked", "error_code"),
    [
        (proposal(1, 2, 3, epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(1, 2, 3, leader=2), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(1, 2, 3, partition_epoch=7), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(2), ErrorCode.INVALID_REQUEST),
        (proposal(1, 2, 4), ErrorCode.INVALID_REQUEST),
        (proposal(1, 2, 2), ErrorCode.INVALID_REQUEST),
        (proposal(1), ErrorCode.INVALID_REQUEST),
        (proposal(1, 2, 3, incarnations={3: 32}), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_bad_proposal_changes_nothing_and_is_answered_with_the_state(
    asked: ProposeIsr, error_code: ErrorCode
) -> None:
    answer, changes = judge_isr(asked, metadata(STATE, min_insync_replicas="2"))
    assert (answer.error_code, changes) == (error_code, ())
    assert (answer.leader_epoch, answer.partition_epoch, answer.isr, answer.replicas) == (5, 8, (1, 2), (1, 2, 3))
    assert answer.proposed_at_epoch == asked.partition_epoch


def test_replica_has_to_be_registered_to_join_and_not_to_stay() -> None:
    image = metadata(STATE, alive=(1,))
    assert judge_isr(proposal(1, 2, 3), image)[0].error_code is ErrorCode.INELIGIBLE_REPLICA
    image = metadata(PartitionImage(1, 5, (1, 2, 3), (1, 2), 8), alive=(1, 3))
    assert judge_isr(proposal(1, 2, 3, incarnations={1: 11, 3: 33}), image)[0].error_code is ErrorCode.NONE


def test_same_in_sync_set_is_no_change_and_missing_partition_is_unknown() -> None:
    answer, changes = judge_isr(proposal(1, 2), metadata(STATE))
    assert (answer.error_code, changes) == (ErrorCode.NONE, ())
    unknown = ProposeIsr(TopicPartition("nothing", 0), 1, 5, 8, ())
    assert judge_isr(unknown, metadata(STATE))[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
