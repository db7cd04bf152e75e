"""The base classes of the messages between nodes, the same on every lane, and the transaction marker."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.limits import Int8, Int32, Int64, Text

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
    """A request to another node, or to a role of the same node; its parameter is the type of the reply.

    So a type checker knows at each `ask` what the reply may be.
    """

    request_id: Int64
    """By which the reply is matched; the lane that carries the request assigns it."""


class Marker(Message, frozen=True):
    """The end of one producer's transaction, for some of its partitions."""

    producer: ProducerIdentity
    commit: bool
    coordinator_epoch: Int32
    transaction_version: Int8
    partitions: tuple[TopicPartition, ...]
    decision: Int64 = 0
    """The coordinator's number of the decision, in version 1: with its epoch, what tells a late marker from the due.

    Zero where that is not known: admins end a hanging transaction in this way.
    """

    transactional_id: Text = ""
    """Whose decision that is, so that a leader which does not know of it can ask; empty where there is no number."""

    hanging_since: Int64 = -1
    """Where the transaction begins that an admin ends because no coordinator knows it; no other is ended. Else -1."""
