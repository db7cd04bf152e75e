import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.framing import LENGTH, FrameReader, InvalidFrame


def stream_of(*frames):
    return b"".join(LENGTH.pack(len(frame)) + frame for frame in frames)


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(frames, cuts):
    stream, reader, received = stream_of(*frames), FrameReader(), []
    position, number = 0, 0
    while position < len(stream):
        step = cuts[number % len(cuts)]
        received += [bytes(frame) for frame in reader.feed(stream[position : position + step])]
        position, number = position + step, number + 1
    assert received == frames
    assert reader.buffered_bytes == 0


def test_a_whole_frame_is_a_view_of_what_was_received():
    received = stream_of(b"one", b"two")
    one, two = FrameReader().feed(received)
    assert one.obj is received
    assert two.obj is received


def test_exactly_one_frame_is_known_without_being_fed():
    reader = FrameReader(max_frame_bytes=10)
    assert reader.is_one_frame(stream_of(b"one"))
    assert reader.is_one_frame(stream_of(b""))
    for other in (b"", b"\0\0\0", stream_of(b"one")[:-1], stream_of(b"one", b"two"), stream_of(b"x" * 11)):
        assert not reader.is_one_frame(other)
    reader.feed(stream_of(b"unfinished")[:5])
    assert not reader.is_one_frame(stream_of(b"one")), "it is the middle of another"


def test_an_unfinished_frame_keeps_its_own_bytes_only():
    reader = FrameReader()
    assert len(reader.feed(stream_of(b"x" * 1000, b"unfinished")[:-3])) == 1
    assert reader.buffered_bytes == LENGTH.size + len(b"unfinished") - 3


@pytest.mark.parametrize("length", [-1, -(2**31), 11, 2**31 - 1, int.from_bytes(b"GET ", "big")])
def test_a_length_that_no_frame_has_is_refused_before_anything_is_kept(length):
    reader = FrameReader(max_frame_bytes=10)
    with pytest.raises(InvalidFrame, match=str(length)) as caught:
        reader.feed(LENGTH.pack(length))
    assert caught.value.error_code is ErrorCode.INVALID_REQUEST
    assert reader.buffered_bytes == 0


def test_the_largest_frame_is_taken():
    assert [bytes(frame) for frame in FrameReader(max_frame_bytes=10).feed(stream_of(b"x" * 10))] == [b"x" * 10]


def test_memory_grows_with_what_came_and_not_with_what_was_announced():
    reader = FrameReader(max_frame_bytes=2**31 - 1)
    assert reader.feed(LENGTH.pack(2**31 - 1)) == []
    assert reader.feed(b"abc") == []
    assert reader.buffered_bytes == LENGTH.size + 3
