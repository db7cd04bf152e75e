"""What compaction keeps of a batch."""

from collections.abc import Sequence

import pytest

from eagleray.broker.log.compaction_filter import CompactionFilter
from eagleray.broker.log.offset_map import OffsetMap
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.recovery import apply_batch
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.protocol.records import (
    CompressionType,
    EndTransactionMarker,
    NewRecord,
    Record,
    RecordBatch,
    build_batch,
    rebuild_batch,
)
from tests.support.batches import NOW_MS, marker_batch, one_batch

RETENTION_MS = 1000
HORIZON_MS = NOW_MS + RETENTION_MS
BASE_OFFSET = 10

KeyAndValue = tuple[bytes | None, bytes | None]


def keyed(
    *pairs: KeyAndValue,
    producer_id: int = -1,
    transactional: bool = False,
    compression: CompressionType = CompressionType.NONE,
) -> RecordBatch:
    records = [NewRecord(value, key, NOW_MS - 500 + number) for number, (key, value) in enumerate(pairs)]
    has_producer = producer_id >= 0
    data = build_batch(
        records,
        base_offset=BASE_OFFSET,
        producer_id=producer_id,
        producer_epoch=5 if has_producer else -1,
        base_sequence=70 if has_producer else -1,
        transactional=transactional,
        compression=compression,
        leader_epoch=4,
    )
    return one_batch(data)


def filtering(
    newest: dict[bytes, int] | None = None,
    *,
    end_offset: int = 100,
    now_ms: int = NOW_MS,
    producers: Sequence[RecordBatch] = (),
) -> CompactionFilter:
    offsets = OffsetMap()
    for key, offset in (newest or {}).items():
        offsets.put(key, offset)
    state = ProducerState()
    for batch in producers:
        apply_batch(state, batch, NOW_MS)
    return CompactionFilter(offsets, end_offset, state, now_ms=now_ms, delete_retention_ms=RETENTION_MS)


def keep(filter_: CompactionFilter, batch: RecordBatch, *, must_stay: bool = False) -> RecordBatch | None:
    kept = filter_.keep(batch, must_stay=must_stay)
    return None if kept is None else one_batch(bytes(kept))


def offsets_in(batch: RecordBatch | None) -> list[int]:
    assert batch is not None
    return [record.offset for record in batch.records()]


def test_a_batch_of_which_everything_stays_is_passed_on_as_it_is() -> None:
    batch = keyed((b"a", b"1"), (b"b", b"2"))
    assert filtering({b"a": 10, b"b": 11, b"c": 99}).keep(batch, must_stay=False) is batch.view


@pytest.mark.parametrize("compression", CompressionType)
def test_what_is_superseded_goes_and_the_rest_keeps_its_place(compression: CompressionType) -> None:
    batch = keyed((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), producer_id=7, compression=compression)
    kept = keep(filtering({b"a": 12, b"b": 50}), batch)
    assert kept is not None
    assert kept.records() == [batch.records()[2]]
    before, after = batch.header, kept.header
    assert (after.base_offset, after.last_offset) == (before.base_offset, before.last_offset)
    assert (after.base_sequence, after.last_sequence) == (before.base_sequence, before.last_sequence)
    assert (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch)
    assert after.partition_leader_epoch == before.partition_leader_epoch
    assert after.compression is compression
    assert after.max_timestamp == NOW_MS - 498
    assert after.delete_horizon_ms is None


def test_a_batch_of_which_nothing_stays_goes() -> None:
    assert keep(filtering({b"a": 50}), keyed((b"a", b"1"), (None, b"2"))) is None


def test_records_without_a_key_go() -> None:
    assert offsets_in(keep(filtering(), keyed((None, b"1"), (b"a", b"2")))) == [11]


def test_what_lies_behind_the_map_is_not_judged() -> None:
    batch = keyed((None, b"1"), (b"a", None))
    assert filtering(end_offset=BASE_OFFSET).keep(batch, must_stay=False) is batch.view


