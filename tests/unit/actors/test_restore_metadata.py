"""Which metadata come back, by what the directories of a stopped cluster have."""

from contextlib import suppress
from itertools import count

import pytest
from msgspec.structs import replace

from eagleray.actors.storage.data_directory import DataDirectory
from eagleray.actors.storage.log_manager import LogManager
from eagleray.actors.storage.restore_metadata import carry_out, data_directories
from eagleray.actors.storage.restore_plan import CannotRestore, plan_restore
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.broker.metadata.changes import NodesPlanned, ProducerIdsTaken, TopicCreated
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.kept_image import KeptImage, write_kept_image
from eagleray.broker.metadata.log_records import replay
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.metadata.positions import MetadataPosition, TermBeginning
from eagleray.broker.metadata.restoring import PRODUCER_IDS_SKIPPED
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.quorum.election_state import ElectionState, read_election_state, write_election_state
from eagleray.broker.transactions.log_records import encode_key, encode_value
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import CHANGES, Fault, Outcome, ProcessKilled
from tests.support.node_disk import NodeDisk

FIRST, SECOND = "/data/machine-0", "/data/machine-1"
BOTH = [FIRST, SECOND]
ROLES = ("controller", "leader")
ORDERS, TRANSACTIONS = TopicPartition("orders", 0), TopicPartition("__transaction_state", 0)
LOG = "logs/__cluster_metadata-0"


def id_of(topic):
    return topic.encode().ljust(16)[:16]


def image_at(version, replicas=(0, 100), roles=ROLES):
    plan = (PlannedNode(0, roles, None, "machine-0"), PlannedNode(100, roles, None, "machine-1"))
    states = (PartitionImage(replicas[0], 3, replicas, replicas),)
    created = [TopicCreated(each.topic, id_of(each.topic), {}, states) for each in (ORDERS, TRANSACTIONS)]
    image = EMPTY_IMAGE.apply([NodesPlanned(plan), *created, ProducerIdsTaken(5000)])
    return replace(image, cluster_id="ours", version=version, terms=(TermBeginning(4, 1),))


def keep(disk, data_dir, node_id, image, position=None):
    directory = DataDirectory(disk, data_dir, node_id)
    directory.belong_to("ours")
    write_kept_image(disk, data_dir, node_id, KeptImage(sequence=1, image=image))
    directory.note_position(position or image.position)


def write_log(disk, data_dir, partition=ORDERS, records=3, epoch=3, topic_id=None, batches=()):
    logs = LogManager(data_dir, {}, disk)
    log = logs.open(partition, {}, topic_id or id_of(partition.topic), now_ms=NOW_MS)
    for batch in batches or [data_batch() for _ in range(records)]:
        log.append([batch], leader_epoch=epoch, now_ms=NOW_MS)
    return logs, log


@pytest.fixture
def disk():
    disk = NodeDisk()
    keep(disk, FIRST, 0, image_at(50))
    keep(disk, SECOND, 100, image_at(52))
    return disk


def test_newest_image_is_taken_and_nothing_changes_by_looking(disk):
    before = disk.tree()
    plan = plan_restore(disk, BOTH)
    assert disk.tree() == before
    assert plan.source == f"{SECOND}/nodes/100.image"
    assert (plan.source_position.version, plan.given_up) == (52, 0)
    assert plan.voters == {0: FIRST, 100: SECOND}
    assert plan.term == 5


def test_what_a_node_has_heard_of_and_none_has_kept_is_given_up_and_counted(disk):
    heard = MetadataPosition("ours", 6, 57)
    DataDirectory(disk, FIRST, 0).note_position(heard)
    plan = plan_restore(disk, BOTH)
    assert plan.given_up == 5
    assert plan.image.includes(heard)
    assert plan.term == 7


def test_term_is_above_that_of_every_election_state_and_log(disk):
    disk.make_directories(f"{FIRST}/{LOG}")
    write_election_state(disk, f"{FIRST}/{LOG}/quorum-state", ElectionState(term=40, sequence=1))
    assert plan_restore(disk, BOTH).term == 41


def test_producer_ids_are_above_those_of_batches_snapshots_and_transactions(disk):
    assert plan_restore(disk, BOTH).image.next_producer_id == 5000 + PRODUCER_IDS_SKIPPED
    write_log(disk, FIRST, batches=[data_batch(producer_id=6001)])
    assert plan_restore(disk, BOTH).image.next_producer_id == 6002 + PRODUCER_IDS_SKIPPED
    logs, log = write_log(disk, SECOND, batches=[data_batch(producer_id=7001)])
    logs.close_all()
    log_file = f"{SECOND}/logs/{ORDERS}/{0:020d}.log"
    disk.open(log_file).truncate(0)
    assert plan_restore(disk, BOTH).image.next_producer_id == 7002 + PRODUCER_IDS_SKIPPED, "by the snapshot"
    snapshot = Snapshot(
        state=TransactionState.EMPTY, producer_id=8001, producer_epoch=0, timeout_ms=1, updated_ms=NOW_MS
    )
    _, log = write_log(disk, FIRST, TRANSACTIONS, records=0, batches=[data_batch()])
    log.append_records([(encode_key("billing"), encode_value(snapshot))], leader_epoch=3, now_ms=NOW_MS)
    plan = plan_restore(disk, BOTH)
    assert plan.image.next_producer_id == 8002 + PRODUCER_IDS_SKIPPED


