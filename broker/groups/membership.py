"""What offsets have to know of a group's members: who may commit (KIP-447), and whether there are any."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Final, TypeAlias

from eagleray.broker.groups.state import NO_TIME
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""

LogRecord: TypeAlias = tuple[bytes, bytes | None]
"""A key and a value of `__consumer_offsets`; None is a tombstone."""


class Membership(ABC):
    """A group as those see it who keep its offsets, whichever protocol its members speak.

    A group has one protocol at a time: `Shard.live` has the one `Membership` of each group that has, or has had,
    members. A group that is not there has offsets and nothing else.
    """

    kind: ClassVar[str]
    """What Kafka calls this kind of group to those who list groups."""

    @property
    @abstractmethod
    def has_members(self) -> bool:
        """Whether the group has members; then it cannot be deleted, and its offsets do not expire."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """What Kafka calls the state that the group is in."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """What the members have come together for; consumers say "consumer"."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many members there are, with those that are expected to come back with the id that they were given."""

    @property
    def empty_since_ms(self) -> int:
        """When the last member went; offsets are kept from then on as if they had been committed then."""
        return NO_TIME

    @abstractmethod
    def check_commit(
        self, generation: int, member_id: str, group_instance_id: str | None, *, is_transactional: bool
    ) -> ErrorCode:
        """Say whether a member may commit, and if not, why."""

    def may_commit_late(
        self,
        generation: int,  # noqa: ARG002 - for other protocols
        member_id: str,  # noqa: ARG002 - as above
        partitions: Iterable[TopicPartition],  # noqa: ARG002 - as above
    ) -> bool:
        """Say whether a commit that is refused with STALE_MEMBER_EPOCH may be taken for these partitions after all."""
        return False

    def commit_taken(self, member_id: str, now_ms: int) -> None:  # noqa: B027 - not every protocol minds
        """Take note that a member has committed outside of a transaction."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:  # noqa: ARG002 - for other protocols
        """Say whether a client may ask for offsets; most need not be members."""
        return ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        """Say whether offsets may be deleted at all, before it is asked for each topic whether a member reads it."""
        return ErrorCode.NONE

    @abstractmethod
    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads a topic, or may do so for all that is known."""

    @abstractmethod
    def tombstones(self) -> tuple[LogRecord, ...]:
        """The records after which the log knows nothing of the group's members."""


class GenerationMembership(Membership):
    """Members of numbered generations: a commit has to name the current one, and a member of it."""

    generation: int
    members: Collection[str]
    static_members: Mapping[str, str]
    """Which member holds each group.instance.id."""

    @property
    def size(self) -> int:
        """The members."""
        return len(self.members)

    @property
    @abstractmethod
    def is_completing_rebalance(self) -> bool:
        """Whether the members know their generation, and not yet what each of them is to consume."""

    def check_commit(
        self, generation: int, member_id: str, group_instance_id: str | None, *, is_transactional: bool
    ) -> ErrorCode:
        """Take members of the current generation, and any client without a generation while there are no members."""
        if generation < 0 and not self.members:
            # An admin, or a consumer that chose its partitions itself.
            return ErrorCode.NONE
        if generation >= 0 or member_id or group_instance_id is not None:
            error_code = self.check_member(member_id, group_instance_id)
            if error_code is not ErrorCode.NONE:
                return error_code
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional:
            # The first versions of a transactional commit name no member, and have to work as before.
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.is_completing_rebalance and not is_transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Say whether a client is a member, and not one whose place another instance has taken."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is not None and holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID


class OffsetsOnly(GenerationMembership):
    """A group that no member has ever joined: only its offsets are known."""

    kind: ClassVar = "classic"
    generation = 0
    members: Collection[str] = ()
    static_members: Mapping[str, str] = {}
    has_members = False
    is_completing_rebalance = False
    state_name = "Empty"
    protocol_type = ""

    def subscribes_to(self, topic: str) -> bool:  # noqa: ARG002 - whatever it is
        """There are no members that could read anything."""
        return False

    def tombstones(self) -> tuple[LogRecord, ...]:
        """The log has nothing but offsets."""
        return ()


NO_MEMBERS: Final = OffsetsOnly()