class TestTombstones:
    def test_the_first_compaction_sets_the_horizon(self) -> None:
        kept = keep(filtering(), keyed((b"a", None), (b"b", b"2")))
        assert kept is not None
        assert kept.header.delete_horizon_ms == HORIZON_MS
        assert kept.records() == keyed((b"a", None), (b"b", b"2")).records()

    def test_it_is_set_once(self) -> None:
        first = keep(filtering(), keyed((b"a", None)))
        assert first is not None
        assert filtering(now_ms=HORIZON_MS - 1).keep(first, must_stay=False) is first.view

    def test_at_the_horizon_the_tombstone_goes_and_values_stay(self) -> None:
        first = keep(filtering(), keyed((b"a", None), (b"b", b"2")))
        assert first is not None
        second = keep(filtering(now_ms=HORIZON_MS), first)
        assert offsets_in(second) == [11]
        third = filtering(now_ms=HORIZON_MS + 1).keep(second, must_stay=False)
        assert third is second.view

    def test_a_batch_of_due_tombstones_goes(self) -> None:
        first = keep(filtering(), keyed((b"a", None)))
        assert first is not None
        assert keep(filtering(now_ms=HORIZON_MS), first) is None

    def test_a_superseded_tombstone_goes_at_once_and_sets_no_horizon(self) -> None:
        kept = keep(filtering({b"a": 50}), keyed((b"a", None), (b"b", b"2")))
        assert offsets_in(kept) == [11]
        assert kept is not None
        assert kept.header.delete_horizon_ms is None

    def test_without_retention_it_still_survives_the_compaction_that_meets_it(self) -> None:
        filter_ = CompactionFilter(OffsetMap(), 100, ProducerState(), now_ms=NOW_MS, delete_retention_ms=0)
        kept = keep(filter_, keyed((b"a", None)))
        assert offsets_in(kept) == [BASE_OFFSET]
        assert kept is not None
        assert keep(filtering(now_ms=NOW_MS), kept) is None


class TestEmptyBatches:
    def test_the_last_batch_of_a_producer_keeps_its_header(self) -> None:
        batch = keyed((b"a", b"1"), (b"a", b"2"), producer_id=7)
        kept = keep(filtering({b"a": 50}, producers=[batch]), batch)
        assert kept is not None
        assert kept.header.record_count == 0
        assert (kept.header.base_sequence, kept.header.last_sequence) == (70, 71)
        assert (kept.header.base_offset, kept.header.last_offset) == (10, 11)
        assert kept.header.max_timestamp == batch.header.max_timestamp
        assert kept.records() == []

    def test_it_stays_as_it_is_from_then_on(self) -> None:
        batch = keyed((b"a", b"1"), producer_id=7)
        empty = one_batch(rebuild_batch(batch, (), delete_horizon_ms=None))
        assert filtering(producers=[empty]).keep(empty, must_stay=False) is empty.view

    def test_it_goes_when_the_producer_has_sent_more(self) -> None:
        batch = keyed((b"a", b"1"), producer_id=7)
        newer = build_batch([NewRecord(b"2", b"a")], base_offset=50, producer_id=7, producer_epoch=5, base_sequence=71)
        filter_ = filtering({b"a": 50}, producers=[batch, one_batch(newer)])
        assert keep(filter_, batch) is None

    def test_it_goes_when_the_producer_is_forgotten(self) -> None:
        empty = one_batch(rebuild_batch(keyed((b"a", b"1"), producer_id=7), (), delete_horizon_ms=None))
        assert keep(filtering(), empty) is None

    def test_a_batch_that_must_stay_keeps_its_header(self) -> None:
        kept = keep(filtering({b"a": 50}), keyed((b"a", b"1"), (None, b"2")), must_stay=True)
        assert kept is not None
        assert (kept.header.record_count, kept.header.next_offset) == (0, 12)


