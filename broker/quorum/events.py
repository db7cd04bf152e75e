"""The messages between the voters of a quorum, and what a voter reports to its node."""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.limits import Int64
from eagleray.broker.messages import Message
from eagleray.broker.replication.events import Push, PushAnswered


class RequestVote(Message, frozen=True, tag="RequestVote"):
    """A candidate asks for a vote; answered by `VoteAnswered`.

    A vote counts for the term and is kept for good. With `is_pre_vote` nothing is kept: the candidate asks whether it
    would be elected, so that one that could not be does not disturb voters that have a leader.
    """

    term: Int64
    candidate: Int64
    last_epoch: Int64
    end_offset: Int64
    is_pre_vote: bool = False


class VoteAnswered(Message, frozen=True, tag="VoteAnswered"):
    """The answer to `RequestVote`."""

    term: Int64
    """The voter's own term, which may be newer than the candidate's."""

    voter: Int64
    incarnation: Int64
    asked_term: Int64
    is_pre_vote: bool
    is_granted: bool
    is_whole: bool = True
    """Whether the voter knows what it has voted for and acknowledged before."""


QuorumMessage: TypeAlias = RequestVote | VoteAnswered | Push | PushAnswered
"""What travels between voters; a message may be lost, come late, twice and in any order."""


class SendTo(Message, frozen=True, tag=True):
    """Send a message to another voter."""

    node_id: int
    message: QuorumMessage


class Elected(Message, frozen=True, tag=True):
    """This voter leads from now on. Nothing that it says counts before an entry of its own term is committed."""

    term: int


class Deposed(Message, frozen=True, tag=True):
    """This voter no longer leads; what it proposed and was not committed may or may not be committed yet."""

    term: int


class Committed(Message, frozen=True, tag=True):
    """Everything before an offset is committed."""

    offset: int


QuorumEffect: TypeAlias = SendTo | Elected | Deposed | Committed
