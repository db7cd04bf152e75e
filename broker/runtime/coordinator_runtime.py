"""What coordinators share: they decide, append and apply in one turn, and say what comes of it once it is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from eagleray.broker.runtime.coordinator_events import AppendRecords
from eagleray.protocol.errors import ErrorCode

_NONE: Final = ErrorCode.NONE
_NEVER_CHECKED: Final = -1

Key = TypeVar("Key")
"""What the records of a coordinator are about: a transactional id, a producer."""

Value = TypeVar("Value")
"""What a coordinator appends under a key."""

Said = TypeVar("Said")
"""What a coordinator says: answers, and whatever else has consequences elsewhere."""


class HeldBack(Generic[Said]):
    """What is said once the log is committed up to a position."""

    __slots__ = ("jointly", "position", "said")

    def __init__(self, position: int) -> None:
        self.position = position
        self.said: list[Said] = []
        self.jointly: list[SaidOfAll[Said]] = []


class SaidOfAll(Generic[Said]):
    """Something that rests on several partitions: it is said when the last of them is committed, and only once."""

    __slots__ = ("missing", "said")

    def __init__(self, said: Said) -> None:
        self.said = said
        self.missing = 0


class CoordinatorShard(Generic[Key, Value, Said]):
    """One partition of a coordinator's log, led at one epoch: what replaying the log gives, subclasses add.

    `records` are those of the turn at hand, which reach the log together or not at all.
    """

    __slots__ = ("checked_in_turn", "epoch", "held_back", "is_loaded", "latest", "partition", "records", "refusal")

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.is_loaded = False
        self.records: list[tuple[Key, Value]] = []
        self.latest: dict[Key, int] = {}
        """Where in `records` the latest one of a key is; a key that is not here has none in this turn."""
        self.held_back: deque[HeldBack[Said]] = deque()
        """What waits to be said, by the position that it waits for; the last of them is the end of the log."""
        self.refusal = _NONE
        self.checked_in_turn = _NEVER_CHECKED


ShardType = TypeVar("ShardType", bound=CoordinatorShard)  # type: ignore[type-arg]


class CoordinatorRuntime(Generic[ShardType, Key, Value, Said]):
    """The bookkeeping of a coordinator whose state changes when it decides, and which speaks when the log is committed.

    Owns: the shards, what each of them has to append at the end of the turn, and what it holds back until then.
    Promises: nothing that is said about a shard rests on a record that is not committed. What is said while records
    are on their way waits for the last of them, also where it only reads. A shard whose log did not take a record is
    ahead of it, and is closed: its state is thrown away, and who waited is refused with a code that asks to try again.

    Positions count the appends of all shards together and never repeat, so that a late commit of a shard that was
    closed meanwhile is not taken for one of its successor.
    """

    def __init__(
        self,
        check_append: Callable[[int, int], ErrorCode],
        refused: Callable[[Said, ErrorCode], Said | None],
    ) -> None:
        self.shards: dict[int, ShardType] = {}
        self._check_append = check_append
        """Says why a partition, at an epoch, cannot be appended to now; asked once a turn, before anything changes."""
        self._refused = refused
        """What to say in place of something that will not be said; None where that is nothing."""
        self._now: list[Said] = []
        self._written: list[ShardType] = []
        self._position = 0
        self._turn = 0
        self.say_at_once = self._now.append
        """Say what rests on no record."""

    # Partitions

    def find(self, partition: int, epoch: int) -> ShardType | None:
        """Return the shard of a partition, unless it is led at another epoch, or not at all."""
        shard = self.shards.get(partition)
        return shard if shard is not None and shard.epoch == epoch else None

    def open(self, shard: ShardType) -> None:
        """Begin with a partition, as yet without what its log holds."""
        assert shard.partition not in self.shards, f"partition {shard.partition} is open"
        self.shards[shard.partition] = shard

    def close(self, shard: ShardType, error_code: ErrorCode) -> None:
        """Throw a shard away; what it held back is refused: whether it has come to pass, another will know."""
        del self.shards[shard.partition]
        if shard in self._written:
            # It may have no record yet, where a request has failed in between.
            shard.records, shard.latest = [], {}
            self._written.remove(shard)
        for held_back in shard.held_back:
            for said in held_back.said:
                self._refuse(said, error_code)
            for joint in held_back.jointly:
                if joint.missing > 0:
                    joint.missing = 0
                    self._refuse(joint.said, error_code)
        shard.held_back.clear()

    def _refuse(self, said: Said, error_code: ErrorCode) -> None:
        refused = self._refused(said, error_code)
        if refused is not None:
            self._now.append(refused)

    # Deciding

    def refusal(self, shard: ShardType) -> ErrorCode:
        """Why nothing can be appended to the log of a shard in this turn, or NONE; asked before anything changes."""
        if shard.checked_in_turn != self._turn:
            shard.checked_in_turn = self._turn
            shard.refusal = self._check_append(shard.partition, shard.epoch)
        return shard.refusal

    def append(self, shard: ShardType, key: Key, value: Value, *, supersedes: bool = False) -> None:
        """Have a record appended at the end of the turn; the state may change at once.

        Where it supersedes the one before it of its key, and that is of the same turn, it takes its place: nothing
        rests on the earlier one that does not rest as well on this.
        """
        records = shard.records
        if not records:
            self._position += 1
            shard.held_back.append(HeldBack(self._position))
            self._written.append(shard)
        elif supersedes and key in shard.latest:
            records[shard.latest[key]] = key, value
            return
        shard.latest[key] = len(records)
        records.append((key, value))

    def say(self, shard: ShardType, said: Said) -> None:
        """Say something that rests on all that was appended to a shard so far, as soon as that is committed."""
        if shard.held_back:
            shard.held_back[-1].said.append(said)
        else:
            self._now.append(said)

    def say_of_all(self, shards: Iterable[ShardType], said: Said) -> None:
        """Say something that rests on all that was appended to several shards so far."""
        joint = SaidOfAll(said)
        for shard in shards:
            if shard.held_back:
                shard.held_back[-1].jointly.append(joint)
                joint.missing += 1
        if not joint.missing:
            self._now.append(said)

    def unsay(self, request_id: int) -> None:
        """Take back what was said to a request in this turn: it has failed, and is answered with that alone."""
        self._now[:] = [said for said in self._now if getattr(said, "request_id", None) != request_id]

    # The turn, and what the log says of it

    def end_turn(self) -> tuple[list[Said], list[AppendRecords]]:
        """Return what is to be said now, and what is to be appended to each shard's log."""
        self._turn += 1
        said = self._now.copy()
        self._now.clear()
        if not self._written:
            return said, []
        appends = []
        for shard in self._written:
            appends.append(AppendRecords(shard.partition, shard.epoch, shard.held_back[-1].position, shard.records))
            shard.records, shard.latest = [], {}
        self._written.clear()
        return said, appends

    def committed(self, shard: ShardType, position: int) -> None:
        """Say what rests on no more of a shard's log than is committed now."""
        held_back = shard.held_back
        while held_back and held_back[0].position <= position:
            due = held_back.popleft()
            self._now += due.said
            for joint in due.jointly:
                joint.missing -= 1
                if not joint.missing:
                    self._now.append(joint.said)
