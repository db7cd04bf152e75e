"""A group coordinator in a world that loses, delays and restarts, and a model that says what has to come of it.

The model knows nothing of the coordinator's tables. It looks at what is appended to the log, in which order, and says
from that alone what everybody has to be told: what is true of the log as it was when somebody asked. It may be heard
only when the log up to there is committed. The log itself is a real one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import chain, count

import msgspec

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.events import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    Event,
    FetchOffsets,
    OffsetsCommitted,
    OffsetsFetched,
    OffsetsOfTopicDeleted,
    Reply,
    Request,
)
from eagleray.broker.groups.log_records import decode_key, decode_value
from eagleray.broker.groups.log_writer import LogBatch
from eagleray.broker.groups.state import Group, OffsetsState, StoredOffset
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import MarkersAnswered, VerifyTransaction, WriteMarkers
from eagleray.broker.runtime.coordinator_events import AppendFailed, AppendRecords, Committed, PartitionLoaded
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import GroupDriver
from tests.support.leading import verified

RETENTION_MS = 60_000
GROUPS = ("billing", "shipping")


class Written(msgspec.Struct, frozen=True):
    """One record that is in the log, committed or not."""

    serial: int
    group: str
    partition: TopicPartition
    offset: int | None
    """None for a tombstone."""
    committed_ms: int
    producer_id: int | None


class Decided(msgspec.Struct, frozen=True):
    """One marker that is in the log."""

    serial: int
    producer_id: int
    commit: bool


class LogModel:
    """What is in the log, and what that means."""

    def __init__(self, entries: Iterable[Written | Decided] = ()) -> None:
        self.by_place: defaultdict[tuple[str, TopicPartition], list[Written]] = defaultdict(list)
        self.markers: defaultdict[int, list[Decided]] = defaultdict(list)
        self.offsets: set[int | None] = set()
        self.add(entries)

    def add(self, entries: Iterable[Written | Decided]) -> None:
        """Note what has got into the log behind everything else."""
        for entry in entries:
            if isinstance(entry, Decided):
                self.markers[entry.producer_id].append(entry)
            else:
                self.by_place[entry.group, entry.partition].append(entry)
                self.offsets.add(entry.offset)

    def __iter__(self) -> Iterator[Written | Decided]:
        everything = [*chain(*self.by_place.values()), *chain(*self.markers.values())]
        return iter(sorted(everything, key=lambda entry: entry.serial))

    def alive(self, group: str, partition: TopicPartition) -> list[Written]:
        """The offsets behind the last tombstone."""
        mine = self.by_place.get((group, partition), [])
        last_tombstone = max((entry.serial for entry in mine if entry.offset is None), default=-1)
        return [entry for entry in mine if entry.serial > last_tombstone]

    def fate(self, entry: Written) -> bool | None:
        """True for one that counts, False for one that does not, None for one that is in doubt."""
        if entry.producer_id is None:
            return True
        return next((marker.commit for marker in self.markers[entry.producer_id] if marker.serial > entry.serial), None)

    def winner(self, group: str, partition: TopicPartition) -> Written | None:
        """The offset that counts: the last to get into the log of those that are not in doubt."""
        counting = [entry for entry in self.alive(group, partition) if self.fate(entry)]
        return max(counting, key=lambda entry: entry.serial) if counting else None

    def is_pending(self, group: str, partition: TopicPartition) -> bool:
        return any(self.fate(entry) is None for entry in self.alive(group, partition))

    def exists(self, group: str) -> bool:
        return any(
            self.winner(group, partition) is not None or self.is_pending(group, partition)
            for partition in self.partitions(group)
        )

    def partitions(self, group: str) -> set[TopicPartition]:
        return {partition for name, partition in self.by_place if name == group}


class Uncommitted(msgspec.Struct, frozen=True):
    """An append that only this coordinator's log has, and what the log was before it."""

    append: AppendRecords
    before: LogModel


