"""Clusters with different names on one Ray do not see each other."""

import asyncio

import pytest

import eagleray
from eagleray.actors.lanes import direct
from eagleray.actors.lanes.turn import Turn
from eagleray.client.errors import ClusterNotFound
from tests.support.clusters import admin_of, check, fresh

pytestmark = pytest.mark.slow


def test_clusters_share_nothing_but_ray(separate, colocated):
    topic, transactional_id, only_here = fresh("same"), fresh("same"), fresh("only")
    for cluster, partitions in ((separate, 1), (colocated, 3)):
        admin_of(cluster).create_topic(topic, partitions=partitions)
    admin_of(separate).create_topic(only_here, partitions=1)
    assert admin_of(separate).list_topics()[topic] == 1
    assert admin_of(colocated).list_topics()[topic] == 3
    assert only_here not in admin_of(colocated).list_topics()

    # The same transactional id in both: neither fences the other.
    with (
        separate.producer(transactional_id=transactional_id) as here,
        colocated.producer(transactional_id=transactional_id) as there,
    ):
        for turn in range(3):
            for producer, where in ((here, b"here"), (there, b"there")):
                with producer.transaction():
                    producer.send(topic, b"%s %d" % (where, turn))
    check(separate, topic, [b"here 0", b"here 1", b"here 2"])
    check(colocated, topic, [b"there 0", b"there 1", b"there 2"])


def test_ray_of_a_program_and_what_runs_on_it_listen_on_loopback_alone(ray_here, cluster):
    assert ray_here.address.startswith("127.0.0.1:")
    assert {node["host"] for node in cluster.nodes()} == {"127.0.0.1"}


def test_unknown_cluster_is_not_found(separate):
    with pytest.raises(ClusterNotFound, match="no Eagleray cluster named"):
        eagleray.connect(fresh("nobody"))


def test_nodes_refuse_a_client_with_the_token_of_another_cluster(separate, colocated):
    (node, *_) = separate.nodes()

    async def try_to_connect():
        turn, token = Turn(asyncio.get_running_loop()), colocated._peers._token
        await direct.connect(node["host"], node["port"], token, turn, node_id=node["node_id"], timeout_s=10)

    with pytest.raises(ConnectionError):
        asyncio.run(try_to_connect())
