"""A replica changes its part as metadata and pushes tell it, and never leads twice at an epoch."""

from eagleray.broker.log import Flush
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import Resigned
from eagleray.broker.replication.partition import Partition
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS
from tests.support.replicas import CONFIG, INCARNATIONS, PARTITION, held_lease, leader_of, open_log, pushes_in, write

LED_HERE = PartitionImage(1, 5, (1, 2), (1, 2))


def replica() -> Partition:
    return Partition(PARTITION, 1, INCARNATIONS[1], open_log(), lease=held_lease(), config=CONFIG)


def learn(one: Partition, state: PartitionImage) -> list[object]:
    return one.learn(state, INCARNATIONS, 1, NOW_MS)


def test_replica_leads_when_metadata_say_so_and_tells_its_followers() -> None:
    one = replica()
    assert set(pushes_in(learn(one, LED_HERE))) == {2}
    assert one.leader is not None
    assert one.leader_epoch == one.leader.leader_epoch == 5


def test_with_flush_commit_what_an_earlier_life_wrote_is_flushed_before_it_is_led() -> None:
    log = write(open_log(flush=Flush.COMMIT), 1, 1)
    one = Partition(PARTITION, 1, INCARNATIONS[1], log, lease=held_lease(), config=CONFIG)
    learn(one, PartitionImage(1, 5, (1,), (1,)))
    assert (log.recovery_point, log.high_watermark) == (2, 2)


def test_replica_follows_when_another_leads_and_forgets_older_news() -> None:
    one = replica()
    learn(one, LED_HERE)
    assert learn(one, PartitionImage(2, 6, (1, 2), (1, 2), 1)) == [Resigned(PARTITION, 5)]
    assert one.leader is None
    learn(one, LED_HERE)
    assert (one.leader, one.leader_epoch) == (None, 6)


def test_resigned_leader_says_so_until_a_newer_one_leads() -> None:
    one = replica()
    learn(one, LED_HERE)
    one.resign()
    learn(one, PartitionImage(1, 5, (1, 2), (1,), 1))
    assert (one.leader, one.resigned) == (None, Resigned(PARTITION, 5))
    learn(one, PartitionImage(1, 6, (1, 2), (1,), 2))
    assert one.leader is not None
    assert one.resigned is None


def test_a_push_of_a_newer_leader_ends_leading_and_one_of_an_older_is_refused() -> None:
    one = replica()
    learn(one, LED_HERE)
    other = leader_of(write(open_log(), 1), PartitionImage(2, 4, (1, 2), (1, 2)), epoch=4)
    (old,) = pushes_in(other.learn(other.state, {1: INCARNATIONS[1], 2: INCARNATIONS[2]}, NOW_MS)).values()
    answer, effects = one.push(old, NOW_MS)
    assert (answer.error_code, answer.leader_epoch, effects) == (ErrorCode.FENCED_LEADER_EPOCH, 5, [])
    other = leader_of(write(open_log(), 1), PartitionImage(2, 7, (1, 2), (1, 2)), epoch=7)
    (new,) = pushes_in(other.learn(other.state, {1: INCARNATIONS[1], 2: INCARNATIONS[2]}, NOW_MS)).values()
    answer, effects = one.push(new, NOW_MS)
    assert effects == [Resigned(PARTITION, 5)]
    assert (one.leader, one.leader_epoch, answer.leader_epoch) == (None, 7, 7)


def test_a_log_knows_the_epochs_of_its_leaders_before_metadata_does() -> None:
    one = Partition(PARTITION, 1, INCARNATIONS[1], write(open_log(), 9), lease=held_lease(), config=CONFIG)
    learn(one, LED_HERE)
    assert (one.leader, one.leader_epoch) == (None, 9)
