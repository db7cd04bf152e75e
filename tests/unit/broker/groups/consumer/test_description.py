"""What ConsumerGroupDescribe and ListGroups show."""

from eagleray.broker.groups.consumer.state import GroupStatus
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_describe import Assignment, TopicPartitions
from tests.support.consumer_groups import GROUP, Consumer, GroupWorld, settle, topic_id


def assignment(name: str, *numbers: int) -> Assignment:
    return Assignment((TopicPartitions(topic_id=topic_id(name), topic_name=name, partitions=numbers),))


def test_a_group_on_its_way():
    world = GroupWorld()
    first = Consumer(world, "a", instance_id="one", rack_id="r1")
    settle(first)
    settle(Consumer(world, "b", subscribed_topic_regex="pay.*"), rounds=1)
    described = world.groups.describe(GROUP)
    assert (described.error_code, described.error_message) == (0, None)
    assert (described.group_id, described.group_state, described.assignor_name) == (GROUP, "Reconciling", "uniform")
    assert (described.group_epoch, described.assignment_epoch) == (2, 2)
    a, b = described.members
    assert (a.member_id, a.instance_id, a.rack_id, a.member_epoch) == ("a", "one", "r1", 1)
    assert (a.client_id, a.client_host, a.member_type) == ("client-1", "/127.0.0.1", 1)
    assert (a.assignment, a.target_assignment) == (assignment("orders", 0, 1, 2, 3), assignment("orders", 0, 1))
    assert (b.subscribed_topic_names, b.subscribed_topic_regex) == (("orders",), "pay.*")
    assert (b.assignment, b.target_assignment) == (Assignment(), assignment("orders", 2, 3))


def test_partitions_of_topics_that_are_gone_have_no_name_to_be_shown_by():
    world = GroupWorld()
    world.join("a")
    world.set_topics({})
    assert world.groups.describe(GROUP).members[0].assignment == Assignment()


def test_the_states_of_a_group():
    world = GroupWorld()
    first, second = Consumer(world, "a"), Consumer(world, "b")
    states = []
    for happens in (
        first.beat,
        second.beat,
        first.beat,
        first.beat,
        second.beat,
        second.leave,
        first.beat,
        first.leave,
    ):
        happens()
        states.append(world.state.status)
    stable, reconciling, assigning = GroupStatus.STABLE, GroupStatus.RECONCILING, GroupStatus.ASSIGNING
    assert states == [stable, *[reconciling] * 3, stable, assigning, stable, GroupStatus.EMPTY]


def test_a_group_that_is_not_there():
    described = GroupWorld().groups.describe("nobody")
    assert (described.group_id, described.error_code) == ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)
    assert "nobody" in described.error_message
