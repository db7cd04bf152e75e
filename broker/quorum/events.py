"""What the members of a quorum tell each other, and their nodes."""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.messages import Message
from eagleray.broker.replication.events import Push, PushAnswered


class RequestVote(Message, frozen=True, tag="RequestVote"):
    """A candidate wants to lead; answered by `VoteAnswered`.

    A voter's vote counts for the term and is kept for good. With `is_pre_vote` nothing is kept: the candidate wants
    to know whether it would be elected, so that one that could not be does not disturb voters that have a leader.
    """

    term: int
    candidate: int
    last_epoch: int
    end_offset: int
    is_pre_vote: bool = False


class VoteAnswered(Message, frozen=True, tag="VoteAnswered"):
    """The answer to `RequestVote`."""

    term: int
    """The voter's own term, which may be newer than the candidate's."""

    voter: int
    incarnation: int
    asked_term: int
    is_pre_vote: bool
    is_granted: bool
    is_whole: bool = True
    """Whether the voter knows what it has voted for and acknowledged before."""


QuorumMessage: TypeAlias = RequestVote | VoteAnswered | Push | PushAnswered
"""What travels between members; it may be lost, come late, twice and in any order."""


class SendTo(Message, frozen=True, tag=True):
    """Tell another member something."""

    node_id: int
    message: QuorumMessage


class Elected(Message, frozen=True, tag=True):
    """This member leads from now on. Nothing that it says counts before an entry of its own term is committed."""

    term: int


class Deposed(Message, frozen=True, tag=True):
    """This member leads no longer; what it proposed and was not committed may or may not come to be."""

    term: int


class Committed(Message, frozen=True, tag=True):
    """Everything before an offset is there for good."""

    offset: int


QuorumEffect: TypeAlias = SendTo | Elected | Deposed | Committed
