"""The group coordinator among crashes, lost records, late answers and markers in any order, against a model."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eagleray.broker.groups.events import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    DeleteOffsets,
    OffsetToCommit,
)
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.partitions.events import WriteMarkers
from eagleray.protocol.errors import ErrorCode
from tests.property.groups_world import GROUPS, GroupWorld
from tests.support.groups import marker

PLACES = st.integers(0, 50)
NAMES = st.sampled_from(GROUPS)
PARTITIONS = st.lists(
    st.sampled_from([TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)]),
    min_size=1,
    max_size=2,
    unique=True,
)
PRODUCER_IDS = st.sampled_from([7, 8])
PRODUCERS = st.builds(ProducerIdentity, PRODUCER_IDS, st.sampled_from([0, 0, 0, 1, 2]))
VERSIONS = st.sampled_from([1, 2])
COORDINATOR_EPOCHS = st.sampled_from([0, 0, 0, 1])


class GroupMachine(RuleBasedStateMachine):
    """Anything may happen to a group coordinator at any time."""

    @initialize()
    def begin(self) -> None:
        self.world = GroupWorld()
        self.next_offset = 0

    def _offsets(self, partitions: list[TopicPartition]) -> tuple[OffsetToCommit, ...]:
        offsets = []
        for partition in partitions:
            self.next_offset += 1
            offsets.append(OffsetToCommit(partition, self.next_offset))
        return tuple(offsets)

    # Requests

    @rule(group=NAMES, partitions=PARTITIONS)
    def commit(self, group: str, partitions: list[TopicPartition]) -> None:
        self.world.ask(CommitOffsets, group, self._offsets(partitions))

    @rule(group=NAMES, partitions=PARTITIONS, producer=PRODUCERS, version=VERSIONS)
    def commit_in_transaction(
        self, group: str, partitions: list[TopicPartition], producer: ProducerIdentity, version: int
    ) -> None:
        offsets = self._offsets(partitions)
        self.world.ask(CommitTransactionOffsets, group, "t", producer, offsets, -1, "", None, version)

    @rule(
        producers=st.lists(PRODUCERS, min_size=1, max_size=2),
        commit=st.booleans(),
        version=VERSIONS,
        coordinator_epoch=COORDINATOR_EPOCHS,
    )
    def markers(self, producers: list[ProducerIdentity], commit: bool, version: int, coordinator_epoch: int) -> None:
        markers = tuple(
            marker(producer, commit=commit, version=version, coordinator_epoch=coordinator_epoch)
            for producer in producers
        )
        self.world.ask(WriteMarkers, markers)

    @rule(group=NAMES, partitions=PARTITIONS)
    def delete_offsets(self, group: str, partitions: list[TopicPartition]) -> None:
        self.world.ask(DeleteOffsets, group, tuple(partitions))

    @rule(group=NAMES)
    def delete_group(self, group: str) -> None:
        self.world.ask(DeleteGroup, group)

    # Whole steps, so that there is something to go wrong

    def _current(self, producer_id: int) -> ProducerIdentity:
        """The producer at the epoch that the log has seen last."""
        entry = self.world.logs[0].producers.get(producer_id)
        return ProducerIdentity(producer_id, 0 if entry is None else entry.epoch)

    @rule(group=NAMES, partitions=PARTITIONS)
    def committed(self, group: str, partitions: list[TopicPartition]) -> None:
        self.world.ask(CommitOffsets, group, self._offsets(partitions))
        self.world.settle()

    @rule(group=NAMES, partitions=PARTITIONS, producer_id=PRODUCER_IDS)
    def pending(self, group: str, partitions: list[TopicPartition], producer_id: int) -> None:
        offsets = self._offsets(partitions)
        self.world.ask(CommitTransactionOffsets, group, "t", self._current(producer_id), offsets)
        self.world.settle()

    @rule(producer_id=PRODUCER_IDS, commit=st.booleans())
    def decided(self, producer_id: int, commit: bool) -> None:
        last = marker(self._current(producer_id), commit=commit, coordinator_epoch=1)
        self.world.ask(WriteMarkers, (last,))
        self.world.settle()

    @rule(group=NAMES, partitions=PARTITIONS, producer_id=PRODUCER_IDS, restarts=st.booleans())
    def overtaken(self, group: str, partitions: list[TopicPartition], producer_id: int, restarts: bool) -> None:
        """A transaction is decided after somebody has committed something newer."""
        self.pending(group, partitions, producer_id)
        if restarts:
            self.world.crash(0)
        self.committed(group, partitions)
        self.decided(producer_id, commit=True)

    # The transaction's coordinator

    @precondition(lambda self: self.world.questions)
    @rule(place=PLACES, error_code=st.sampled_from([ErrorCode.NONE] * 3 + [ErrorCode.TRANSACTION_ABORTABLE]))
    def coordinator_answers(self, place: int, error_code: ErrorCode) -> None:
        self.world.answer(place, error_code)

    # The log

    @precondition(lambda self: self.world.unwritten)
    @rule()
    def log_is_replicated(self) -> None:
        self.world.replicate()

    @rule()
    def log_fails(self) -> None:
        self.world.fails_next = True

    @rule()
    def log_is_loaded_again(self) -> None:
        self.world.load_again()

    @rule(refusal=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def log_refuses(self, refusal: ErrorCode) -> None:
        self.world.refusal = refusal

    @precondition(lambda self: self.world.undelivered)
    @rule(place=PLACES)
    def log_answers(self, place: int) -> None:
        self.world.deliver(place)

    @precondition(lambda self: self.world.stale)
    @rule(place=PLACES)
    def something_answers_too_late(self, place: int) -> None:
        self.world.send(self.world.stale[place % len(self.world.stale)])

    # Time and trouble

    @rule(after_ms=st.sampled_from([0, 1, 1000, 30_000, 61_000, 700_000]))
    def time_passes(self, after_ms: int) -> None:
        self.world.tick(after_ms)

    @rule(topic=st.sampled_from(["orders", "payments"]))
    def topic_is_deleted(self, topic: str) -> None:
        self.world.delete_topic(topic)

    @rule(group=NAMES, require_stable=st.booleans())
    def fetch(self, group: str, require_stable: bool) -> None:
        self.world.fetch_offsets(group, require_stable=require_stable)

    @rule(kept=st.integers(0, 4))
    def crash(self, kept: int) -> None:
        self.world.crash(kept)

    @rule(kept=st.integers(0, 4), topic=st.none() | st.sampled_from(["orders", "payments"]))
    def resign_and_lead_again(self, kept: int, topic: str | None) -> None:
        self.world.resign(kept)
        self.world.ask(DeleteGroup, GROUPS[0])
        if topic is not None:
            self.world.delete_topic(topic)
        self.world.lead_again()

    @rule()
    def peace(self) -> None:
        self.world.settle()

    @invariant()
    def who_is_quiet_tells_what_the_log_says(self) -> None:
        if self.world.is_quiet:
            self.world.check_quiet()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.see_everything_end()


TestGroupCoordinator = GroupMachine.TestCase
