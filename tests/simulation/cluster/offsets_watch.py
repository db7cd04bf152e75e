"""The offsets of groups as the log has them for good, and what may be said of them."""

from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec

from eagleray.broker.groups.events import CommitOffsets, CommittedOffset, CommitTransactionOffsets, FetchOffsets
from eagleray.broker.groups.log_records import decode_key, decode_value
from eagleray.broker.identities import TopicPartition
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


class LogEnd(msgspec.Struct, frozen=True):
    """Where the offsets log ends as a node is asked something: what it answers is of then, or of later."""

    committed: int
    appended: int
    leader_epoch: int
    """Of the leader that has appended so far; -1 at a node that does not lead."""

    def seen_at(self, coordinator_epoch: int) -> int:
        """How much of the log a coordinator has seen, when it decides on its answer.

        What is appended and not replicated may be undone, but not as long as the same leader goes on: then it is
        there for good before anything is answered.
        """
        return max(self.committed, self.appended) if self.leader_epoch == coordinator_epoch else self.committed


class State(msgspec.Struct, frozen=True):
    """What the log comes to for a partition of a group, from an offset of the log on."""

    log_offset: int
    offset: int
    is_pending: bool


_BEGINNING = State(0, -1, is_pending=False)


class OffsetsWatch:
    """A plain model of what the offsets log comes to, and the invariants of those who answer from it.

    The client gives each commit a name of its own, as the text beside the offset. `values` has what each partition
    was at, one after the other; what a client was told of is never taken back. An answer waits until what it rests on
    is replicated, and the log goes on meanwhile. So a group may be said to be where it was at any one moment from the
    question to the answer, and nowhere else.
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
        self._states: dict[Key, list[State]] = {}

    def offset_of(self, group: str, partition: TopicPartition, *, default: int = 0) -> int:
        """How far a group has come for good."""
        return self.values.get((group, partition), [default])[-1]

    def has_applied(self, name: str) -> bool:
        """Whether a commit of this name has ever taken a group anywhere."""
        return bool(self._named.get(name))

    # What gets into the log

    def committed(self, batch: RecordBatch) -> None:
        """A batch is in the log for good."""
        found = committed_of(batch)
        if found.commits is not None:
            ended = self._end(found.producer_id, found.producer_epoch, commits=found.commits)
            self._note(ended, found.next_offset)
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
            self._note([place], record.offset + 1)

    def _end(self, producer_id: int, producer_epoch: int, *, commits: bool) -> list[Key]:
        applied: list[tuple[Key, int]] = []
        ended = self.pending.pop(producer_id, {})
        for key, pending in ended.items():
            last_epoch = self._watch.last_epoch_ended(producer_id, producer_epoch)
            if pending.producer_epoch > last_epoch:
                raise Violation(f"the marker of {producer_id}, {producer_epoch} ends what began after it: {pending}")
            # In version 1 a coordinator that aborts for its producer does so at another epoch.
            decided_epoch = last_epoch if producer_id in self._watch.version_1 else pending.producer_epoch
            if self._watch.decided.get((producer_id, decided_epoch)) is not commits:
                raise Violation(f"{pending} of producer {producer_id} is ended otherwise than it was decided")
            if commits:
                self._apply(key, pending)
                applied.append((key, len(self.values[key]) - 1))
        self._marked[producer_id, producer_epoch, commits] = applied
        return [*ended]

    def _apply(self, key: Key, new: Pending) -> None:
        if new.position < self._positions.get(key, -1):
            return
        values = self.values.setdefault(key, [-1])
        if key[0] == TRANSFORM_GROUP and new.offset < values[-1]:
            raise Violation(f"{key} goes back from {values[-1]} to {new.offset}")
        values.append(new.offset)
        self._positions[key] = new.position
        self._named[new.name].append((key, len(values) - 1))

    def _note(self, keys: list[Key], log_offset: int) -> None:
        """Remember what the log comes to up to an offset, where that has changed."""
        for key in keys:
            is_pending = any(key in pending for pending in self.pending.values())
            state = State(log_offset, self.offset_of(*key, default=-1), is_pending)
            self._states.setdefault(key, [_BEGINNING]).append(state)

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

    def answers_fetch(self, question: FetchOffsets, reply: Any, seen_offset: int) -> None:
        """A client is told how far a group has come, by a coordinator that has seen the log up to an offset."""
        self._check_moment(question, reply.offsets, seen_offset)
        fired = self._watch.fired
        for each in reply.offsets:
            fired[f"offset told: {ErrorCode(each.error_code).name}"] += 1
            if each.error_code is not ErrorCode.NONE:
                continue
            key = question.group, each.partition
            told = self._told.get(key, 0)
            values = self.values.get(key, [-1])
            if each.offset not in values[told:]:
                raise Violation(f"{key} is said to be at {each.offset}, after it was said to be at {values[told]}")
            self._told[key] = values.index(each.offset, told)

    def _check_moment(self, question: FetchOffsets, answers: tuple[CommittedOffset, ...], seen_offset: int) -> None:
        """There is a moment at which all that is answered was so."""
        states = [self._since(seen_offset, (question.group, each.partition)) for each in answers]
        moments = {seen_offset, *(state.log_offset for each in states for state in each[1:])}
        for moment in moments:
            at_moment = [next(state for state in reversed(each) if state.log_offset <= moment) for each in states]
            if all(map(_is_so, answers, at_moment, repeat(question.require_stable))):
                return
        raise Violation(f"{question} is answered by {answers}, which was not so at any moment: {states}")

    def _since(self, log_offset: int, key: Key) -> list[State]:
        """What the log comes to up to an offset of it, and what it has come to since."""
        states = self._states.get(key, [_BEGINNING])
        later = [state for state in states if state.log_offset > log_offset]
        return [states[-1 - len(later)], *later]


def _is_so(answer: CommittedOffset, state: State, require_stable: bool) -> bool:
    """Whether this is what is to be answered of a partition."""
    if require_stable and state.is_pending:
        return answer.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    return answer.error_code is ErrorCode.NONE and answer.offset == state.offset
