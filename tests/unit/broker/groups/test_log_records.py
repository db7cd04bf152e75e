"""Records of `__consumer_offsets`, and what replaying them gives."""

import pytest

from eagleray.broker.groups.events import OffsetToCommit
from eagleray.broker.groups.log_records import decode_key, decode_value, encode_key, encode_value, replay
from eagleray.broker.groups.state import StoredOffset
from eagleray.protocol.codec import MalformedMessage, encode_versioned
from eagleray.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from eagleray.protocol.records import (
    EndTransactionMarker,
    NewRecord,
    RecordBatch,
    build_batch,
    build_marker,
    rebuild_batch,
)
from tests.support.batches import NOW_MS, one_batch
from tests.support.groups import GROUP, ORDERS_0, ORDERS_1

KEY = encode_key(GROUP, ORDERS_0)


def value(number: int) -> bytes:
    return encode_value(OffsetToCommit(ORDERS_0, number), NOW_MS)


def batch(*records: tuple[bytes | None, bytes | None], at: int, producer_id: int = -1) -> RecordBatch:
    return one_batch(
        build_batch(
            [NewRecord(content, key=key, timestamp=NOW_MS) for key, content in records],
            base_offset=at,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            transactional=producer_id >= 0,
        )
    )


def end(producer_id: int, *, at: int, commit: bool = True) -> RecordBatch:
    data = build_marker(
        EndTransactionMarker(commit, 3),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
        base_offset=at,
        leader_epoch=0,
    )
    return one_batch(data)


def test_keys_and_values_are_kafkas():
    offset = OffsetToCommit(ORDERS_1, 7, 2, "näher")

    assert encode_key(GROUP, ORDERS_1) == encode_versioned(OffsetCommitKey(group=GROUP, topic="orders", partition=1))
    assert encode_value(offset, 5) == encode_versioned(
        OffsetCommitValue(offset=7, leader_epoch=2, metadata="näher", commit_timestamp=5), 3
    )


def test_both_numbers_of_the_key_are_read():
    assert decode_key(KEY) == (GROUP, ORDERS_0)
    assert decode_key(b"\0\0" + KEY[2:]) == (GROUP, ORDERS_0)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_values_of_all_versions_are_read(version: int):
    message = OffsetCommitValue(
        offset=7, leader_epoch=2 if version >= 3 else -1, metadata="m", commit_timestamp=5, expire_timestamp=9
    )
    written = encode_versioned(message, version)

    expected = StoredOffset(7, message.leader_epoch, "m", 5, 11, 9 if version == 1 else -1)
    assert decode_value(written, 11) == expected


def test_a_damaged_value_is_told():
    with pytest.raises(MalformedMessage):
        decode_value(value(1)[:-1], 0)


def test_the_last_value_of_a_key_stands_and_tombstones_delete():
    other = encode_key(GROUP, ORDERS_1)

    state = replay([batch((KEY, value(1)), (other, value(2)), at=10), batch((KEY, value(3)), (other, None), at=12)])

    assert state.groups[GROUP].offsets == {ORDERS_0: StoredOffset(3, -1, "", NOW_MS, 12)}
    assert state.next_position == 14


def test_records_that_are_not_about_offsets_are_skipped_unharmed():
    group_key = encode_versioned(GroupMetadataKey(group=GROUP))
    members = GroupMetadataValue(protocol_type="consumer", generation=3, members=(MemberMetadata(member_id="m"),))

    state = replay(
        [batch((group_key, encode_versioned(members)), (b"\x00\x63new", b"x"), (None, b"x"), (KEY, value(1)), at=0)]
    )

    assert set(state.groups) == {GROUP}
    assert state.groups[GROUP].offsets[ORDERS_0].offset == 1
    assert replay([batch((group_key, None), at=0)]).groups == {}


def test_transactions_are_decided_by_their_markers():
    log = [batch((KEY, value(1)), at=0, producer_id=7), batch((KEY, value(2)), at=1, producer_id=8)]

    pending = replay(log)
    assert pending.groups[GROUP].offsets == {}
    assert set(pending.groups[GROUP].pending) == {7, 8}
    committed = replay([*log, end(8, at=2), end(7, at=3)])
    assert committed.groups[GROUP].offsets[ORDERS_0].offset == 2
    assert committed.groups[GROUP].pending == {}
    aborted = replay([*log, end(8, at=2, commit=False), end(7, at=3)])
    assert aborted.groups[GROUP].offsets[ORDERS_0].offset == 1


def test_a_marker_of_which_compaction_has_left_only_the_batch_decides_nothing():
    emptied = one_batch(rebuild_batch(end(7, at=5), [], delete_horizon_ms=None))

    state = replay([batch((KEY, value(1)), at=0, producer_id=7), emptied])

    assert set(state.groups[GROUP].pending) == {7}
    assert state.next_position == 6


def test_state_says_which_topics_there_are_offsets_of():
    state = replay([batch((KEY, value(1)), at=0), batch((encode_key("g", ORDERS_1), value(1)), at=1, producer_id=7)])

    assert state.topics() == {"orders"}
