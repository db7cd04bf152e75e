"""A group coordinator with the world around it: real logs on a simulated disk, and a clock that one sets.

`GroupLog` is what a shell has to do for `LogOffsets` and `LogMarkers`, and no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.coordinator import PROTOCOLS, GroupCoordinator
from eagleray.broker.groups.events import (
    OFFSETS_TOPIC,
    CommitOffsets,
    CommittedOffset,
    CommitTransactionOffsets,
    DeleteGroup,
    DeleteOffsets,
    Effect,
    Event,
    FetchOffsets,
    ListedGroup,
    ListGroups,
    LogMarkers,
    LogOffsets,
    MarkersLogged,
    OffsetsAssigned,
    OffsetsLoaded,
    OffsetsLogged,
    OffsetsLost,
    OffsetsResigned,
    OffsetToCommit,
    Reply,
)
from eagleray.broker.groups.group_protocol import GroupProtocol
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.broker.log import Appended, Isolation, LogConfig, NewMarker, Origin, PartitionLog
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import Tick, TransactionVerified, VerifyTransaction, WriteMarkers
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, RecordBatch, build_batch, split_batches
from tests.support.batches import NOW_MS, whole_batches
from tests.support.simulated_disk import SimulatedDisk

GROUP = "billing"
TRANSACTIONAL_ID = "checkout-1"
PRODUCER = ProducerIdentity(7, 0)
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
PAYMENTS_0 = TopicPartition("payments", 0)
OFFSETS_0 = TopicPartition(OFFSETS_TOPIC, 0)


def new_ids() -> Callable[[], str]:
    """What stands for chance: a number that it never gave before."""
    numbers = count(1)
    return lambda: f"id-{next(numbers)}"


def offset(partition: TopicPartition, value: int, metadata: str = "") -> OffsetToCommit:
    return OffsetToCommit(partition, value, metadata=metadata)


def marker(producer: ProducerIdentity, *, commit: bool = True, version: int = 1, **fields: object) -> Marker:
    """A marker for the first offsets partition, as the coordinator at epoch 0 sends it."""
    plausible = {"coordinator_epoch": 0, "partitions": (OFFSETS_0,)}
    return Marker(producer=producer, commit=commit, transaction_version=version, **(plausible | fields))


class GroupLog:
    """One partition of `__consumer_offsets`, and how effects get into it."""

    def __init__(self, disk: SimulatedDisk, offsets_partition: int) -> None:
        name = f"/{TopicPartition(OFFSETS_TOPIC, offsets_partition)}"
        self.log = PartitionLog.open(disk, name, LogConfig(), now_ms=NOW_MS)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def append(self, effect: LogOffsets, now_ms: int) -> ErrorCode:
        """Append one batch; a transactional one carries its producer, and like all of a coordinator's no sequence."""
        producer = effect.producer or NO_PRODUCER
        data = build_batch(
            [NewRecord(value, key=key, timestamp=now_ms) for key, value in effect.records],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transactional=effect.producer is not None,
        )
        (result,) = self.log.append(
            split_batches(data, verify_crc=False), leader_epoch=effect.epoch, now_ms=now_ms, origin=Origin.COORDINATOR
        )
        return ErrorCode.NONE if isinstance(result, Appended) else result.error_code

    def append_markers(self, effect: LogMarkers, now_ms: int) -> tuple[ErrorCode, ...]:
        """Append markers; answer each in its place."""
        markers = [
            NewMarker(
                new.producer.producer_id, new.producer.epoch, new.commit, new.coordinator_epoch, new.transaction_version
            )
            for new in effect.markers
        ]
        results = self.log.append_markers(markers, leader_epoch=effect.epoch, now_ms=now_ms)
        return tuple(ErrorCode.NONE if isinstance(result, Appended) else result.error_code for result in results)

    def perform(self, effect: LogOffsets | LogMarkers, now_ms: int) -> Event:
        """Carry an effect out and return what the coordinator is to be told."""
        if isinstance(effect, LogMarkers):
            event: Event = MarkersLogged(effect.token, self.append_markers(effect, now_ms))
        else:
            error_code = self.append(effect, now_ms)
            is_logged = error_code is ErrorCode.NONE
            event = OffsetsLogged(effect.token) if is_logged else OffsetsLost(effect.token, error_code)
        # With one replica, what is in the log is replicated.
        self.log.advance_high_watermark(self.log.log_end_offset)
        return event

    def batches(self) -> Iterator[RecordBatch]:
        """Go over the whole log, uncommitted or not; one read ends with its segment."""
        next_offset = self.log.log_start_offset
        while next_offset < self.log.log_end_offset:
            found = self.log.read(next_offset, max_bytes=2**20, isolation=Isolation.READ_UNCOMMITTED)
            for batch in whole_batches(found.records):
                yield batch
                next_offset = batch.header.next_offset