def test_partition_is_led_by_the_machine_that_has_most_of_it(disk):
    write_log(disk, FIRST, records=3)
    write_log(disk, SECOND, records=5, epoch=9)
    state = plan_restore(disk, BOTH).image.find(ORDERS)
    assert (state.leader, state.isr, state.replicas, state.leader_epoch) == (100, (100,), (0, 100), 10)


def test_batch_that_was_torn_does_not_count(disk):
    write_log(disk, FIRST, records=3)
    _, log = write_log(disk, SECOND, records=3)
    disk.rot(f"{SECOND}/logs/{ORDERS}/{0:020d}.log", log.size_bytes - 5, 1)
    plan = plan_restore(disk, BOTH)
    assert plan.image.find(ORDERS).isr == (0,)
    assert any("is not valid" in each for each in plan.problems)


def test_replica_that_has_moved_after_the_newest_image_leads_where_it_has_more():
    disk = NodeDisk()
    keep(disk, FIRST, 0, image_at(50, replicas=(0,)))
    keep(disk, SECOND, 100, image_at(50, replicas=(0,)))
    write_log(disk, FIRST, records=3)
    write_log(disk, SECOND, records=4)
    state = plan_restore(disk, BOTH).image.find(ORDERS)
    assert (state.leader, state.isr, state.replicas) == (100, (100,), (0, 100))
    disk.remove_tree(f"{SECOND}/logs")
    write_log(disk, SECOND, records=2)
    state = plan_restore(disk, BOTH).image.find(ORDERS)
    assert (state.leader, state.isr, state.replicas) == (0, (0,), (0,)), "what it has moved from"


def test_directories_that_the_image_does_not_know_are_listed_and_stay(disk):
    write_log(disk, FIRST, TopicPartition("unknown", 0))
    write_log(disk, SECOND, topic_id=id_of("another"))
    plan = plan_restore(disk, BOTH)
    assert plan.strays == (f"{FIRST}/logs/unknown-0", f"{SECOND}/logs/orders-0")
    assert plan.partitions_without_files == (ORDERS,)


def test_histories_that_did_not_lead_to_one_another_are_refused(disk):
    DataDirectory(disk, FIRST, 0).note_position(MetadataPosition("ours", 3, 40))
    other = replace(image_at(30), terms=(TermBeginning(4, 1), TermBeginning(9, 20)))
    write_kept_image(disk, SECOND, 100, KeptImage(sequence=2, image=other))
    with pytest.raises(CannotRestore, match="cannot all have led to one another"):
        plan_restore(disk, BOTH)


def test_directories_of_two_clusters_are_refused(disk):
    write_kept_image(disk, FIRST, 0, KeptImage(sequence=2, image=replace(image_at(60), cluster_id="theirs")))
    with pytest.raises(CannotRestore, match="are of clusters ours, theirs"):
        plan_restore(disk, BOTH)


def test_directories_without_anything_that_can_be_read_are_refused(disk):
    for path in [path for path in disk.tree() if ".image" in path]:
        disk.rot(path, 40, 1)
    with pytest.raises(CannotRestore, match="no node has kept an image"):
        plan_restore(disk, BOTH)
    with pytest.raises(CannotRestore, match="/other is no data directory"):
        data_directories(disk, "/other")


def restored_image(disk, data_dir):
    log = LogManager(data_dir, {}, disk).open(TopicPartition("__cluster_metadata", 0), {}, bytes(16), now_ms=NOW_MS)
    assert isinstance(log, PartitionLog)
    return replay([bytes(record.value) for batch in log.batches() for record in batch.records()])


def test_restored_log_is_whole_and_is_not_made_again(disk):
    plan = plan_restore(disk, BOTH)
    carry_out(disk, plan, NOW_MS)
    for data_dir in BOTH:
        election = read_election_state(disk, f"{data_dir}/{LOG}/quorum-state")
        assert (election.term, election.is_whole, election.committed) == (5, True, 1)
    with pytest.raises(CannotRestore, match="nothing is lost, and nothing was changed"):
        plan_restore(disk, BOTH)
    assert restored_image(disk, FIRST) == plan.image


def test_restoring_that_is_interrupted_anywhere_can_be_done_again(disk):
    carry_out(disk, plan_restore(disk, BOTH), NOW_MS)
    for data_dir in BOTH:
        disk.rot(f"{data_dir}/{LOG}/{0:020d}.log", 80, 1)
    first, old = disk, disk.read_bytes(f"{FIRST}/{LOG}/{0:020d}.log")
    for step in count():
        disk = first.copy()
        with disk.possibly(Fault(Outcome.KILL, on=CHANGES, skip=step)) as fault, suppress(ProcessKilled):
            carry_out(disk, plan_restore(disk, BOTH), NOW_MS)
        disk.crash_process()
        with suppress(CannotRestore):
            carry_out(disk, plan_restore(disk, BOTH), NOW_MS)
        # One voter has it, and the other has it too, or gets it because its own is gone.
        assert old in disk.tree().values(), "it is kept"
        assert [restored_image(disk, each).find(ORDERS) for each in BOTH if disk.exists(f"{each}/{LOG}")]
        if not fault.has_fired:
            assert step > 20
            break
