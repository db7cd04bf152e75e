"""Fetch sessions: what is remembered, what is told, and who has to make room."""

import pytest

from eagleray.actors.kafka_server.fetch_sessions import NO_SESSION, FetchSessions, Reading
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import FetchedPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sessions(clock):
    return FetchSessions(2, clock)


def asking(*numbers, session_id=0, epoch=-1, offset=0, forget=()):
    topics = (
        FetchTopic("orders", partitions=tuple(FetchPartition(number, fetch_offset=offset) for number in numbers)),
    )
    forgotten = (ForgottenTopic("orders", partitions=forget),) if forget else ()
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if numbers else (),
        forgotten_topics_data=forgotten,
    )


def found(number, high_watermark=0, records=b"", error_code=ErrorCode.NONE):
    return FetchedPartition(TopicPartition("orders", number), error_code, high_watermark, 0, 0, (), records)


def numbers(reading):
    return [position.key[2] for position in reading.positions]


def told(reading, *partitions):
    """The numbers of the partitions that the answer has."""
    by_number = dict(zip(numbers(reading), reading.positions, strict=True))
    return [one.partition.partition for one in partitions if reading.tells(by_number[one.partition.partition], one)]


def test_without_a_session_everything_is_said_and_told_each_time(sessions):
    reading = sessions.begin(asking(0, 1), 12)
    assert reading.session_id == NO_SESSION
    assert told(reading, found(0), found(1)) == [0, 1]
    assert len(sessions) == 0


def test_within_a_session_only_news_is_told(sessions):
    first = sessions.begin(asking(0, 1, 2, epoch=0), 12)
    assert first.session_id != NO_SESSION
    assert told(first, found(0), found(1), found(2)) == [0, 1, 2]
    second = sessions.begin(asking(session_id=first.session_id, epoch=1), 12)
    assert numbers(second) == [0, 1, 2]
    assert told(second, found(0), found(1, 5), found(2, records=b"x")) == [1, 2]
    third = sessions.begin(asking(session_id=first.session_id, epoch=2), 12)
    refused = found(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert told(third, refused, found(1, 5), found(2)) == [0]
    assert told(third, refused) == [0], "an error is told as long as it lasts"


def test_a_partition_that_had_records_stands_behind_the_others_next_time(sessions):
    first = sessions.begin(asking(0, 1, epoch=0), 12)
    second = sessions.begin(asking(session_id=first.session_id, epoch=1), 12)
    told(second, found(0, records=b"x"), found(1))
    assert numbers(sessions.begin(asking(session_id=first.session_id, epoch=2), 12)) == [1, 0]


def test_a_session_is_changed_by_what_a_request_names_and_forgets(sessions):
    first = sessions.begin(asking(0, 1, epoch=0), 12)
    second = sessions.begin(asking(1, 2, session_id=first.session_id, epoch=1, offset=7, forget=(0,)), 12)
    assert numbers(second) == [1, 2]
    assert [position.offset for position in second.positions] == [7, 7]
    emptied = sessions.begin(asking(session_id=first.session_id, epoch=2, forget=(1, 2)), 12)
    assert (emptied.session_id, numbers(emptied)) == (NO_SESSION, [])
    assert len(sessions) == 0


def test_a_session_that_does_not_fit_is_refused(sessions):
    first = sessions.begin(asking(0, epoch=0), 12)
    again = {"session_id": first.session_id}
    assert sessions.begin(asking(session_id=99, epoch=1), 12) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.begin(asking(epoch=2, **again), 12) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.begin(asking(epoch=1, **again), 13) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert isinstance(sessions.begin(asking(epoch=1, **again), 12), Reading)
    assert sessions.begin(asking(epoch=1, **again), 12) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_is_closed_with_the_last_epoch_and_replaced_with_the_first(sessions):
    first = sessions.begin(asking(0, epoch=0), 12)
    second = sessions.begin(asking(0, session_id=first.session_id, epoch=0), 12)
    assert second.session_id not in {first.session_id, NO_SESSION}
    assert len(sessions) == 1
    last = sessions.begin(asking(0, session_id=second.session_id, epoch=-1), 12)
    assert last.session_id == NO_SESSION
    assert len(sessions) == 0


def test_the_session_that_was_used_the_longest_ago_makes_room_once_it_is_old(sessions, clock):
    first = sessions.begin(asking(0, epoch=0), 12)
    clock.now_s = 10
    second = sessions.begin(asking(0, epoch=0), 12)
    assert sessions.begin(asking(0, epoch=0), 12).session_id == NO_SESSION, "both are in use"
    clock.now_s = 100
    sessions.begin(asking(session_id=first.session_id, epoch=1), 12)
    clock.now_s = 131
    assert sessions.begin(asking(0, epoch=0), 12).session_id != NO_SESSION
    gone = sessions.begin(asking(session_id=second.session_id, epoch=1), 12)
    assert gone is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(sessions.begin(asking(session_id=first.session_id, epoch=2), 12), Reading)


def test_without_slots_there_are_no_sessions(clock):
    sessions = FetchSessions(0, clock)
    assert sessions.begin(asking(0, epoch=0), 12).session_id == NO_SESSION


ROOM_FOR_FOUR = 4 * (400 + len("orders"))


def test_session_for_which_there_is_no_room_is_not_begun(clock):
    sessions = FetchSessions(100, clock, most_bytes=ROOM_FOR_FOUR)
    assert sessions.begin(asking(0, 1, 2, epoch=0), 12).session_id != NO_SESSION
    assert sessions.begin(asking(0, 1, epoch=0), 12).session_id == NO_SESSION
    assert sessions.begin(asking(0, epoch=0), 12).session_id != NO_SESSION
    assert sessions.size_bytes == ROOM_FOR_FOUR


def test_session_that_is_not_used_makes_room_for_others(clock):
    sessions = FetchSessions(100, clock, most_bytes=ROOM_FOR_FOUR)
    idle = sessions.begin(asking(0, 1, 2, epoch=0), 12).session_id
    clock.now_s = 121
    assert sessions.begin(asking(0, 1, epoch=0), 12).session_id != NO_SESSION
    assert sessions.begin(asking(session_id=idle, epoch=1), 12) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.size_bytes == ROOM_FOR_FOUR // 2


def test_session_that_grows_beyond_the_room_ends_and_leaves_the_others(clock):
    sessions = FetchSessions(100, clock, most_bytes=ROOM_FOR_FOUR)
    growing = sessions.begin(asking(0, epoch=0), 12).session_id
    other = sessions.begin(asking(0, epoch=0), 12).session_id
    more = asking(1, 2, 3, 4, session_id=growing, epoch=1)
    assert sessions.begin(more, 12) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(sessions.begin(asking(session_id=other, epoch=1), 12), Reading)
    assert sessions.size_bytes == ROOM_FOR_FOUR // 4


def test_forgotten_partitions_make_room(clock):
    sessions = FetchSessions(100, clock, most_bytes=ROOM_FOR_FOUR)
    session = sessions.begin(asking(0, 1, 2, 3, epoch=0), 12).session_id
    changed = sessions.begin(asking(4, session_id=session, epoch=1, forget=(0, 1)), 12)
    assert numbers(changed) == [2, 3, 4]
    assert sessions.size_bytes == ROOM_FOR_FOUR * 3 // 4
