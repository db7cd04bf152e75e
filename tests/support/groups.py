"""A group coordinator with the world around it: real logs on a simulated disk, and a clock that one sets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
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
    FetchOffsets,
    ListedGroup,
    ListGroups,
    OffsetToCommit,
)
from eagleray.broker.groups.group_protocol import GroupProtocol
from eagleray.broker.groups.log_writer import append_entries
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.identities import NO_EPOCH, ProducerIdentity, TopicPartition
from eagleray.broker.log import LogConfig, PartitionLog
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import (
    AskLastDecision,
    LastDecisionAnswered,
    VerifyTransaction,
    WriteMarkers,
)
from eagleray.broker.partitions.leaders import LARGEST_EPOCH
from eagleray.broker.runtime.coordinator_events import (
    AppendRecords,
    PartitionAssigned,
    PartitionLoaded,
    PartitionResigned,
)
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS
from tests.support.leading import alone, verified
from tests.support.runtime_driver import RuntimeDriver
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


class GroupDriver(RuntimeDriver):
    """A group coordinator whose log is a real one, on a simulated disk."""

    tick_event = Tick()

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        partitions: int = 1,
        protocols: Iterable[type[GroupProtocol]] = PROTOCOLS,
    ) -> None:
        super().__init__(NOW_MS)
        self.config = config or GroupConfig(offsets_topic_num_partitions=partitions)
        self.new_id = new_ids()
        self.protocols = protocols
        self.disk = SimulatedDisk()
        self.epoch = 0
        self.newest_epoch = LARGEST_EPOCH
        self.log_config = LogConfig()
        self.questions: deque[VerifyTransaction] = deque()
        self.decision_questions: deque[AskLastDecision] = deque()
        self._begins: dict[int, int] = {}
        """By the position of an append, the offset at which it begins."""
        self._ends: dict[int, int] = {}
        self.restart()

    # Starting and stopping

    def restart(self) -> None:
        """Begin again with what the logs have."""
        self.coordinator = GroupCoordinator(self.config, self.new_id, self, self.protocols)
        self.appends.clear()
        self.questions.clear()
        self.epoch += 1
        self.logs = [
            PartitionLog.open(
                self.disk, f"/{TopicPartition(OFFSETS_TOPIC, number)}", self.log_config, now_ms=self.now_ms
            )
            for number in range(self.config.offsets_topic_num_partitions)
        ]
        for number in range(len(self.logs)):
            self.lead(number)

    def lead(self, log_partition: int = 0) -> None:
        """Assign a partition, and load it from nothing but its log, all of which is replicated."""
        log = self.logs[log_partition]
        log.advance_high_watermark(log.log_end_offset)
        self.send(PartitionAssigned(log_partition, self.epoch))
        self.send(PartitionLoaded(log_partition, self.epoch, self.load(log_partition)))

    def resign(self, log_partition: int = 0) -> None:
        self.send(PartitionResigned(log_partition, self.epoch))

    # The log

    def write(self, append: AppendRecords) -> None:
        log = self.logs[append.log_partition]
        self._begins[append.position] = log.log_end_offset
        assert append_entries(alone(log, append.coordinator_epoch), append.records, self.now_ms)
        self._ends[append.position] = log.log_end_offset

    def take_back(self, append: AppendRecords) -> None:
        self.logs[append.log_partition].truncate(self._begins[append.position], now_ms=self.now_ms)

    def load(self, log_partition: int = 0) -> OffsetsState:
        return self.coordinator.replay(self.logs[log_partition].batches())

    def commit_log(self, append: AppendRecords) -> None:
        self.logs[append.log_partition].advance_high_watermark(self._ends[append.position])

    def producers(self, log_partition: int) -> ProducerState:
        return self.logs[log_partition].producers

    def largest_batch(self, log_partition: int) -> int:
        return self.logs[log_partition].max_batch_bytes

    def newest_coordinator_epoch(self) -> int:
        return self.newest_epoch

    def append(self) -> AppendRecords:
        """Let the oldest append be committed."""
        return self.commit_oldest()

    # Telling it something

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, AskLastDecision):
            self.decision_questions.append(effect)
            return
        assert isinstance(effect, VerifyTransaction)
        self.questions.append(effect)

    def commit(self, *offsets: OffsetToCommit, group: str = GROUP, **fields: object) -> int:
        return self.request(CommitOffsets, group, offsets, **fields)

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
        return self.request(CommitTransactionOffsets, group, transactional_id, producer, offsets, **fields)

    def delete_offsets(self, *partitions: TopicPartition, group: str = GROUP) -> int:
        return self.request(DeleteOffsets, group, partitions)

    def delete_group(self, group: str = GROUP) -> int:
        return self.request(DeleteGroup, group)

    def write_markers(self, *markers: Marker) -> int:
        return self.request(WriteMarkers, markers)

    # Doing what it asks for

    def answer_question(
        self, error_code: ErrorCode = ErrorCode.NONE, *, finished: tuple[int, int] = (NO_EPOCH, 0)
    ) -> VerifyTransaction:
        """Let the transaction's coordinator answer the oldest question."""
        question = self.questions.popleft()
        self.send(verified(question, error_code, finished=finished))
        return question

    def tell_last_decision(self, *finished: int, error_code: ErrorCode = ErrorCode.NONE) -> None:
        """Let the transaction's coordinator, or nobody, say which decisions are over."""
        asked = self.decision_questions.popleft()
        self.send(LastDecisionAnswered(asked.partition, asked.producer_id, asked.question_id, error_code, *finished))

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
        assert not any(self.replies[request_id].error_codes)

    # Asking about it

    def fetch(
        self, *partitions: TopicPartition, group: str = GROUP, require_stable: bool = False
    ) -> tuple[CommittedOffset, ...]:
        answer = self.answer_to(self.request(FetchOffsets, group, partitions or None, require_stable))
        assert answer.error_code is ErrorCode.NONE
        return answer.offsets

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
        answer = self.answer_to(self.request(ListGroups, **filters))
        assert answer.error_code is ErrorCode.NONE
        return answer.groups
