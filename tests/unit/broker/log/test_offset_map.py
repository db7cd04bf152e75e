"""From a key to its newest offset."""

import pytest

from eagleray.broker.log.offset_map import OffsetMap


def test_a_record_is_superseded_by_a_younger_one_of_its_key_only() -> None:
    newest = OffsetMap()
    newest.put(b"a", 3)
    newest.put(b"b", 5)
    newest.put(b"a", 7)
    assert newest.is_superseded(b"a", 3)
    assert not newest.is_superseded(b"a", 7)
    assert not newest.is_superseded(b"a", 8)
    assert not newest.is_superseded(b"b", 5)
    assert not newest.is_superseded(b"unknown", 0)


def test_long_keys_are_told_apart() -> None:
    newest = OffsetMap()
    for number, key in enumerate([bytes(15), bytes(16), bytes(17), b"x" * 1000, b"x" * 999 + b"y"]):
        newest.put(key, number)
    assert len(newest) == 5
    assert newest.is_superseded(b"x" * 1000, 2)
    assert not newest.is_superseded(b"x" * 1000, 3)


def test_a_short_key_is_not_taken_for_the_digest_of_a_long_one() -> None:
    newest = OffsetMap()
    newest.put(bytes(100), 1)
    (digest,) = newest._newest_offsets
    assert len(digest) == 16
    assert not newest.is_superseded(digest, 0)


def test_it_is_full_with_as_many_keys_as_it_may_have() -> None:
    newest = OffsetMap(max_keys=2)
    newest.put(b"a", 0)
    newest.put(b"a", 1)
    assert not newest.is_full
    newest.put(b"b", 2)
    assert newest.is_full
    # What comes with the same batch is still taken.
    newest.put(b"c", 3)
    assert newest.is_superseded(b"c", 2)


def test_a_map_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        OffsetMap(max_keys=0)
