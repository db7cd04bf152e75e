"""The seam between offsets and members: what a protocol by which groups have members brings to the coordinator.

Each protocol has its own records in `__consumer_offsets`, its own requests and its own live groups. The offsets see all
of them as `Membership`s, and the log sees nothing but records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from eagleray.broker.groups.context import GroupContext
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import MembersState, OffsetsState
from eagleray.protocol.errors import ErrorCode

Handlers: TypeAlias = dict[type, Callable[[Any, int], None]]
"""By the type of an event, the method that takes it and the time."""


class GroupProtocol(ABC):
    """One protocol by which groups have members.

    Owns: the entries of its groups in the `live` of each shard. A change that is to outlive the process goes to the log
    by `GroupContext.log_members`, which applies the records to the `MembersState` of the shard at once, just as
    replaying does. Whether the log takes anything is asked before, by `GroupContext.refusal`.

    A group without members may change to another protocol, which then has what the log says of the group deleted by
    `GroupContext.log_deletion`, and puts its own `Membership` into `live`.
    """

    record_types: ClassVar[frozenset[int]]
    """The types of the keys under which it keeps something in the log."""

    def __init__(self, context: GroupContext) -> None:
        self.context = context

    @abstractmethod
    def new_state(self) -> MembersState:
        """Make what its records in an empty log come to."""

    @abstractmethod
    def handlers(self) -> Handlers:
        """Say which events it takes."""

    @abstractmethod
    def loaded(self, shard: Shard, now_ms: int) -> None:
        """Make the live groups of what a shard's log has come to."""

    @abstractmethod
    def closed(self, shard: Shard, error_code: ErrorCode, now_ms: int) -> None:
        """Tell all clients that wait for something else than the log to try again, and forget the live groups."""

    @property
    @abstractmethod
    def next_due_ms(self) -> int:
        """When something is due; `tick` is to be called by then."""

    @abstractmethod
    def tick(self, now_ms: int) -> None:
        """Do what is due by now."""

    def register(self, state: OffsetsState) -> None:
        """See to it that a state takes the records of this protocol."""
        mine = self.new_state()
        for record_type in self.record_types:
            state.members.setdefault(record_type, mine)
