"""Strangers at all nodes of a cluster on a real Ray, while an honest producer writes transactions beside them."""

import psutil
import pytest

from tests.support.clusters import fresh, until_running
from tests.support.librdkafka_load import LibrdkafkaLoad
from tests.support.strangers import Strangers

pytestmark = pytest.mark.slow

MB = 1024 * 1024
MOST_TOPICS = 100
MOST_GROUPS = 4 * 50
"""In the four partitions that tests have of `__consumer_offsets`."""

BOUNDS = {
    "queued.max.request.bytes": str(32 * MB),
    "queued.max.response.bytes": str(32 * MB),
    "max.topics.per.cluster": str(MOST_TOPICS),
    "max.groups.per.partition": str(MOST_GROUPS // 4),
    "max.members.per.partition": "50",
    "max.transactional.ids.per.partition": "50",
}
MOST_BYTES = 256 * MB
"""So much memory may a node take more than before: the bounds on what strangers make it keep, and the allocator's part.

Of those bounds, a half counts parts of requests besides whole ones, and responses are in memory up to three times.
"""

TRANSACTIONS = 2
"""How many honest transactions come after each kind of stranger."""


def memory_of(nodes):
    return {node["node_id"]: psutil.Process(node["pid"]).memory_info().rss for node in nodes}


def identities(nodes):
    return {node["node_id"]: (node["pid"], node["incarnation"]) for node in nodes}


def test_strangers_end_no_process_and_honest_clients_go_on(ray_here):
    with ray_here.start("separate", leaders=2, config=BOUNDS) as cluster:
        topic, compacted = fresh("strangers"), fresh("compacted")
        cluster.admin.create_topic(topic, partitions=2)
        cluster.admin.create_topic(compacted, partitions=1, configs={"cleanup.policy": "compact"})
        with LibrdkafkaLoad(cluster, replicas=1) as honest:
            honest.goes_on(1)
            nodes = until_running(cluster)
            before, memory = identities(nodes), memory_of(nodes)
            strangers = Strangers(honest.topic, topic, compacted)
            try:
                for kind, requests in strangers.kinds().items():
                    for node in nodes:
                        for request in requests:
                            strangers.send((node["host"], node["port"]), request)
                    honest.goes_on(TRANSACTIONS)
                    grown = {each: now - memory[each] for each, now in memory_of(nodes).items()}
                    assert max(grown.values()) <= MOST_BYTES, (kind, grown)
            finally:
                strangers.close()
            honest.goes_on(TRANSACTIONS)
            assert len(cluster.admin.list_topics()) == MOST_TOPICS, "the strangers have had their way up to the bound"
            assert 0 < len(cluster.admin.list_groups()) <= MOST_GROUPS
            after = until_running(cluster)
            assert identities(after) == before, "no process has ended, and no node was given up"
            assert {node["node_id"]: node["failed_requests"] for node in after if node["failed_requests"]} == {}
        honest.check(cluster)
        print(f"{max(grown.values()) / MB:.0f} MB more than before, {honest.transactions} transactions")
