"""What machines tell each other, whichever lane it takes."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition

IMPLICIT_VERSION = 2
"""From this transaction version on each transaction ends with a new epoch, and leaders add partitions themselves."""


def last_epoch_ended_by(marker_epoch: int, transaction_version: int) -> int:
    """The last epoch of a producer whose transaction a marker ends.

    From version 2 on a marker has the epoch that comes after its transaction, in which the next may have begun.
    """
    return marker_epoch - 1 if transaction_version >= IMPLICIT_VERSION else marker_epoch


_Reply_co = TypeVar("_Reply_co", covariant=True)


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Small, frozen, and cheap to put on any lane."""


class RequestOf(Message, Generic[_Reply_co], frozen=True):
    """A question that one node asks of another, or of itself; the parameter is the answer that belongs to it.

    So a type checker knows at each `ask` what the answer may be.
    """

    request_id: int
    """What the answer is recognised by; whichever lane the question takes gives it."""


class Marker(Message, frozen=True):
    """The end of one producer's transaction, for some of its partitions."""

    producer: ProducerIdentity
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
