"""Branches and tags as bytes, for a tagged field of a transaction log record.

A version in one byte, then msgpack. Partitions are listed once, and branches name them by their place in that list: a
job of a thousand tasks writes to the same few topics from each of them.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from eagleray.broker.checked_file import CANNOT_DECODE
from eagleray.broker.identities import TopicPartition
from eagleray.broker.transactions.branches.branching import Branch, Branching
from eagleray.protocol.codec import MalformedMessage
from eagleray.protocol.messages.transaction_log import TransactionLogValue

BRANCHING_VERSION: Final = 1


class _LoggedBranch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    producer_id: int
    is_committed: bool
    places: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]


class _LoggedBranching(msgspec.Struct, frozen=True, array_like=True, gc=False):
    tag: str | None
    committed_tag: str | None
    partitions: tuple[TopicPartition, ...]
    branches: tuple[_LoggedBranch, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_LoggedBranching)


def encode_branching(branching: Branching | None) -> bytes:
    """Give the bytes that keep branches and tags; none where there is nothing to keep."""
    if branching is None:
        return b""
    partitions = tuple(sorted(branching.partitions))
    places = {partition: place for place, partition in enumerate(partitions)}
    places_of = {
        members: tuple(sorted(places[member] for member in members))
        for members in {branch.partitions for branch in branching.branches.values()}
    }
    branches = tuple(
        _LoggedBranch(producer_id, branch.is_committed, places_of[branch.partitions])
        for producer_id, branch in branching.branches.items()
    )
    logged = _LoggedBranching(branching.tag, branching.committed_tag, partitions, branches)
    return bytes([BRANCHING_VERSION]) + _encoder.encode(logged)


def decode_branching(data: bytes) -> Branching | None:
    """Read branches and tags. Raises MalformedMessage."""
    if not data:
        return None
    if data[0] != BRANCHING_VERSION:
        raise MalformedMessage(TransactionLogValue.__name__, None, f"no branches are known in version {data[0]}")
    try:
        logged = _decoder.decode(data[1:])
        branches = {each.producer_id: _branch(each, logged.partitions) for each in logged.branches}
    except (IndexError, *CANNOT_DECODE) as error:
        raise MalformedMessage(TransactionLogValue.__name__, None, f"its branches cannot be read: {error}") from error
    return Branching(tag=logged.tag, committed_tag=logged.committed_tag, branches=branches)


def _branch(logged: _LoggedBranch, partitions: tuple[TopicPartition, ...]) -> Branch:
    return Branch(frozenset(partitions[place] for place in logged.places), logged.is_committed)
