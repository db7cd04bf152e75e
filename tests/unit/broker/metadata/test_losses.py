"""What is lost of each replica, and by two losses together."""

import itertools

import msgspec
import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.losses import EVERYTHING, NO_LOSS, Fate, Loss

A, B, C = (TopicPartition("orders", number) for number in range(3))
LOSSES = [
    NO_LOSS,
    EVERYTHING,
    *(
        Loss(lost, in_doubt, is_everything)
        for lost, in_doubt in itertools.product([(), (A,), (A, B)], [(), (A,), (B,)])
        for is_everything in (False, True)
    ),
]


@pytest.mark.parametrize(
    ("loss", "fates"),
    [
        (NO_LOSS, (Fate.KEPT, Fate.KEPT, Fate.KEPT)),
        (EVERYTHING, (Fate.LOST, Fate.LOST, Fate.LOST)),
        (Loss((A,)), (Fate.LOST, Fate.KEPT, Fate.KEPT)),
        (Loss((A,), (B,)), (Fate.LOST, Fate.IN_DOUBT, Fate.KEPT)),
        (Loss((), (B,), is_everything=True), (Fate.LOST, Fate.IN_DOUBT, Fate.LOST)),
    ],
)
def test_partition_that_is_not_named_is_kept_unless_everything_is_lost(loss, fates):
    assert tuple(map(loss.of, (A, B, C))) == fates


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("other", LOSSES)
def test_of_two_losses_the_worse_counts_for_each_replica(loss, other):
    for partition in (A, B, C):
        assert (loss | other).of(partition) is max(loss.of(partition), other.of(partition))
    assert bool(loss | other) == (bool(loss) or bool(other))


def test_loss_travels():
    loss = Loss((A,), (B,), is_everything=True)
    for codec in (msgspec.msgpack, msgspec.json):
        assert codec.decode(codec.encode(loss), type=Loss) == loss
