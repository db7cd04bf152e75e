"""Producer state against a small model of the rules, through any history of batches, markers and expiry."""

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eagleray.broker.identities import LAST_EPOCH
from eagleray.broker.log.producer_entry import CachedBatch
from eagleray.broker.log.producer_limit import IDLE_MS, NO_LIMIT
from eagleray.broker.log.producer_snapshot import decode_snapshot, encode_snapshot
from eagleray.broker.log.producer_state import Origin, ProducerState, Rejection
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import BatchHeader, EndTransactionMarker
from tests.support.batches import data_header, marker_header
from tests.support.logs import end_marker

SEQUENCES = 2**31
EXPIRATION_MS = 2 * IDLE_MS
MOST = 3

COORDINATED = 9
producer_ids = st.sampled_from([1, 1, 1, 2, 2, 3, 4])
epoch_steps = st.sampled_from([0, 0, 0, 0, 1, 2, -1])
counts = st.integers(1, 4)


@dataclass
class Producer:
    """What the rules say about one producer: nothing is cached, everything is remembered."""

    epoch: int
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    """First and last sequence, first and last offset, of every batch of this epoch."""
    recognised: int = 0
    """How many of the last batches would be recognised."""
    coordinator_epoch: int = -1
    heard_ms: int = -1
    timestamp_ms: int = -1
    began_at: int | None = None

    @property
    def next_sequence(self) -> int:
        return (self.batches[-1][1] + 1) % SEQUENCES if self.batches else 0

    def enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.batches, self.recognised = epoch, [], 0


class ProducerStateMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state = ProducerState()
        self.model: dict[int, Producer] = {}
        self.decided: list[tuple[int, int]] = []
        """First offset and marker of the transactions that are decided."""
        self.settled_up_to = 0
        """What was decided below is replicated, or was left out of a snapshot."""
        self.has_forgotten = False
        """Whether the state knows less than all the batches of the log would give."""
        self.is_limited = False
        self.end_offset = 0
        self.high_watermark = 0
        self.now_ms = 10_000
        self.applied: list[tuple[BatchHeader, EndTransactionMarker | None, int]] = []

    # What happens

    @rule(
        producer_id=producer_ids,
        count=counts,
        transactional=st.booleans(),
        epoch_step=epoch_steps,
        sequence_step=st.sampled_from([0, 0, 0, 0, 0, 1, -1, 7, 2**30]),
        first_sequence=st.sampled_from([0, 0, 5, SEQUENCES - 3, SEQUENCES - 1]),
    )
    def a_client_sends(
        self,
        producer_id: int,
        count: int,
        transactional: bool,
        epoch_step: int,
        sequence_step: int,
        first_sequence: int,
    ) -> None:
        """Send a batch that follows the last one, or nearly so."""
        known = self.model.get(producer_id)
        epoch = max(known.epoch + epoch_step, 0) if known else 1
        expected = known.next_sequence if known and epoch == known.epoch else 0
        sequence = (expected + sequence_step) % SEQUENCES if known else first_sequence
        self.send(producer_id, epoch, sequence, count, transactional=transactional, origin=Origin.CLIENT)

    @rule(producer_id=producer_ids, count=counts, batches=st.integers(1, 7), back=st.sampled_from([1, 2, 4, 5, 6, 7]))
    def a_client_streams_and_repeats(self, producer_id: int, count: int, batches: int, back: int) -> None:
        """Send batches one after another, as most do, and one of the last again."""
        for _ in range(batches):
            known = self.model.get(producer_id)
            epoch, sequence = (known.epoch, known.next_sequence) if known else (0, SEQUENCES - 4)
            transactional = known is not None and known.began_at is not None
            self.send(producer_id, epoch, sequence, count, transactional=transactional, origin=Origin.CLIENT)
        self.a_client_repeats(producer_id, back, 0, False)

    @rule(
        producer_id=producer_ids, back=st.integers(1, 7), more=st.sampled_from([0, 0, 0, 0, 1, -1]), flips=st.booleans()
    )
    def a_client_repeats(self, producer_id: int, back: int, more: int, flips: bool) -> None:
        """Send one of the last batches again, or one that begins where it did."""
        known = self.model.get(producer_id)
        if known is None or len(known.batches) < back:
            return
        first_sequence, _, first_offset, last_offset = known.batches[-back]
        count = max(last_offset - first_offset + 1 + more, 1)
        transactional = (known.began_at is not None) ^ flips
        self.send(producer_id, known.epoch, first_sequence, count, transactional=transactional, origin=Origin.CLIENT)

    @rule(count=counts, transactional=st.booleans(), epoch_step=epoch_steps)
    def a_coordinator_writes(self, count: int, transactional: bool, epoch_step: int) -> None:
        """Write for a producer that does not itself write to this partition: the offsets of a group."""
        known = self.model.get(COORDINATED)
        epoch = max(known.epoch + epoch_step, 0) if known else 0
        self.send(COORDINATED, epoch, -1, count, transactional=transactional, origin=Origin.COORDINATOR)

    @rule(
        producer_id=producer_ids | st.just(COORDINATED),
        epoch_step=st.sampled_from([0, 0, 1, 1, -1]),
        coordinator_epoch=st.integers(0, 2),
        commit=st.booleans(),
        transaction_version=st.sampled_from([1, 2]),
    )
    def a_marker_comes(
        self, producer_id: int, epoch_step: int, coordinator_epoch: int, commit: bool, transaction_version: int
    ) -> None:
        known = self.model.get(producer_id)
        epoch = max(known.epoch + epoch_step, 0) if known else 1
        header = marker_header(producer_id, epoch=epoch, timestamp_ms=self.now_ms)
        marker = EndTransactionMarker(commit, coordinator_epoch)
        rejection = self.state.check_marker(
            end_marker(producer_id, epoch, commit, coordinator_epoch, transaction_version)
        )
        expected = self.verdict_on_marker(known, epoch, coordinator_epoch, transaction_version)
        assert (rejection.error_code if rejection else None) == expected
        if rejection is None:
            self.apply_marker(header, marker)

    @rule(producer_id=producer_ids, commit=st.booleans())
    def the_last_epoch_of_a_producer_ends(self, producer_id: int, commit: bool) -> None:
        """End a branch, or a producer whose epochs are used up: nothing of it is remembered."""
        header = marker_header(producer_id, epoch=LAST_EPOCH, timestamp_ms=self.now_ms)
        self.apply_marker(header, EndTransactionMarker(commit, 2))
        assert self.state.get(producer_id) is None

    @rule(passed_ms=st.sampled_from([1, 400, IDLE_MS - 1, IDLE_MS, IDLE_MS]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(is_limited=st.booleans())
    def the_limit_is_set(self, is_limited: bool) -> None:
        self.is_limited = is_limited
        self.state.limit.most = MOST if is_limited else NO_LIMIT

    @rule()
    def producers_expire(self) -> None:
        expired = [each for each in self.idle() if self.now_ms - self.model[each].heard_ms >= EXPIRATION_MS]
        before = len(self.model)
        for producer_id in expired:
            self.forget(producer_id)
        if self.is_limited:
            self.make_room(MOST)
        assert self.state.expire(self.now_ms, EXPIRATION_MS) == before - len(self.model)

    def idle(self) -> list[int]:
        """Those that make room, in the order in which they do."""
        idle = [
            producer_id
            for producer_id, known in self.model.items()
            if known.began_at is None and self.now_ms - known.heard_ms >= IDLE_MS
        ]
        return sorted(idle, key=lambda each: (self.model[each].heard_ms, each))

    def make_room(self, most: int) -> None:
        for producer_id in self.idle():
            if len(self.model) > most:
                self.forget(producer_id)

    def forget(self, producer_id: int) -> None:
        del self.model[producer_id]
        self.has_forgotten = True

    @property
    def has_room(self) -> bool:
        return not self.is_limited or len(self.model) < MOST or bool(self.idle())

    @rule(part=st.floats(0, 1))
    def the_high_watermark_rises(self, part: float) -> None:
        self.high_watermark += round(part * (self.end_offset - self.high_watermark))
        self.state.unstable.replicated_up_to(self.high_watermark)
        self.settled_up_to = max(self.settled_up_to, self.high_watermark)

    @rule()
    def the_state_is_saved_and_loaded(self) -> None:
        """A snapshot keeps the last batch of each producer, and of transactions those that are open."""
        entries = decode_snapshot(encode_snapshot(self.state))
        assert entries is not None
        self.reload(ProducerState(entries, now_ms=self.now_ms))
        self.settled_up_to = self.end_offset
        for known in self.model.values():
            known.recognised = min(known.recognised, 1)

    def reload(self, state: ProducerState) -> None:
        """After a replay all producers were heard of just now."""
        self.state = state
        self.the_limit_is_set(self.is_limited)
        for known in self.model.values():
            known.heard_ms = self.now_ms

    @precondition(lambda self: not self.has_forgotten)
    @rule()
    def the_log_is_replayed(self) -> None:
        """The state is what the batches in the log give, so applying them all again changes nothing."""
        state = ProducerState()
        for header, marker, offset in self.applied:
            if marker is None:
                state.apply_data(header, offset, self.now_ms)
            else:
                state.apply_marker(header, marker, offset, self.now_ms)
        self.reload(state)
        self.state.unstable.replicated_up_to(self.high_watermark)
        self.settled_up_to = self.high_watermark
        for known in self.model.values():
            known.recognised = min(len(known.batches), 5)

    # What the rules say

    def verdict_on_data(
        self, known: Producer | None, epoch: int, first: int, last: int, *, transactional: bool, origin: Origin
    ) -> ErrorCode | tuple[int, int] | None:
        """Return an error, the offsets of the batch that is repeated, or None for a batch to be taken."""
        if known is None:
            return None if origin is not Origin.CLIENT or self.has_room else ErrorCode.POLICY_VIOLATION
        if origin is Origin.CLIENT and epoch == known.epoch:
            for cached in known.batches[len(known.batches) - known.recognised :]:
                if cached[:2] == (first, last):
                    return cached[2:]
        if epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if origin is Origin.CLIENT and first != (known.next_sequence if epoch == known.epoch else 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if known.began_at is not None and not transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def verdict_on_marker(
        self, known: Producer | None, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> ErrorCode | None:
        if known is None:
            return None
        if epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if transaction_version == 2 and epoch == known.epoch and known.began_at is not None:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < known.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return None

    # How it is done

    def send(
        self, producer_id: int, epoch: int, first: int, count: int, *, transactional: bool, origin: Origin
    ) -> None:
        # The producer's clock has no say in anything.
        timestamp_ms = (0, 5_000, 2**50)[self.end_offset % 3]
        header = data_header(
            producer_id,
            epoch=epoch,
            sequence=first,
            count=count,
            transactional=transactional,
            timestamp_ms=timestamp_ms,
        )
        last = (first + count - 1) % SEQUENCES if first >= 0 else -1
        known = self.model.get(producer_id)
        verdict = self.state.check_data(header, origin, self.now_ms)
        expected = self.verdict_on_data(known, epoch, first, last, transactional=transactional, origin=origin)
        if isinstance(verdict, Rejection):
            assert verdict.error_code == expected
        elif isinstance(verdict, CachedBatch):
            assert (verdict.first_offset, verdict.last_offset) == expected
            self.state.heard_of(producer_id, self.now_ms)
            self.model[producer_id].heard_ms = self.now_ms
        else:
            assert expected is None
            self.apply_data(header, first, last)

    def apply_data(self, header: BatchHeader, first: int, last: int) -> None:
        offset = self.end_offset
        self.state.apply_data(header, offset, self.now_ms)
        self.applied.append((header, None, offset))
        self.end_offset += header.record_count
        self.make_room_for(header.producer_id)
        known = self.model.setdefault(header.producer_id, Producer(header.producer_epoch))
        known.enter(header.producer_epoch)
        known.batches.append((first, last, offset, self.end_offset - 1))
        known.recognised = min(known.recognised + 1, 5)
        known.heard_ms, known.timestamp_ms = self.now_ms, header.max_timestamp
        if header.is_transactional and known.began_at is None:
            known.began_at = offset

    def apply_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        offset = self.end_offset
        completed = self.state.apply_marker(header, marker, offset, self.now_ms)
        self.applied.append((header, marker, offset))
        self.end_offset += 1
        is_last = header.producer_epoch == LAST_EPOCH
        if header.producer_id not in self.model and (is_last or not self.has_room):
            self.has_forgotten |= not is_last
            assert completed is None
            return
        self.make_room_for(header.producer_id)
        known = self.model.setdefault(header.producer_id, Producer(header.producer_epoch))
        known.enter(header.producer_epoch)
        known.coordinator_epoch = max(known.coordinator_epoch, marker.coordinator_epoch)
        known.heard_ms, known.timestamp_ms = self.now_ms, header.max_timestamp
        began_at, known.began_at = known.began_at, None
        if is_last:
            del self.model[header.producer_id]
        if began_at is None:
            assert completed is None
            return
        assert completed is not None
        self.decided.append((began_at, offset))
        assert (completed.producer_id, completed.first_offset) == (header.producer_id, began_at)
        assert (completed.marker_offset, completed.is_aborted) == (offset, not marker.commit)
        assert completed.last_stable_offset == min(self.opened(), default=offset + 1)

    def make_room_for(self, producer_id: int) -> None:
        if self.is_limited and producer_id not in self.model:
            self.make_room(MOST - 1)

    def opened(self) -> list[int]:
        return [known.began_at for known in self.model.values() if known.began_at is not None]

    # What always holds

    @invariant()
    def the_first_offsets_that_are_undecided_and_unstable_are_those_of_the_model(self) -> None:
        unreplicated = [first_offset for first_offset, marker in self.decided if marker >= self.settled_up_to]
        unstable = [*self.opened(), *unreplicated]
        assert self.state.unstable.first_undecided_offset == min(self.opened(), default=None)
        assert self.state.unstable.first_unstable_offset == min(unstable, default=None)
        assert len(self.state.unstable) == len(unstable)

    @invariant()
    def every_producer_is_as_in_the_model(self) -> None:
        assert {entry.producer_id for entry in self.state} == set(self.model)
        for entry in self.state:
            known = self.model[entry.producer_id]
            assert (entry.epoch, entry.coordinator_epoch) == (known.epoch, known.coordinator_epoch)
            assert entry.open_since_offset == (-1 if known.began_at is None else known.began_at)
            assert (entry.last_timestamp_ms, entry.last_heard_ms) == (known.timestamp_ms, known.heard_ms)
            assert len(entry.batches) <= 5


TestProducerState = ProducerStateMachine.TestCase