class GroupDriver:
    """Feeds a coordinator and performs its effects when told to, one at a time or until nothing is left to do."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        partitions: int = 1,
        protocols: Iterable[type[GroupProtocol]] = PROTOCOLS,
    ) -> None:
        self.config = config or GroupConfig(offsets_topic_num_partitions=partitions)
        self.new_id = new_ids()
        self.protocols = protocols
        self.disk = SimulatedDisk()
        self.now_ms = NOW_MS
        self.epoch = 0
        self.appends: deque[LogOffsets | LogMarkers] = deque()
        self.questions: deque[VerifyTransaction] = deque()
        self.replies: dict[int, Reply] = {}
        self._request_ids = count(1)
        self.restart()

    # Its life

    def restart(self) -> None:
        """Begin again with what the logs have."""
        self.coordinator = GroupCoordinator(self.config, self.new_id, self.protocols)
        self.appends.clear()
        self.questions.clear()
        self.epoch += 1
        self.logs = [GroupLog(self.disk, number) for number in range(self.config.offsets_topic_num_partitions)]
        for number in range(len(self.logs)):
            self.lead(number)

    def lead(self, offsets_partition: int = 0) -> None:
        """Assign a partition, and load it from nothing but its log."""
        self.send(OffsetsAssigned(offsets_partition, self.epoch))
        self.send(OffsetsLoaded(offsets_partition, self.epoch, self.load(offsets_partition)))

    def load(self, offsets_partition: int = 0) -> OffsetsState:
        """Say what the log alone comes to."""
        return self.coordinator.replay(self.logs[offsets_partition].batches())

    def resign(self, offsets_partition: int = 0) -> None:
        self.send(OffsetsResigned(offsets_partition, self.epoch))

    # Telling it something

    def send(self, event: Event) -> list[Effect]:
        effects = self.coordinator.handle(event, self.now_ms)
        for effect in effects:
            if isinstance(effect, LogOffsets | LogMarkers):
                self.appends.append(effect)
            elif isinstance(effect, VerifyTransaction):
                self.questions.append(effect)
            else:
                assert effect.request_id not in self.replies, "a request is answered once"
                self.replies[effect.request_id] = effect
        return effects

    def commit(self, *offsets: OffsetToCommit, group: str = GROUP, **fields: object) -> int:
        return self._request(CommitOffsets, group, offsets, **fields)

    def commit_in_transaction(
        self,
        *offsets: OffsetToCommit,
        producer: ProducerIdentity = PRODUCER,
        group: str = GROUP,
        version: int = 1,
        transactional_id: str = TRANSACTIONAL_ID,
        **fields: object,
    ) -> int:
        fields["transaction_version"] = version
        return self._request(CommitTransactionOffsets, group, transactional_id, producer, offsets, **fields)

    def delete_offsets(self, *partitions: TopicPartition, group: str = GROUP) -> int:
        return self._request(DeleteOffsets, group, partitions)

    def delete_group(self, group: str = GROUP) -> int:
        return self._request(DeleteGroup, group)

    def write_markers(self, *markers: Marker) -> int:
        return self._request(WriteMarkers, markers)

    def tick(self, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        due_ms = self.coordinator.next_due_ms
        effects = self.send(Tick())
        assert not effects or due_ms <= self.now_ms, "what time makes necessary was said to be due"
        return effects

    def _request(self, kind: type, *fields: object, **named: object) -> int:
        request_id = next(self._request_ids)
        self.send(kind(request_id, *fields, **named))
        return request_id

    # Doing what it asks for

    def append(self) -> LogOffsets | LogMarkers:
        """Let the oldest append reach the log."""
        effect = self.appends.popleft()
        self.send(self.logs[effect.offsets_partition].perform(effect, self.now_ms))
        return effect

    def lose(self, error_code: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> LogOffsets | LogMarkers:
        """Let the oldest append fail."""
        effect = self.appends.popleft()
        self.send(OffsetsLost(effect.token, error_code))
        return effect

    def answer_question(self, error_code: ErrorCode = ErrorCode.NONE) -> VerifyTransaction:
        """Let the transaction's coordinator answer the oldest question."""
        question = self.questions.popleft()
        self.send(answer_to(question, error_code))
        return question

    def settle(self) -> None:
        """Do all that is asked for until nothing is left, with coordinators that confirm everything."""
        while self.appends or self.questions:
            if self.questions:
                self.answer_question()
            else:
                self.append()

    # Going through whole steps

    def committed(self, *offsets: OffsetToCommit, **fields: object) -> None:
        request_id = self.commit(*offsets, **fields)
        self.settle()
        assert self.error_of(request_id) is ErrorCode.NONE

    def pending(self, *offsets: OffsetToCommit, **fields: object) -> None:
        request_id = self.commit_in_transaction(*offsets, **fields)
        self.settle()
        assert self.error_of(request_id) is ErrorCode.NONE

    def ended(self, *markers: Marker) -> None:
        request_id = self.write_markers(*markers)
        self.settle()
        assert self.replies[request_id].error_codes == ()

    # Asking about it

    def error_of(self, request_id: int) -> ErrorCode:
        return self.replies[request_id].error_code

    def fetch(
        self, *partitions: TopicPartition, group: str = GROUP, require_stable: bool = False
    ) -> tuple[CommittedOffset, ...]:
        request_id = self._request(FetchOffsets, group, partitions or None, require_stable)
        assert self.error_of(request_id) is ErrorCode.NONE
        return self.replies[request_id].offsets

    def offsets(self, group: str = GROUP) -> dict[TopicPartition, int]:
        """What the group has, stable or not."""
        return {found.partition: found.offset for found in self.fetch(group=group)}

    def unstable(self, group: str = GROUP) -> set[TopicPartition]:
        """The partitions for which a transaction holds something."""
        answers = self.fetch(group=group, require_stable=True)
        return {found.partition for found in answers if found.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT}

    def groups(self) -> tuple[str, ...]:
        return tuple(group.name for group in self.listed())

    def listed(self, **filters: object) -> tuple[ListedGroup, ...]:
        request_id = self._request(ListGroups, **filters)
        assert self.error_of(request_id) is ErrorCode.NONE
        return self.replies[request_id].groups


def answer_to(question: VerifyTransaction, error_code: ErrorCode = ErrorCode.NONE) -> TransactionVerified:
    """What the transaction's coordinator says to a question."""
    return TransactionVerified(question.partition, question.producer.producer_id, question.verification_id, error_code)
