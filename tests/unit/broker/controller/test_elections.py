"""Who leads and who is in sync when nodes go, come, lose and resign."""

import pytest

from eagleray.broker.controller.elections import after_coming, after_leaving, after_resigning, wants_preferred
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import Change
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.losses import EVERYTHING, NO_LOSS, Loss
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import PartitionImage
from tests.support.replicas import PARTITION, metadata

ALL = (1, 2, 3)
THIS, ANOTHER = Loss((PARTITION,)), Loss((TopicPartition("orders", 7),))
DOUBT = Loss((), (PARTITION,), is_everything=True)


def state_after(image: MetadataImage, changes: tuple[Change, ...]) -> PartitionImage:
    state = image.apply(changes).find(PARTITION)
    assert state is not None
    return state


def leads(leader: int, epoch: int, isr: tuple[int, ...], partition_epoch: int = 1) -> PartitionImage:
    return PartitionImage(leader, epoch, ALL, isr, partition_epoch)


@pytest.mark.parametrize(
    ("gone", "isr", "least", "expected"),
    [
        ((1,), (1, 2, 3), "2", leads(2, 6, (2, 3))),
        ((1,), (3, 1), "1", leads(3, 6, (3,))),
        ((3,), (1, 2, 3), "2", leads(1, 5, (1, 2))),
        ((1,), (1, 2), "2", leads(2, 6, (1, 2))),
        ((2,), (1, 2), "2", leads(1, 5, (1, 2), 0)),
        ((1,), (1,), "1", leads(NO_NODE, 6, (1,))),
        ((1, 2), (1, 2), "1", leads(NO_NODE, 6, (1, 2))),
        ((1, 2, 3), (1, 2, 3), "2", leads(NO_NODE, 6, (1, 2, 3))),
    ],
)
def test_others_in_sync_lead_when_nodes_go(
    gone: tuple[int, ...], isr: tuple[int, ...], least: str, expected: PartitionImage
) -> None:
    image = metadata(leads(1, 5, isr, 0), min_insync_replicas=least)
    assert state_after(image, after_leaving(image, gone)) == expected


def test_replica_outside_of_the_in_sync_set_leads_only_where_the_topic_prefers_loss() -> None:
    image = metadata(leads(1, 5, (1,), 0))
    assert state_after(image, after_leaving(image, (1,))).leader == NO_NODE
    unclean = metadata(leads(1, 5, (1,), 0), unclean_leader_election_enable="true")
    assert state_after(unclean, after_leaving(unclean, (1,))) == leads(2, 6, (2,))


def test_the_only_replica_of_a_partition_goes_on_leading_it_and_begins_a_new_epoch_when_it_is_back() -> None:
    alone = PartitionImage(1, 5, (1,), (1,))
    image = metadata(alone)
    assert after_leaving(image, (1,)) == ()
    assert state_after(image, after_coming(image, 1, EVERYTHING)) == PartitionImage(1, 6, (1,), (1,), 1)


@pytest.mark.parametrize(
    ("before", "loss", "expected"),
    [
        (leads(1, 5, ALL, 0), NO_LOSS, leads(1, 6, ALL)),
        (leads(1, 5, ALL, 0), THIS, leads(2, 6, (2, 3))),
        (leads(2, 5, ALL, 0), NO_LOSS, leads(2, 5, ALL, 0)),
        (leads(2, 5, ALL, 0), THIS, leads(2, 5, (2, 3))),
        (leads(NO_NODE, 5, (1, 2), 0), NO_LOSS, leads(1, 6, (1, 2))),
        (leads(NO_NODE, 5, (1,), 0), THIS, leads(1, 6, (1,))),
        (leads(NO_NODE, 5, (3,), 0), NO_LOSS, leads(NO_NODE, 5, (3,), 0)),
        (leads(NO_NODE, 5, (1, 3), 0), THIS, leads(NO_NODE, 5, (3,))),
        (leads(1, 5, ALL, 0), EVERYTHING, leads(2, 6, (2, 3))),
        (leads(1, 5, ALL, 0), ANOTHER, leads(1, 6, ALL)),
        (leads(1, 5, ALL, 0), DOUBT, leads(2, 6, (2, 3))),
        (leads(2, 5, ALL, 0), DOUBT, leads(2, 5, (2, 3))),
        (leads(1, 5, (1, 3), 0), DOUBT, leads(1, 6, (1, 3))),
        (leads(NO_NODE, 5, (1, 3), 0), DOUBT, leads(1, 6, (1, 3))),
        (leads(NO_NODE, 5, (1,), 0), DOUBT, leads(1, 6, (1,))),
    ],
)
def test_elections_when_a_node_comes(before: PartitionImage, loss: Loss, expected: PartitionImage) -> None:
    image = metadata(before, alive=(2,))
    assert state_after(image, after_coming(image, 1, loss)) == expected


def test_first_in_sync_leads_at_the_next_epoch_when_a_leader_has_resigned() -> None:
    image = metadata(leads(2, 5, (2, 3), 0))
    assert state_after(image, after_resigning(image, PARTITION, 5, 2)) == leads(2, 6, (2, 3))
    other = metadata(leads(2, 5, ALL, 0))
    assert state_after(other, after_resigning(other, PARTITION, 5, 2)) == leads(1, 6, ALL)
    assert after_resigning(other, PARTITION, 4, 2) == after_resigning(other, PARTITION, 5, 3) == ()


def test_the_preferred_leader_is_wanted_where_it_can_lead() -> None:
    assert wants_preferred(leads(2, 5, ALL), {1, 2})
    assert not wants_preferred(leads(1, 5, ALL), {1, 2})
    assert not wants_preferred(leads(2, 5, (2, 3)), {1, 2})
    assert not wants_preferred(leads(2, 5, ALL), {2, 3})