class TestTransactions:
    def test_aborted_records_go_and_count_as_met(self) -> None:
        batch = keyed((b"a", b"1"), producer_id=7, transactional=True)
        filter_ = filtering()
        filter_.transactions.expect_aborted([AbortedTransaction(7, 10, 11, 12)])
        assert keep(filter_, batch) is None
        marker = marker_batch(7, commit=False, base_offset=11)
        assert filter_.keep(marker, must_stay=False) is marker.view
        assert filter_.aborted == []

    def test_the_index_keeps_what_stays_as_an_empty_batch(self) -> None:
        batch = keyed((b"a", b"1"), producer_id=7, transactional=True)
        aborted = AbortedTransaction(7, 10, 11, 12)
        filter_ = filtering(producers=[batch])
        filter_.transactions.expect_aborted([aborted])
        kept = keep(filter_, batch)
        assert kept is not None
        assert kept.header.record_count == 0
        assert kept.header.is_transactional
        filter_.keep(marker_batch(7, commit=False, base_offset=11), must_stay=False)
        assert filter_.aborted == [aborted]

    @pytest.mark.parametrize("commit", [True, False])
    def test_the_marker_of_a_transaction_that_is_gone_gets_a_horizon_and_goes_when_it_has_passed(
        self, commit: bool
    ) -> None:
        marker = marker_batch(7, commit=commit, coordinator_epoch=9, base_offset=11, leader_epoch=4)
        first = keep(filtering(), marker)
        assert first is not None
        assert first.header.delete_horizon_ms == HORIZON_MS
        assert first.end_transaction_marker() == EndTransactionMarker(commit, 9)
        assert first.header.is_control
        assert filtering(now_ms=HORIZON_MS - 1).keep(first, must_stay=False) is first.view
        assert keep(filtering(now_ms=HORIZON_MS), first) is None

    def test_a_marker_stays_past_its_horizon_while_an_empty_batch_is_left(self) -> None:
        batch = one_batch(
            rebuild_batch(keyed((b"a", b"1"), producer_id=7, transactional=True), (), delete_horizon_ms=None)
        )
        marker = keep(filtering(), marker_batch(7, base_offset=11))
        assert marker is not None
        filter_ = filtering(now_ms=HORIZON_MS)
        filter_.keep(batch, must_stay=False)
        assert filter_.keep(marker, must_stay=False) is marker.view

    def test_the_marker_that_alone_tells_the_epoch_of_its_producer_stays_whole(self) -> None:
        marker = keep(filtering(), marker_batch(7, epoch=6, coordinator_epoch=9, base_offset=11))
        assert marker is not None
        filter_ = filtering(now_ms=HORIZON_MS, producers=[keyed((b"a", b"1"), producer_id=7), marker])
        assert filter_.keep(marker, must_stay=False) is marker.view

    def test_an_empty_control_batch_goes_unless_its_producer_needs_it(self) -> None:
        marker = marker_batch(7, epoch=6, base_offset=11)
        empty = one_batch(rebuild_batch(marker, (), delete_horizon_ms=None))
        assert keep(filtering(), empty) is None
        assert filtering(producers=[marker]).keep(empty, must_stay=False) is empty.view

    def test_a_marker_behind_the_map_is_not_judged(self) -> None:
        marker = marker_batch(7, base_offset=11)
        assert filtering(end_offset=11).keep(marker, must_stay=False) is marker.view

    def test_a_control_batch_of_another_type_stays(self) -> None:
        marker = marker_batch(7, base_offset=11)
        other = one_batch(rebuild_batch(marker, [Record(11, NOW_MS, b"\x00\x00\x00\x05", b"")], delete_horizon_ms=None))
        assert filtering(now_ms=HORIZON_MS).keep(other, must_stay=False) is other.view


def test_a_batch_that_nobody_can_read_stays() -> None:
    batch = keyed((b"a", b"1"))
    garbage = bytearray(batch.view)
    garbage[61] = 0x7F
    unreadable = RecordBatch(memoryview(bytes(garbage)), batch.header)
    assert filtering({b"a": 50}).keep(unreadable, must_stay=False) is unreadable.view
