"""What machines tell each other, whichever lane it takes."""

from __future__ import annotations

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition

IMPLICIT_VERSION = 2
"""From this transaction version on each transaction ends with a new epoch, and leaders add partitions themselves."""


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Small, frozen, and cheap to put on any lane."""


class Marker(Message, frozen=True):
    """The end of one producer's transaction, for some of its partitions."""

    producer: ProducerIdentity
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
