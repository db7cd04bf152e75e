"""Which acknowledged records a node may have lost between two of its incarnations."""

from __future__ import annotations

import enum
from functools import cached_property
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Message


class Fate(enum.IntEnum):
    """What has become of a replica between two incarnations of its node, from the best to the worst."""

    KEPT = 0
    IN_DOUBT = 1
    """It is all there as far as its node can tell. But the node goes by a disk that has just failed, or by what the
    disk said before the machine booted. A replica in sync that stayed up has it for sure."""

    LOST = 2


class Loss(Message, frozen=True, dict=True, gc=True):
    """What a node may have lost, partition by partition."""

    lost: tuple[TopicPartition, ...] = ()
    in_doubt: tuple[TopicPartition, ...] = ()
    is_everything: bool = False
    """Whether the partitions that are not named are lost as well; otherwise they are kept."""

    def __bool__(self) -> bool:
        return self.is_everything or bool(self.lost or self.in_doubt)

    def of(self, partition: TopicPartition) -> Fate:
        """Return what has become of one replica."""
        return self._fates.get(partition, Fate.LOST if self.is_everything else Fate.KEPT)

    def __or__(self, other: Loss) -> Loss:
        named = sorted({*self._fates, *other._fates})
        fates = {partition: max(self.of(partition), other.of(partition)) for partition in named}
        is_everything = self.is_everything or other.is_everything
        lost = () if is_everything else _with_fate(fates, Fate.LOST)
        return Loss(lost, _with_fate(fates, Fate.IN_DOUBT), is_everything)

    @cached_property
    def _fates(self) -> dict[TopicPartition, Fate]:
        return dict.fromkeys(self.in_doubt, Fate.IN_DOUBT) | dict.fromkeys(self.lost, Fate.LOST)


def _with_fate(fates: dict[TopicPartition, Fate], wanted: Fate) -> tuple[TopicPartition, ...]:
    return tuple(partition for partition, fate in fates.items() if fate is wanted)


NO_LOSS: Final = Loss()
EVERYTHING: Final = Loss(is_everything=True)
