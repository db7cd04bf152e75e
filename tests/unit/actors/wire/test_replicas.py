"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders on the wire."""

import msgspec
import pytest

from eagleray.actors.wire.handlers import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from eagleray.broker.controller.events import ElectLeaders, ListReassignments, ReassignPartitions
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from eagleray.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from eagleray.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.client_world import CONTROLLER, COORDINATOR, LEADER_A, LEADER_B, Fate
from tests.support.wire_calls import TwoMachines, in_wire_world

PREFERRED, UNCLEAN = 0, 1
FIRST = TopicPartition("orders", 0)


def moves(*partitions, topic="orders", **fields):
    wanted = tuple(ReassignablePartition(number, replicas) for number, replicas in partitions)
    return AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(topic, wanted),), **fields)


async def outcomes(world, request, version=-1):
    response = await world.request(alter_partition_reassignments, request, version=version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return {
        (topic.name, partition.partition_index): (ErrorCode(partition.error_code), partition.error_message)
        for topic in response.responses
        for partition in topic.partitions
    }


def code_of(found, number, topic="orders"):
    return found[topic, number][0]


def places(world):
    """Where the first partition is, and the node on the other machine."""
    leader = world.image.leader_of(FIRST)
    return leader, LEADER_B if leader == LEADER_A else LEADER_A


async def moving(world, topics=None):
    response = await world.request(
        list_partition_reassignments, ListPartitionReassignmentsRequest(topics=topics), node=LEADER_B
    )
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return {
        (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    }


# Moves


@pytest.mark.parametrize("version", range(2))
def test_a_move_is_begun_and_listed_until_it_is_taken_back(version):
    async def main(world):
        here, there = places(world)
        assert await outcomes(world, moves((0, (there,))), version) == {("orders", 0): (ErrorCode.NONE, None)}
        expected = {("orders", 0): ((there, here), (there,), (here,))}
        assert await moving(world) == expected
        assert await moving(world, (ListPartitionReassignmentsTopics("orders", (0, 1, 9)),)) == expected
        assert await moving(world, (ListPartitionReassignmentsTopics("invoices", (0,)),)) == {}
        assert await moving(world, ()) == {}
        assert await outcomes(world, moves((0, None)), version) == {("orders", 0): (ErrorCode.NONE, None)}
        assert await moving(world) == {}
        assert world.image.find(FIRST).replicas == (here,)

    in_wire_world(main, kind=TwoMachines)


def test_each_move_is_refused_on_its_own():
    async def main(world):
        here, there = places(world)
        request = moves((0, (there,)), (1, ()), (2, None), (9, (here,)), (-1, (here,)))
        found = await outcomes(world, request)
        assert {number: code for (_, number), (code, _) in found.items()} == {
            0: ErrorCode.NONE,
            1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            2: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            -1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert [bool(message) for _, message in found.values()] == [False, True, True, True, True]
        assert [*await moving(world)] == [("orders", 0)]

    in_wire_world(main, kind=TwoMachines)


@pytest.mark.parametrize(
    ("replicas", "said"),
    [((COORDINATOR,), "leads none"), ((77,), "leads none"), ((LEADER_A, LEADER_A), "machine of its own")],
)
def test_replicas_are_on_leaders_and_each_on_a_machine_of_its_own(replicas, said):
    async def main(world):
        code, message = (await outcomes(world, moves((0, replicas))))["orders", 0]
        assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert said in message

    in_wire_world(main, kind=TwoMachines)


def test_a_partition_gets_more_replicas_only_where_the_client_allows_it():
    async def main(world):
        here, there = places(world)
        both = moves((0, (here, there)), allow_replication_factor_change=False)
        code, message = (await outcomes(world, both))["orders", 0]
        assert code is ErrorCode.INVALID_REPLICATION_FACTOR
        assert "from 1 to 2" in message
        one = moves((0, (there,)), allow_replication_factor_change=False)
        assert code_of(await outcomes(world, one), 0) is ErrorCode.NONE
        # Of the two that it has while it is moved, one goes.
        assert code_of(await outcomes(world, both), 0) is ErrorCode.INVALID_REPLICATION_FACTOR
        assert code_of(await outcomes(world, moves((0, (here, there)))), 0) is ErrorCode.NONE
        assert await moving(world) == {("orders", 0): ((here, there), (there,), ())}

    in_wire_world(main, kind=TwoMachines)


def test_a_partition_that_is_named_twice_is_not_moved():
    async def main(world):
        here, there = places(world)
        assert code_of(await outcomes(world, moves((0, (there,)), (0, (here,)))), 0) is ErrorCode.INVALID_REQUEST
        assert await moving(world) == {}

    in_wire_world(main, kind=TwoMachines)


def test_without_an_answer_of_the_controller_the_whole_request_has_timed_out():
    async def main(world):
        world.network.plan(ReassignPartitions, Fate.REPLY_LOST)
        world.network.plan(ListReassignments, Fate.REQUEST_LOST)
        world.network.plan(ElectLeaders, Fate.REQUEST_LOST, 2)
        answers = [
            await world.request(alter_partition_reassignments, moves((0, None))),
            await world.request(list_partition_reassignments, ListPartitionReassignmentsRequest()),
            await world.request(elect_leaders, election(FIRST)),
        ]
        assert [answer.error_code for answer in answers] == [ErrorCode.REQUEST_TIMED_OUT] * 3
        assert all(answer.error_message for answer in answers[:2])
        oldest = await world.request(elect_leaders, election(FIRST), version=0)
        assert results(oldest) == {("orders", 0): ErrorCode.REQUEST_TIMED_OUT}

    in_wire_world(main, kind=TwoMachines)


# Elections


def election(*partitions, kind=PREFERRED, **fields):
    wanted = tuple(TopicPartitions(name.topic, (name.partition,)) for name in partitions)
    return ElectLeadersRequest(election_type=kind, topic_partitions=wanted or None, **fields)


def results(response):
    return {
        (topic.topic, each.partition_id): ErrorCode(each.error_code)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", range(3))
def test_where_the_first_replica_leads_no_election_is_needed(version):
    async def main(world):
        request = election(FIRST, TopicPartition("orders", 9), TopicPartition("nothing", 0))
        response = await world.request(elect_leaders, request, version=version)
        assert response.error_code == ErrorCode.NONE
        assert results(response) == {
            ("orders", 0): ErrorCode.ELECTION_NOT_NEEDED,
            ("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        everywhere = await world.request(elect_leaders, election(), version=version)
        assert (everywhere.error_code, results(everywhere)) == (ErrorCode.NONE, {})

    in_wire_world(main)


def with_first(world, **fields):
    """Put something else about the first partition into the controller's metadata, and everybody's."""
    controller = world.nodes[CONTROLLER].controller
    orders = controller.image.topics["orders"]
    first = msgspec.structs.replace(orders.partitions[0], **fields)
    after = msgspec.structs.replace(orders, partitions=(first, *orders.partitions[1:]))
    controller._image = msgspec.structs.replace(controller.image, topics=controller.image.topics | {"orders": after})
    world.image_changed(controller.image)


def test_a_first_replica_that_is_not_in_sync_does_not_lead():
    async def main(world):
        here, there = places(world)
        with_first(world, replicas=(there, here), isr=(here,))
        assert results(await world.request(elect_leaders, election())) == {
            ("orders", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        }

    in_wire_world(main, kind=TwoMachines)


def test_an_election_waits_for_the_leader_to_hand_over_but_not_for_ever():
    async def main(world):
        here, there = places(world)
        with_first(world, replicas=(there, here), isr=(there, here))
        response = await world.request(elect_leaders, election(FIRST, timeout_ms=700))
        assert 0.7 <= world.loop.time() < 1
        assert results(response) == {("orders", 0): ErrorCode.REQUEST_TIMED_OUT}
        world.loop.call_later(0.3, lambda: with_first(world, leader=there))
        response = await world.request(elect_leaders, election(FIRST))
        assert results(response) == {("orders", 0): ErrorCode.NONE}

    in_wire_world(main, kind=TwoMachines)


@pytest.mark.parametrize("wants_all", [True, False])
def test_an_unclean_election_gives_a_partition_without_a_leader_to_one_that_lives(wants_all):
    async def main(world):
        here, there = places(world)
        with_first(world, leader=-1, replicas=(here, there), isr=(77,))
        epoch = world.image.leader_epoch_of(FIRST)
        request = election(*() if wants_all else (FIRST,), kind=UNCLEAN)
        assert results(await world.request(elect_leaders, request)) == {("orders", 0): ErrorCode.NONE}
        state = world.image.find(FIRST)
        assert (state.leader, state.isr, state.leader_epoch) == (here, (here,), epoch + 1)
        again = await world.request(elect_leaders, election(FIRST, kind=UNCLEAN))
        assert results(again) == {("orders", 0): ErrorCode.ELECTION_NOT_NEEDED}

    in_wire_world(main, kind=TwoMachines)


def test_where_nobody_lives_nobody_is_elected():
    async def main(world):
        with_first(world, leader=-1, replicas=(77,), isr=(77,))
        response = await world.request(elect_leaders, election(FIRST, TopicPartition("orders", 9), kind=UNCLEAN))
        assert results(response) == {
            ("orders", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            ("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    in_wire_world(main)


def test_there_are_two_kinds_of_elections():
    async def main(world):
        response = await world.request(elect_leaders, election(FIRST, kind=7))
        assert (response.error_code, results(response)) == (
            ErrorCode.INVALID_REQUEST,
            {("orders", 0): ErrorCode.INVALID_REQUEST},
        )

    in_wire_world(main)
