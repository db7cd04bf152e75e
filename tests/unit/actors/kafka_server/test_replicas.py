"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders on the wire."""

import pytest

from eagleray.broker.controller.replica_events import ElectLeaders, ListReassignments, ReassignPartitions
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import NO_NODE
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
from tests.support.cluster_in_memory import COORDINATOR, GROUPS, LEADER_A, LEADER_B
from tests.support.lanes_in_memory import Fate

PREFERRED, UNCLEAN = 0, 1
FIRST = TopicPartition("orders", 0)


def moves(*partitions, topic="orders", **fields):
    wanted = tuple(ReassignablePartition(number, replicas) for number, replicas in partitions)
    return AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(topic, wanted),), **fields)


async def outcomes(world, request, version=-1):
    response = await world.request(request, version=version)
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


def places_of_a_move(world):
    """The same, where what is moved does not arrive: the node on the other machine has just died."""
    here, there = places(world)
    world.kill(there)
    return here, there


async def moving(world, topics=None):
    response = await world.request(ListPartitionReassignmentsRequest(topics=topics), node=GROUPS)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return {
        (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    }


# Moves


@pytest.mark.parametrize("version", range(2))
async def test_a_move_is_begun_and_listed_until_it_is_taken_back(version, world_of_two_hosts):
    here, there = places_of_a_move(world_of_two_hosts)
    assert await outcomes(world_of_two_hosts, moves((0, (there,))), version) == {("orders", 0): (ErrorCode.NONE, None)}
    expected = {("orders", 0): ((there, here), (there,), (here,))}
    assert await moving(world_of_two_hosts) == expected
    assert await moving(world_of_two_hosts, (ListPartitionReassignmentsTopics("orders", (0, 1, 9)),)) == expected
    assert await moving(world_of_two_hosts, (ListPartitionReassignmentsTopics("invoices", (0,)),)) == {}
    assert await moving(world_of_two_hosts, ()) == {}
    assert await outcomes(world_of_two_hosts, moves((0, None)), version) == {("orders", 0): (ErrorCode.NONE, None)}
    assert await moving(world_of_two_hosts) == {}
    assert world_of_two_hosts.image.find(FIRST).replicas == (here,)


async def test_each_move_is_refused_on_its_own(world_of_two_hosts):
    here, there = places_of_a_move(world_of_two_hosts)
    request = moves((0, (there,)), (1, ()), (2, None), (9, (here,)), (-1, (here,)))
    found = await outcomes(world_of_two_hosts, request)
    assert {number: code for (_, number), (code, _) in found.items()} == {
        0: ErrorCode.NONE,
        1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        2: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        -1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [bool(message) for _, message in found.values()] == [False, True, True, True, True]
    assert [*await moving(world_of_two_hosts)] == [("orders", 0)]


@pytest.mark.parametrize(
    ("replicas", "said"),
    [((COORDINATOR,), "leads none"), ((77,), "leads none"), ((LEADER_A, LEADER_A), "machine of its own")],
)
async def test_replicas_are_on_leaders_and_each_on_a_machine_of_its_own(replicas, said, world_of_two_hosts):
    code, message = (await outcomes(world_of_two_hosts, moves((0, replicas))))["orders", 0]
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert said in message


async def test_a_partition_gets_more_replicas_only_where_the_client_allows_it(world_of_two_hosts):
    here, there = places_of_a_move(world_of_two_hosts)
    both = moves((0, (here, there)), allow_replication_factor_change=False)
    code, message = (await outcomes(world_of_two_hosts, both))["orders", 0]
    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "from 1 to 2" in message
    one = moves((0, (there,)), allow_replication_factor_change=False)
    assert code_of(await outcomes(world_of_two_hosts, one), 0) is ErrorCode.NONE
    # Of the two that it has while it is moved, one goes.
    assert code_of(await outcomes(world_of_two_hosts, both), 0) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert code_of(await outcomes(world_of_two_hosts, moves((0, (here, there)))), 0) is ErrorCode.NONE
    assert await moving(world_of_two_hosts) == {("orders", 0): ((here, there), (there,), ())}


async def test_a_partition_that_is_named_twice_is_not_moved(world_of_two_hosts):
    here, there = places(world_of_two_hosts)
    assert (
        code_of(await outcomes(world_of_two_hosts, moves((0, (there,)), (0, (here,)))), 0) is ErrorCode.INVALID_REQUEST
    )
    assert await moving(world_of_two_hosts) == {}


async def test_without_an_answer_of_the_controller_the_whole_request_has_timed_out(world_of_two_hosts):
    world_of_two_hosts.network.plan(ReassignPartitions, Fate.REPLY_LOST)
    world_of_two_hosts.network.plan(ListReassignments, Fate.REQUEST_LOST)
    world_of_two_hosts.network.plan(ElectLeaders, Fate.REQUEST_LOST, 2)
    answers = [
        await world_of_two_hosts.request(moves((0, None))),
        await world_of_two_hosts.request(ListPartitionReassignmentsRequest()),
        await world_of_two_hosts.request(election(FIRST)),
    ]
    assert [answer.error_code for answer in answers] == [ErrorCode.REQUEST_TIMED_OUT] * 3
    assert all(answer.error_message for answer in answers[:2])
    oldest = await world_of_two_hosts.request(election(FIRST), version=0)
    assert results(oldest) == {("orders", 0): ErrorCode.REQUEST_TIMED_OUT}


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
async def test_no_election_is_needed_where_the_first_replica_leads(version, world):
    request = election(FIRST, TopicPartition("orders", 9), TopicPartition("nothing", 0))
    response = await world.request(request, version=version)
    assert response.error_code == ErrorCode.NONE
    assert results(response) == {
        ("orders", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    everywhere = await world.request(election(), version=version)
    assert (everywhere.error_code, results(everywhere)) == (ErrorCode.NONE, {})


async def replicated(world, *replicas):
    """Have the first partition on both machines, the preferred leader first; return when both are in sync."""
    assert code_of(await outcomes(world, moves((0, replicas))), 0) is ErrorCode.NONE
    await world.until(lambda: world.image.find(FIRST).replicas == replicas)
    await world.until(lambda: {*world.image.find(FIRST).isr} == {*replicas})


async def lost(world, here, there):
    """Have the first partition on both machines, and then on none: the last to die is the only one in sync."""
    await replicated(world, here, there)
    world.kill(there)
    await world.until(lambda: world.image.find(FIRST).isr == (here,))
    world.kill(here)
    await world.until(lambda: world.image.find(FIRST).leader == NO_NODE)


async def test_a_first_replica_that_is_not_in_sync_does_not_lead(world_of_two_hosts):
    world = world_of_two_hosts
    here, there = places(world)
    await replicated(world, there, here)
    world.kill(there)
    await world.until(lambda: world.image.find(FIRST).isr == (here,))
    assert results(await world.request(election())) == {("orders", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


async def test_an_election_waits_for_the_leader_to_hand_over_but_not_for_ever(world_of_two_hosts):
    world = world_of_two_hosts
    here, there = places(world)
    await replicated(world, there, here)
    response = await world.request(election(FIRST))
    assert results(response) == {("orders", 0): ErrorCode.NONE}
    assert world.image.leader_of(FIRST) == there
    await replicated(world, here, there)
    world.kill(there)
    began_s = world.seconds
    response = await world.request(election(FIRST, timeout_ms=700))
    assert 0.7 <= world.seconds - began_s < 1
    assert results(response) == {("orders", 0): ErrorCode.REQUEST_TIMED_OUT}


@pytest.mark.parametrize("wants_all", [True, False])
async def test_an_unclean_election_gives_a_partition_without_a_leader_to_one_that_lives(wants_all, world_of_two_hosts):
    world = world_of_two_hosts
    here, there = places(world)
    await lost(world, here, there)
    await world.start_node(there)
    await world.until_registered()
    before = world.image.find(FIRST)
    request = election(*() if wants_all else (FIRST,), kind=UNCLEAN)
    assert results(await world.request(request, node=there))["orders", 0] is ErrorCode.NONE
    state = world.image.find(FIRST)
    assert (state.leader, state.isr, state.leader_epoch) == (there, (there,), before.leader_epoch + 1)
    again = await world.request(election(FIRST, kind=UNCLEAN), node=there)
    assert results(again) == {("orders", 0): ErrorCode.ELECTION_NOT_NEEDED}


async def test_no_replica_is_elected_where_none_lives(world_of_two_hosts):
    world = world_of_two_hosts
    await lost(world, *places(world))
    request = election(FIRST, TopicPartition("orders", 9), kind=UNCLEAN)
    assert results(await world.request(request, node=GROUPS)) == {
        ("orders", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_there_are_two_kinds_of_elections(world):
    response = await world.request(election(FIRST, kind=7))
    assert (response.error_code, results(response)) == (
        ErrorCode.INVALID_REQUEST,
        {("orders", 0): ErrorCode.INVALID_REQUEST},
    )
