"""The controller's side: sessions, incarnations of nodes, and leaders that hand over."""

from eagleray.broker.controller.events import RegisterNode
from eagleray.broker.controller.replication_control import ReplicationControl
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import Change
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.losses import EVERYTHING, Loss
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import BrokerHeartbeat, BrokerHeartbeatAnswered, Resigned
from eagleray.protocol.errors import ErrorCode
from tests.support.replicas import CONFIG, INCARNATIONS, PARTITION, metadata, registration

STATE = PartitionImage(2, 5, (1, 2, 3), (1, 2, 3))
SESSION_MS = CONFIG.broker_session_timeout_ms


def controller_of(image: MetadataImage) -> ReplicationControl:
    return ReplicationControl(CONFIG, image, 0)


def end_of_session(controller: ReplicationControl, image: MetadataImage) -> tuple[Change, ...]:
    """Let a session pass for a controller that is not held up."""
    assert controller.tick(image, SESSION_MS // 2) == ()
    return controller.tick(image, SESSION_MS)


def answer_of(
    controller: ReplicationControl, image: MetadataImage, node_id: int, now_ms: int, **fields: object
) -> BrokerHeartbeatAnswered:
    heartbeat = BrokerHeartbeat(node_id, fields.pop("incarnation", INCARNATIONS[node_id]), 77, **fields)
    return controller.heartbeat(heartbeat, image, now_ms)[0]


def test_a_heartbeat_keeps_a_session_and_silence_ends_it() -> None:
    image = metadata(STATE)
    controller = controller_of(image)
    for node_id in (1, 3):
        assert answer_of(controller, image, node_id, 500).error_code is ErrorCode.NONE
    after = image.apply(end_of_session(controller, image))
    assert sorted(after.nodes) == [1, 3]
    assert after.find(PARTITION) == PartitionImage(1, 6, (1, 2, 3), (1, 3), 1)


def test_a_node_whose_session_has_ended_is_refused_before_the_log_knows_and_after() -> None:
    image = metadata(STATE)
    controller = controller_of(image)
    changes = end_of_session(controller, image)
    assert answer_of(controller, image, 2, SESSION_MS).error_code is ErrorCode.STALE_BROKER_EPOCH
    after = image.apply(changes)
    assert answer_of(controller, after, 2, SESSION_MS).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert answer_of(controller_of(after), after, 2, 0).error_code is ErrorCode.STALE_BROKER_EPOCH


def test_a_controller_that_was_held_up_itself_gives_its_nodes_time_to_be_heard() -> None:
    image = metadata(STATE)
    controller = controller_of(image)
    late_ms = 10 * SESSION_MS
    assert controller.tick(image, late_ms) == ()
    for node_id in (1, 3):
        assert answer_of(controller, image, node_id, late_ms).error_code is ErrorCode.NONE
    assert controller.tick(image, late_ms + SESSION_MS // 2 - 1) == ()
    after = image.apply(controller.tick(image, late_ms + SESSION_MS // 2))
    assert sorted(after.nodes) == [1, 3]


def test_another_life_is_not_heard() -> None:
    image = metadata(STATE)
    assert answer_of(controller_of(image), image, 2, 1, incarnation=1).error_code is ErrorCode.STALE_BROKER_EPOCH


def test_a_heartbeats_answer_names_the_metadata_that_it_is_about() -> None:
    image = metadata(STATE)
    answer = answer_of(controller_of(image), image, 2, 1)
    assert (answer.metadata_version, answer.sent_ms, answer.incarnation) == (image.version, 77, INCARNATIONS[2])


def test_a_node_that_comes_again_begins_a_life_and_a_late_registration_of_an_older_one_does_not() -> None:
    image = metadata(STATE)
    controller = controller_of(image)
    assert controller.node_came(RegisterNode(0, registration(2), EVERYTHING), image, 1) == ()
    image = image.apply(controller.node_came(RegisterNode(0, registration(2, 23)), image, 1))
    assert image.nodes[2].incarnation == 23
    assert image.leader_epoch_of(PARTITION) == 6
    assert controller.node_came(RegisterNode(0, registration(2), EVERYTHING), image, 1) == ()


def test_node_with_a_session_is_not_taken_for_alive_by_a_node_in_doubt() -> None:
    image = metadata(STATE)
    controller = controller_of(image)
    came = RegisterNode(0, registration(2, 23), Loss((), (PARTITION,), is_everything=True))
    assert controller.node_came(came, image, 5) == ()
    answer_of(controller, image, 1, 5)
    assert controller.has_to_wait(came, image, 6)
    answer_of(controller, image, 3, 6)
    assert image.apply(controller.node_came(came, image, 7)).find(PARTITION).isr == (1, 3)


def test_a_preferred_leader_is_elected_when_the_present_one_has_resigned() -> None:
    image = metadata(STATE)
    controller = controller_of(image)
    assert controller.elect_preferred(PARTITION, image) is ErrorCode.NONE
    assert answer_of(controller, image, 1, 1).resign == ()
    asked = answer_of(controller, image, 2, 1).resign
    assert asked == (Resigned(PARTITION, 5),)
    answer, changes = controller.heartbeat(BrokerHeartbeat(2, INCARNATIONS[2], 78, asked), image, 2)
    after = image.apply(changes)
    assert after.find(PARTITION) == PartitionImage(1, 6, (1, 2, 3), (1, 2, 3), 1)
    assert answer.metadata_version == after.version
    assert answer_of(controller, after, 1, 3).resign == ()


def test_a_preferred_election_that_cannot_be_is_refused() -> None:
    for state, expected in (
        (PartitionImage(1, 5, (1, 2), (1, 2)), ErrorCode.ELECTION_NOT_NEEDED),
        (PartitionImage(2, 5, (1, 2), (2,)), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PartitionImage(NO_NODE, 5, (1, 2), (1,)), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ):
        image = metadata(state)
        assert controller_of(image).elect_preferred(PARTITION, image) is expected
    unknown = TopicPartition("nothing", 0)
    assert controller_of(image).elect_preferred(unknown, image) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_that_holds_up_a_move_is_asked_to_resign() -> None:
    image = metadata(PartitionImage(2, 5, (1, 3, 2), (1, 2, 3), 0, (3,), (2,)))
    assert answer_of(controller_of(image), image, 2, 1).resign == (Resigned(PARTITION, 5),)
