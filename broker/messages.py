"""What machines tell each other, whichever lane it takes."""

from __future__ import annotations

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition

IMPLICIT_VERSION = 2
"""From this transaction version on each transaction ends with a new epoch, and leaders add partitions themselves."""


def last_epoch_ended_by(marker_epoch: int, transaction_version: int) -> int:
    """The last epoch of a producer whose transaction a marker ends.

    From version 2 on a marker has the epoch that comes after its transaction, in which the next may have begun.
    """
    return marker_epoch - 1 if transaction_version >= IMPLICIT_VERSION else marker_epoch


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Small, frozen, and cheap to put on any lane."""


class Marker(Message, frozen=True):
    """The end of one producer's transaction, for some of its partitions."""

    producer: ProducerIdentity
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