class GroupWorld(GroupDriver):
    """Drives a coordinator of one partition and checks every single effect."""

    def __init__(self) -> None:
        self.model = LogModel()
        """All that is appended, committed or not."""
        self.length = self.committed_length = 0
        """How many appends there were, and how many of them are committed."""
        self.is_led = True
        self.fails_next = self.is_lost = False
        self.unwritten: deque[Uncommitted] = deque()
        """Appended, and not replicated."""
        self.undelivered: list[AppendRecords] = []
        """Replicated, and the coordinator has not been told."""
        self.stale: list[Event] = []
        """What is said to a coordinator that is no more, or does not lead any more."""
        self.confirmed: dict[int, int] = {}
        """By producer, the epoch for which a coordinator has said yes since the last marker was asked for."""
        self.waiting: dict[int, tuple[Request, int]] = {}
        """By its id, a request, and how many appends there were when it had come."""
        self.expected: dict[int, dict[TopicPartition, tuple[bool, int]]] = {}
        """By the id of a question, what it has to be answered: whether the offset is unstable, and the offset."""
        self.deleted_topics: dict[str, int] = {}
        self.cause: Event | None = None
        self._serials = count()
        self._last_serial = -1
        super().__init__(
            GroupConfig(
                offsets_topic_num_partitions=1,
                offsets_retention_minutes=1,
                offsets_retention_check_interval_ms=1000,
            )
        )

    # The coordinator's incarnation

    def crash(self, kept: int) -> None:
        """The process dies when some of what it appended is replicated; clients get no answers."""
        self._abandon(kept)
        self.waiting.clear()
        self.expected.clear()
        self.restart()
        self.check_quiet()

    def resign(self, kept: int) -> None:
        """Of what was on its way, the next leader has some."""
        self._abandon(kept)
        super().resign()
        self.is_led = False
        assert not self.waiting, "not everybody was told"

    def lead_again(self) -> None:
        self.epoch += 1
        self.is_led = True
        self.lead()
        self.check_quiet()

    def _abandon(self, kept: int) -> None:
        for _ in range(min(kept, len(self.unwritten))):
            self.replicate()
        self.stale += [verified(question) for question in self.questions]
        appends = [*self.undelivered, *(each.append for each in self.unwritten)]
        self.stale += [AppendFailed(0, self.epoch), *(Committed(0, self.epoch, append.position) for append in appends)]
        if self.unwritten:
            self.model = self.unwritten[0].before
            self.take_back(self.unwritten[0].append)
        self.length = self.committed_length
        self.unwritten.clear()
        self.undelivered.clear()
        self.questions.clear()
        self.confirmed.clear()
        self.is_lost = self.fails_next = False

    # Telling it something

    def ask(self, kind: type, *fields: object) -> None:
        request = kind(self.next_request_id(), *fields)
        if isinstance(request, WriteMarkers):
            for marker in request.markers:
                self.confirmed.pop(marker.producer.producer_id, None)
        self.waiting[request.request_id] = request, self.length
        self.send(request)

    def fetch_offsets(self, group: str, *, require_stable: bool) -> None:
        """Ask for all that a group has; whatever happens until the answer comes, it is about the log as it is now."""
        self.ask(FetchOffsets, group, tuple(sorted(self.model.partitions(group))), require_stable)

    def send(self, *events: Event) -> list[object]:
        (self.cause,) = events
        if isinstance(self.cause, FetchOffsets) and self.is_led and not self.is_lost:
            self.expected[self.cause.request_id] = self._expected(self.cause)
        effects = self.coordinator.handle_all(events, self.now_ms)
        due_ms = self.due_ms if isinstance(self.cause, Tick) else self.now_ms
        assert not effects or due_ms <= self.now_ms, "what time makes necessary was said to be due"
        appended = False
        for effect in effects:
            if isinstance(effect, AppendRecords):
                self._take_append(effect)
                appended = True
            elif isinstance(effect, VerifyTransaction):
                self.questions.append(effect)
            else:
                self._take_reply(effect)
        for request_id, (request, _) in self.waiting.items():
            # What is resolved in this turn rests on all that this turn has appended.
            if request is self.cause:
                self.waiting[request_id] = request, self.length
        if appended and self.fails_next:
            self._fail()
        return effects

    def tick(self, after_ms: int = 0) -> list[object]:
        self.now_ms += after_ms
        self.due_ms = self.coordinator.next_due_ms
        return self.send(Tick())

    # What it appends

    def _take_append(self, append: AppendRecords) -> None:
        assert append.coordinator_epoch == self.epoch
        assert self.is_led
        assert not self.is_lost
        assert self.refusal is ErrorCode.NONE, "something changes that the log refuses"
        before = LogModel(self.model)
        entries = []
        for _, entry in append.records:
            self._last_serial = next(self._serials)
            if isinstance(entry, LogBatch) and entry.producer is not None:
                assert self._is_confirmed(entry), "a transaction that nobody has confirmed gets into the log"
            entries += _entries_of(self._last_serial, entry)
        if isinstance(self.cause, Tick | OffsetsOfTopicDeleted | PartitionLoaded):
            self._check_tombstones(entries)
        self.write(append)
        self.model.add(entries)
        self.length += 1
        self.unwritten.append(Uncommitted(append, before))

    def _is_confirmed(self, batch: LogBatch) -> bool:
        producer = batch.producer
        if self.confirmed.get(producer.producer_id) == producer.epoch:
            return True
        entry = self.logs[0].producers.get(producer.producer_id)
        return entry is not None and entry.epoch == producer.epoch and entry.open_since_offset >= 0

    def _check_tombstones(self, entries: list[Written | Decided]) -> None:
        """Nobody asked for these: each has to be about something that is too old, or whose topic is gone."""
        for entry in entries:
            assert isinstance(entry, Written)
            assert entry.offset is None
            group, partition = entry.group, entry.partition
            winner = self.model.winner(group, partition)
            deleted_at = self.deleted_topics.get(partition.topic, -1)
            is_of_deleted = all(each.serial < deleted_at for each in self.model.alive(group, partition))
            is_expired = (
                winner is not None
                and winner.committed_ms <= self.now_ms - RETENTION_MS
                and not self.model.is_pending(group, partition)
            )
            assert is_of_deleted or is_expired, f"{group} loses {partition}"

    # What it says

    def _take_reply(self, reply: Reply) -> None:
        request, length = self.waiting.pop(reply.request_id)
        expected = self.expected.pop(reply.request_id, None)
        if isinstance(reply, MarkersAnswered):
            assert isinstance(request, WriteMarkers)
            assert len(reply.error_codes) == len(request.markers)
            is_refused = any(reply.error_codes)
        else:
            is_refused = reply.error_code is not ErrorCode.NONE
        if request is self.cause:
            assert is_refused or self.length == self.committed_length, "an answer rests on what is not committed"
        else:
            assert is_refused or length <= self.committed_length, "an answer rests on what is not committed"
        if is_refused:
            if getattr(reply, "error_code", None) is ErrorCode.GROUP_ID_NOT_FOUND and request is self.cause:
                assert not self.model.exists(request.group)
        elif isinstance(reply, OffsetsFetched):
            self._check_fetched(reply, expected)
        elif isinstance(request, CommitOffsets | CommitTransactionOffsets):
            assert isinstance(reply, OffsetsCommitted)
            # Every offset of a test is a number of its own, so it can be found.
            assert {offset.offset for offset in request.offsets} <= self.model.offsets, "answered, and not in the log"
        elif isinstance(request, WriteMarkers):
            for marker in request.markers:
                logged = {decided.commit for decided in self.model.markers[marker.producer.producer_id]}
                assert marker.commit in logged, "answered, and not in the log"

    def _expected(self, request: FetchOffsets) -> dict[TopicPartition, tuple[bool, int]]:
        found = {}
        for partition in request.partitions or ():
            is_unstable = request.require_stable and self.model.is_pending(request.group, partition)
            winner = self.model.winner(request.group, partition)
            found[partition] = is_unstable, -1 if winner is None or is_unstable else winner.offset
        return found

    def _check_fetched(self, reply: OffsetsFetched, expected: dict[TopicPartition, tuple[bool, int]] | None) -> None:
        assert expected is not None
        told = {
            found.partition: (found.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT, found.offset)
            for found in reply.offsets
        }
        assert told == expected, "another log than that at the time of the question"

    # The log

    def replicate(self) -> None:
        """Let the oldest append be replicated."""
        append = self.unwritten.popleft().append
        self.commit_log(append)
        self.committed_length += 1
        self.undelivered.append(append)

    def deliver(self, place: int) -> None:
        """Tell the coordinator how far the log is committed, perhaps late and out of order."""
        append = self.undelivered.pop(place % len(self.undelivered))
        committed = Committed(0, append.coordinator_epoch, append.position)
        self.send(committed)
        self.stale.append(committed)

    def _fail(self) -> None:
        """The log has not taken the append of the turn, and the coordinator hears of it before anything else."""
        lost = self.unwritten.pop()
        self.take_back(lost.append)
        self.model, self.length = lost.before, self.length - 1
        self.fails_next, self.is_lost = False, True
        self.confirmed.clear()
        self.questions.clear()
        self.send(AppendFailed(0, self.epoch))
        assert not self.waiting, "not everybody was told"

    def load_again(self) -> None:
        """Load the partition whose log did not take an append, once all that it has is replicated."""
        if self.is_lost:
            while self.unwritten:
                self.replicate()
            self.is_lost = False
            self.fails_next = False
            self.send(PartitionLoaded(0, self.epoch, self.load()))

    def answer(self, place: int, error_code: ErrorCode) -> None:
        self.questions.rotate(-(place % len(self.questions)))
        question = self.questions.popleft()
        if error_code is ErrorCode.NONE:
            self.confirmed[question.producer.producer_id] = question.producer.epoch
        self.send(verified(question, error_code))

    def delete_topic(self, topic: str) -> None:
        self.deleted_topics[topic] = self._last_serial + 1
        self.send(OffsetsOfTopicDeleted((topic,)))

    def settle(self) -> None:
        self.refusal, self.fails_next = ErrorCode.NONE, False
        self.load_again()
        while self.questions or self.unwritten or self.undelivered:
            if self.questions:
                self.answer(0, ErrorCode.NONE)
            elif self.unwritten:
                self.replicate()
            else:
                self.deliver(0)

    # What everybody has to be told

    @property
    def is_quiet(self) -> bool:
        return self.is_led and not self.is_lost and not self.unwritten and not self.undelivered

    def check_quiet(self) -> None:
        """Who has nothing under way answers at once, exactly what the log says, and knows nothing else."""
        for group in GROUPS:
            for require_stable in (False, True):
                self.fetch_offsets(group, require_stable=require_stable)
        state = self.coordinator._context.shards.by_partition[0].state
        assert state.groups == {name: each for name, each in self._logged(state).items() if name in state.groups}
        assert state.groups.keys() == {group for group in GROUPS if self.model.exists(group)}

    def _logged(self, state: OffsetsState) -> dict[str, Group]:
        """What the log alone comes to, but for positions, which live offsets have from a counter."""
        loaded = self.load().groups
        for name, group in loaded.items():
            if name in state.groups:
                known = state.groups[name]
                loaded[name] = Group(
                    _at_positions(group.offsets, known.offsets),
                    {
                        producer_id: _at_positions(offsets, known.pending.get(producer_id, {}))
                        for producer_id, offsets in group.pending.items()
                    },
                )
        return loaded

    def see_everything_end(self) -> None:
        """Nobody waits for ever, and what is decided everywhere leaves nothing in doubt."""
        if not self.is_led:
            self.lead_again()
        self.settle()
        assert not self.waiting, "somebody waits for ever"
        self.check_quiet()
        for group in GROUPS:
            self.ask(DeleteGroup, group)
        self.settle()
        self.check_quiet()
        assert not any(self.model.winner(group, found) for group in GROUPS for found in self.model.partitions(group))


def _at_positions(
    offsets: dict[TopicPartition, StoredOffset], known: dict[TopicPartition, StoredOffset]
) -> dict[TopicPartition, StoredOffset]:
    return {
        partition: msgspec.structs.replace(offset, position=known[partition].position) if partition in known else offset
        for partition, offset in offsets.items()
    }


def _entries_of(serial: int, entry: LogBatch | Marker) -> list[Written | Decided]:
    if isinstance(entry, Marker):
        return [Decided(serial, entry.producer.producer_id, entry.commit)]
    entries = []
    for key, value in entry.records:
        group, partition = decode_key(key)
        stored = None if value is None else decode_value(value, 0)
        offset, committed_ms = (None, -1) if stored is None else (stored.offset, stored.committed_ms)
        producer_id = None if entry.producer is None else entry.producer.producer_id
        entries.append(Written(serial, group, partition, offset, committed_ms, producer_id))
    return entries
