"""The offsets of groups as the log has them for good, and what may be said of them."""

from typing import TYPE_CHECKING, Any

import msgspec

from eagleray.broker.groups.events import CommitOffsets, CommitTransactionOffsets, FetchOffsets
from eagleray.broker.groups.log_records import decode_key, decode_value
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION, last_epoch_ended_by
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch
from tests.simulation.cluster.places import TRANSFORM_GROUP
from tests.simulation.committed import committed_of
from tests.simulation.schedule import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster.watch import Watch

Key = tuple[str, TopicPartition]


class Pending(msgspec.Struct, frozen=True):
    """An offset that counts when its transaction is committed."""

    producer_epoch: int
    offset: int
    position: int
    name: str


class OffsetsWatch:
    """A plain model of what the offsets log comes to, and the invariants of those who answer from it.

    Whoever commits gives each commit a name of its own, as the text beside the offset. `values` has what each partition
    was at, one after the other; what somebody was told of is never taken back.
    """

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self.values: dict[Key, list[int]] = {}
        self.pending: dict[int, dict[Key, Pending]] = {}
        self._positions: dict[Key, int] = {}
        self._named: dict[str, list[tuple[Key, int]]] = {}
        """By the name of a commit: what it has brought about, and where among the values that is."""
        self._marked: dict[tuple[int, int, bool], list[tuple[Key, int]]] = {}
        self._told: dict[Key, int] = {}

    def offset_of(self, group: str, partition: TopicPartition) -> int:
        """How far a group has come for good."""
        return self.values.get((group, partition), [0])[-1]

    # What gets into the log

    def committed(self, batch: RecordBatch) -> None:
        """A batch is in the log for good."""
        found = committed_of(batch)
        if found.commits is not None:
            self._end(found.producer_id, found.producer_epoch, commits=found.commits)
            return
        for record in batch.records():
            place = None if record.key is None else decode_key(bytes(record.key))
            assert place is not None, "nobody is a member of a group here"
            assert record.value is not None, "nobody deletes offsets here"
            stored = decode_value(bytes(record.value), record.offset)
            new = Pending(found.producer_epoch, stored.offset, record.offset, stored.metadata)
            self._named.setdefault(new.name, [])
            if found.is_transactional:
                self.pending.setdefault(found.producer_id, {})[place] = new
            else:
                self._apply(place, new)

    def _end(self, producer_id: int, producer_epoch: int, *, commits: bool) -> None:
        applied: list[tuple[Key, int]] = []
        for key, pending in self.pending.pop(producer_id, {}).items():
            if pending.producer_epoch > last_epoch_ended_by(producer_epoch, IMPLICIT_VERSION):
                raise Violation(f"the marker of {producer_id}, {producer_epoch} ends what began after it: {pending}")
            if self._watch.decided.get((producer_id, pending.producer_epoch)) is not commits:
                raise Violation(f"{pending} of producer {producer_id} is ended otherwise than it was decided")
            if commits:
                self._apply(key, pending)
                applied.append((key, len(self.values[key]) - 1))
        self._marked[producer_id, producer_epoch, commits] = applied

    def _apply(self, key: Key, new: Pending) -> None:
        if new.position < self._positions.get(key, -1):
            return
        values = self.values.setdefault(key, [-1])
        if key[0] == TRANSFORM_GROUP and new.offset < values[-1]:
            raise Violation(f"{key} goes back from {values[-1]} to {new.offset}")
        values.append(new.offset)
        self._positions[key] = new.position
        self._named[new.name].append((key, len(values) - 1))

    # What a coordinator says

    def answers_commit(self, question: CommitOffsets | CommitTransactionOffsets) -> None:
        """A commit is said to be there."""
        for each in question.offsets:
            if each.metadata not in self._named:
                raise Violation(f"{question} was answered, which the log does not have for good")
            self._tell(self._named[each.metadata])

    def answers_marker(self, producer_id: int, producer_epoch: int, *, commits: bool) -> None:
        """A marker is said to be there; that it is was looked at before."""
        self._tell(self._marked.get((producer_id, producer_epoch, commits), []))

    def _tell(self, places: list[tuple[Key, int]]) -> None:
        for key, index in places:
            self._told[key] = max(index, self._told.get(key, 0))

    def answers_fetch(self, question: FetchOffsets, reply: Any) -> None:
        """Somebody is told how far a group has come."""
        fired = self._watch.fired
        for each in reply.offsets:
            fired[f"offset told: {ErrorCode(each.error_code).name}"] += 1
            if each.error_code is not ErrorCode.NONE:
                continue
            key = question.group, each.partition
            if question.require_stable and any(key in pending for pending in self.pending.values()):
                raise Violation(f"{each} is said to be stable, and a transaction is about to change it")
            told = self._told.get(key, 0)
            values = self.values.get(key, [-1])
            if each.offset not in values[told:]:
                raise Violation(f"{key} is said to be at {each.offset}, after it was said to be at {values[told]}")
            self._told[key] = values.index(each.offset, told)
