"""A group coordinator in a world that loses, delays and restarts, and a model that says what has to come of it.

The model knows nothing of the coordinator's tables. It looks at what has got into the log, in which order, and says
from that alone what everybody has to be told. The log itself is a real one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import chain, count

import msgspec

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.coordinator import GroupCoordinator
from eagleray.broker.groups.events import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    Event,
    FetchOffsets,
    LogMarkers,
    LogOffsets,
    MarkersLogged,
    OffsetsAssigned,
    OffsetsCommitted,
    OffsetsFetched,
    OffsetsLoaded,
    OffsetsLogged,
    OffsetsLost,
    OffsetsOfTopicDeleted,
    OffsetsResigned,
    Reply,
    Request,
)
from eagleray.broker.groups.log_records import decode_key, decode_value
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import MarkersAnswered, Tick, VerifyTransaction, WriteMarkers
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS
from tests.support.groups import GroupLog, answer_to, new_ids
from tests.support.simulated_disk import SimulatedDisk

RETENTION_MS = 60_000
GROUPS = ("billing", "shipping")


class Written(msgspec.Struct, frozen=True):
    """One record that is in the log, or would be if all that is under way got there."""

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


class GroupWorld:
    """Drives a coordinator of one partition and checks every single effect."""

    def __init__(self) -> None:
        self.config = GroupConfig(
            offsets_topic_num_partitions=1,
            offsets_retention_minutes=1,
            offsets_retention_check_interval_ms=1000,
            producer_id_expiration_ms=10 * RETENTION_MS,
        )
        self.disk = SimulatedDisk()
        self.log = GroupLog(self.disk, 0)
        self.model = LogModel()
        self.now_ms = NOW_MS
        self.epoch = 0
        self.is_led = False
        self.unwritten: deque[tuple[int, LogOffsets | LogMarkers]] = deque()
        """Asked for, and not in the log, each with its place in the order of all that was ever asked for."""
        self.undelivered: list[Event] = []
        """Answers of the log of which the coordinator does not know."""
        self.stale: list[Event] = []
        """Answers to a coordinator that is no more, or does not lead any more."""
        self.questions: list[VerifyTransaction] = []
        self.confirmed: dict[int, int] = {}
        """By producer, the epoch for which a coordinator has said yes since the last marker was asked for."""
        self.waiting: dict[int, Request] = {}
        self.deleted_topics: dict[str, int] = {}
        self._serials = count()
        self._last_serial = -1
        self._request_ids = count(1)
        self.answered: OffsetsFetched | None = None
        self.start()

    # The coordinator's life

    def start(self) -> None:
        self.coordinator = GroupCoordinator(self.config, new_ids())
        self.lead()

    def lead(self) -> None:
        self.epoch += 1
        self.is_led = True
        self.send(OffsetsAssigned(0, self.epoch))
        self.send(OffsetsLoaded(0, self.epoch, self.coordinator.replay(self.log.batches())))
        self.check_quiet()

    def crash(self, written: int) -> None:
        """The process dies when some of what it asked for is in the log; clients get no answers."""
        self._abandon(written)
        self.waiting.clear()
        self.stale.clear()
        self.log = GroupLog(self.disk, 0)
        self.start()

    def resign(self, written: int) -> None:
        self._abandon(written)
        self.is_led = False
        self.send(OffsetsResigned(0, self.epoch))
        assert not self.waiting, "not everybody was told"

    def _abandon(self, written: int) -> None:
        for _ in range(min(written, len(self.unwritten))):
            self.write()
        self.stale += self.undelivered
        self.stale += [OffsetsLogged(effect.token) for _, effect in self.unwritten if isinstance(effect, LogOffsets)]
        self.stale += [answer_to(question) for question in self.questions]
        self.unwritten.clear()
        self.undelivered.clear()
        self.questions.clear()
        self.confirmed.clear()

    # Telling it something

    def request(self, kind: type, *fields: object) -> None:
        request = kind(next(self._request_ids), *fields)
        self.waiting[request.request_id] = request
        if isinstance(request, WriteMarkers):
            for marker in request.markers:
                self.confirmed.pop(marker.producer.producer_id, None)
        self.send(request)

    def send(self, event: Event) -> None:
        due_ms = self.coordinator.next_due_ms
        effects = self.coordinator.handle(event, self.now_ms)
        is_unforeseen = isinstance(event, Tick) and effects and due_ms > self.now_ms
        assert not is_unforeseen, "what time makes necessary was said to be due"
        for effect in effects:
            if isinstance(effect, LogOffsets | LogMarkers):
                self._take_append(effect, event)
            elif isinstance(effect, VerifyTransaction):
                self.questions.append(effect)
            else:
                self._take_reply(effect)

    def _take_append(self, effect: LogOffsets | LogMarkers, cause: Event) -> None:
        assert effect.epoch == self.epoch
        assert self.is_led
        if isinstance(effect, LogOffsets):
            if effect.producer is not None:
                assert self._is_confirmed(effect), "a transaction that nobody has confirmed gets into the log"
            if isinstance(cause, Tick | OffsetsOfTopicDeleted | OffsetsLoaded):
                self._check_tombstones(effect)
        self._last_serial = next(self._serials)
        self.unwritten.append((self._last_serial, effect))

    def _is_confirmed(self, effect: LogOffsets) -> bool:
        producer = effect.producer
        if self.confirmed.get(producer.producer_id) == producer.epoch:
            return True
        entry = self.log.log.producers.get(producer.producer_id)
        return entry is not None and entry.epoch == producer.epoch and entry.open_since_offset >= 0

    def _check_tombstones(self, effect: LogOffsets) -> None:
        """Nobody asked for these: each has to be about something that is too old, or whose topic is gone."""
        to_come = self._model_to_come()
        for key, value in effect.records:
            assert value is None
            group, partition = decode_key(key)
            winner = to_come.winner(group, partition)
            deleted_at = self.deleted_topics.get(partition.topic, -1)
            is_of_deleted = all(entry.serial < deleted_at for entry in to_come.alive(group, partition))
            is_expired = (
                winner is not None
                and winner.committed_ms <= self.now_ms - RETENTION_MS
                and not to_come.is_pending(group, partition)
            )
            assert is_of_deleted or is_expired, f"{group} loses {partition}"

    def _model_to_come(self) -> LogModel:
        """The log as it will be when all that is under way gets there."""
        model = LogModel(self.model)
        for serial, effect in self.unwritten:
            model.add(_entries_of(serial, effect))
        return model

    def _take_reply(self, reply: Reply) -> None:
        if isinstance(reply, OffsetsFetched):
            self.answered = reply
            return
        request = self.waiting.pop(reply.request_id, None)
        assert request is not None, "a request is answered once"
        if isinstance(request, WriteMarkers):
            assert isinstance(reply, MarkersAnswered)
            if not reply.error_codes:
                self._check_marked(request)
        else:
            assert isinstance(reply, OffsetsCommitted)
            if reply.error_code is ErrorCode.NONE and isinstance(request, CommitOffsets | CommitTransactionOffsets):
                self._check_in_log(request)
            if reply.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
                assert not self._model_to_come().exists(request.group)

    def _check_in_log(self, request: CommitOffsets | CommitTransactionOffsets) -> None:
        """Every offset of a test is a number of its own, so it can be found."""
        assert {offset.offset for offset in request.offsets} <= self.model.offsets, "answered, and not in the log"

    def _check_marked(self, request: WriteMarkers) -> None:
        for marker in request.markers:
            logged = {decided.commit for decided in self.model.markers[marker.producer.producer_id]}
            assert marker.commit in logged, "answered, and not in the log"

    # The log

    def write(self) -> None:
        """Let the oldest of what is asked for get into the log, if the log takes it."""
        serial, effect = self.unwritten.popleft()
        event = self.log.perform(effect, self.now_ms)
        if isinstance(event, OffsetsLogged):
            self.model.add(_entries_of(serial, effect))
        elif isinstance(event, MarkersLogged):
            outcomes = zip(_entries_of(serial, effect), event.error_codes, strict=True)
            self.model.add(entry for entry, error_code in outcomes if error_code is ErrorCode.NONE)
        self.undelivered.append(event)

    def lose(self) -> None:
        _, effect = self.unwritten.popleft()
        self.undelivered.append(OffsetsLost(effect.token, ErrorCode.NOT_ENOUGH_REPLICAS))

    def deliver(self, place: int) -> None:
        """Tell the coordinator one of the log's answers, in any order."""
        event = self.undelivered.pop(place % len(self.undelivered))
        self.send(event)
        self.stale.append(event)

    def answer_question(self, place: int, error_code: ErrorCode) -> None:
        question = self.questions.pop(place % len(self.questions))
        if error_code is ErrorCode.NONE:
            self.confirmed[question.producer.producer_id] = question.producer.epoch
        self.send(answer_to(question, error_code))

    def delete_topic(self, topic: str) -> None:
        self.deleted_topics[topic] = self._last_serial + 1
        self.send(OffsetsOfTopicDeleted((topic,)))

    def tick(self, after_ms: int) -> None:
        self.now_ms += after_ms
        self.send(Tick())

    def settle(self) -> None:
        while self.questions or self.unwritten or self.undelivered:
            if self.questions:
                self.answer_question(0, ErrorCode.NONE)
            elif self.unwritten:
                self.write()
            else:
                self.deliver(0)

    # What everybody has to be told

    @property
    def is_quiet(self) -> bool:
        return self.is_led and not self.unwritten and not self.undelivered

    def check_quiet(self) -> None:
        """Who has nothing under way tells exactly what the log says."""
        for group in GROUPS:
            partitions = sorted(self.model.partitions(group))
            for require_stable in (False, True):
                self.send(FetchOffsets(0, group, tuple(partitions), require_stable))
                for found in self.answered.offsets:
                    is_unstable = require_stable and self.model.is_pending(group, found.partition)
                    winner = self.model.winner(group, found.partition)
                    expected = -1 if winner is None or is_unstable else winner.offset
                    assert (found.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT) is is_unstable
                    assert found.offset == expected, f"{group} {found.partition}"
            self.send(FetchOffsets(0, group))
            counting = {partition for partition in partitions if self.model.winner(group, partition) is not None}
            assert {found.partition for found in self.answered.offsets} == counting

    def see_everything_end(self) -> None:
        """Nobody waits for ever, and what is decided everywhere leaves nothing in doubt."""
        if not self.is_led:
            self.lead()
        self.settle()
        assert not self.waiting, "somebody waits for ever"
        self.check_quiet()
        for group in GROUPS:
            self.request(DeleteGroup, group)
        self.settle()
        self.check_quiet()
        assert not any(self.model.winner(group, found) for group in GROUPS for found in self.model.partitions(group))


def _entries_of(serial: int, effect: LogOffsets | LogMarkers) -> list[Written | Decided]:
    if isinstance(effect, LogMarkers):
        return [Decided(serial, marker.producer.producer_id, marker.commit) for marker in effect.markers]
    entries = []
    for key, value in effect.records:
        group, partition = decode_key(key)
        stored = None if value is None else decode_value(value, 0)
        offset, committed_ms = (None, -1) if stored is None else (stored.offset, stored.committed_ms)
        producer_id = None if effect.producer is None else effect.producer.producer_id
        entries.append(Written(serial, group, partition, offset, committed_ms, producer_id))
    return entries
