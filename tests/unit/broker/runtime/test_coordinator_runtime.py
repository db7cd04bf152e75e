"""The coordinator runtime: records go out at the end of a turn, and what is said waits until they are committed."""

import pytest

from eagleray.broker.runtime.coordinator_runtime import CoordinatorRuntime, CoordinatorShard
from eagleray.protocol.errors import ErrorCode


class Log:
    """A log that refuses what it is told to, and counts how often it is asked."""

    def __init__(self) -> None:
        self.refusals: dict[int, ErrorCode] = {}
        self.checks: list[tuple[int, int]] = []

    def check(self, partition: int, epoch: int) -> ErrorCode:
        self.checks.append((partition, epoch))
        return self.refusals.get(partition, ErrorCode.NONE)


def refused(said: str, error_code: ErrorCode) -> str | None:
    return None if said.startswith("markers") else f"{said}: {error_code.name}"


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def runtime(log: Log) -> CoordinatorRuntime[CoordinatorShard, str, int, str]:
    runtime: CoordinatorRuntime[CoordinatorShard, str, int, str] = CoordinatorRuntime(log.check, refused)
    for partition in (0, 1):
        runtime.open(CoordinatorShard(partition, 7))
    return runtime


def appended(runtime: CoordinatorRuntime, shard: CoordinatorShard, *keys: str) -> int:
    """Append in a turn of its own; return its position."""
    for key in keys or ("key",):
        runtime.append(shard, key, 1)
    said, [append] = runtime.end_turn()
    assert said == []
    return append.position


def said_now(runtime: CoordinatorRuntime) -> list[str]:
    said, appends = runtime.end_turn()
    assert appends == []
    return said


def test_effect_that_rests_on_no_record_is_said_at_once(runtime: CoordinatorRuntime):
    runtime.say(runtime.shards[0], "read")
    runtime.say_at_once("unknown")
    runtime.say_of_all(runtime.shards.values(), "list")

    assert said_now(runtime) == ["read", "unknown", "list"]


def test_the_records_of_a_turn_go_out_together_and_their_answers_wait(runtime: CoordinatorRuntime):
    shard = runtime.shards[0]
    runtime.say(shard, "before")
    runtime.append(shard, "a", 1)
    runtime.say(shard, "answer to a")
    runtime.append(shard, "b", 2)
    runtime.say(shard, "answer to b")

    said, [append] = runtime.end_turn()
    assert said == ["before"], "it was said before anything was appended"
    assert (append.log_partition, append.coordinator_epoch) == (shard.partition, shard.epoch)
    assert append.records == [("a", 1), ("b", 2)]
    runtime.committed(shard, append.position)

    assert said_now(runtime) == ["answer to a", "answer to b"]


def test_a_reading_waits_for_what_was_appended_before_it_and_no_more(runtime: CoordinatorRuntime):
    shard, other = runtime.shards.values()
    first = appended(runtime, shard)
    runtime.say(shard, "read")
    runtime.say(other, "read elsewhere")
    assert said_now(runtime) == ["read elsewhere"]
    second = appended(runtime, shard)
    runtime.say(shard, "read again")

    runtime.committed(shard, first)
    assert said_now(runtime) == ["read"]
    runtime.committed(shard, first)
    assert said_now(runtime) == []
    runtime.committed(shard, second)
    assert said_now(runtime) == ["read again"]


def test_a_commit_covers_all_before_it(runtime: CoordinatorRuntime):
    shard = runtime.shards[0]
    appended(runtime, shard)
    runtime.say(shard, "first")
    last = appended(runtime, shard)
    runtime.say(shard, "last")

    runtime.committed(shard, last)

    assert said_now(runtime) == ["first", "last"]


def test_a_record_takes_the_place_of_one_that_it_supersedes_in_its_turn(runtime: CoordinatorRuntime):
    shard = runtime.shards[0]
    runtime.append(shard, "a", 1, supersedes=True)
    runtime.append(shard, "b", 2)
    runtime.append(shard, "a", 3, supersedes=True)
    runtime.append(shard, "b", 4)
    _, [append] = runtime.end_turn()
    runtime.append(shard, "a", 5, supersedes=True)
    _, [in_next_turn] = runtime.end_turn()

    assert append.records == [("a", 3), ("b", 2), ("b", 4)]
    assert in_next_turn.records == [("a", 5)]


def test_effect_that_rests_on_all_shards_waits_for_the_last_and_is_said_once(runtime: CoordinatorRuntime):
    shard, other = runtime.shards.values()
    positions = appended(runtime, shard), appended(runtime, other)
    runtime.say_of_all(runtime.shards.values(), "list")

    runtime.committed(other, positions[1])
    assert said_now(runtime) == []
    runtime.committed(shard, positions[0])
    assert said_now(runtime) == ["list"]


def test_the_log_is_asked_once_a_turn_whether_it_takes_anything(runtime: CoordinatorRuntime, log: Log):
    shard, other = runtime.shards.values()
    log.refusals[1] = ErrorCode.NOT_COORDINATOR

    for _ in range(3):
        assert runtime.refusal(shard) is ErrorCode.NONE
        assert runtime.refusal(other) is ErrorCode.NOT_COORDINATOR
    assert log.checks == [(0, 7), (1, 7)]
    runtime.end_turn()
    log.refusals.clear()

    assert runtime.refusal(other) is ErrorCode.NONE


def test_a_shard_that_is_thrown_away_refuses_what_it_held_back(runtime: CoordinatorRuntime):
    shard, other = runtime.shards.values()
    appended(runtime, shard)
    runtime.say(shard, "answer")
    runtime.say(shard, "markers")
    in_other = appended(runtime, other)
    runtime.say(other, "elsewhere")
    runtime.say_of_all(runtime.shards.values(), "list")
    runtime.append(shard, "never appended", 1)

    runtime.close(shard, ErrorCode.NOT_COORDINATOR)

    assert said_now(runtime) == ["answer: NOT_COORDINATOR", "list: NOT_COORDINATOR"]
    assert runtime.find(0, 7) is None
    runtime.committed(other, in_other)
    assert said_now(runtime) == ["elsewhere"], "the list is not answered twice"


def test_a_list_is_refused_once_though_all_that_it_rests_on_are_thrown_away(runtime: CoordinatorRuntime):
    for shard in runtime.shards.values():
        appended(runtime, shard)
    runtime.say_of_all(runtime.shards.values(), "list")

    for shard in [*runtime.shards.values()]:
        runtime.close(shard, ErrorCode.NOT_COORDINATOR)

    assert said_now(runtime) == ["list: NOT_COORDINATOR"]


def test_a_late_commit_is_not_taken_for_one_of_the_successor(runtime: CoordinatorRuntime):
    shard = runtime.shards[0]
    lost = appended(runtime, shard)
    runtime.close(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    successor: CoordinatorShard = CoordinatorShard(0, 7)
    runtime.open(successor)
    appended(runtime, successor)
    runtime.say(successor, "answer")

    runtime.committed(successor, lost)

    assert said_now(runtime) == []


def test_a_shard_is_found_at_its_epoch_alone(runtime: CoordinatorRuntime):
    assert runtime.find(0, 7) is runtime.shards[0]
    assert runtime.find(0, 6) is None
    assert runtime.find(2, 7) is None
    with pytest.raises(AssertionError, match="is open"):
        runtime.open(CoordinatorShard(0, 8))
