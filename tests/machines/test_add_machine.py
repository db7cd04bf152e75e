"""A fourth machine joins while clients write, and takes over from one that is drained and then lost."""

import pytest

from eagleray.errors import CannotAdd
from tests.support.cluster_load import Load
from tests.support.clusters import client_of, until, until_running, within_deadline
from tests.support.librdkafka_load import LibrdkafkaLoad
from tests.support.machines import address_of, three_machines

NAME = "growing"


@pytest.fixture(scope="module")
def machines():
    with three_machines() as machines:
        yield machines


def load_with_handles(cluster):
    async def scenario():
        async with client_of(cluster) as client:
            load = Load(client, replicas=3, producers=6, transactions=8)
            await load.prepare()
            await load.run()
            await load.check()

    within_deadline(scenario())


def test_a_machine_is_added_and_takes_over_from_one_that_is_drained_and_lost(machines, tmp_path):
    with machines.start_cluster(NAME, tmp_path, machines=3) as cluster:
        with pytest.raises(CannotAdd, match=r"Ray has no node at 127\.0\.0\.77, only at .*`ray start"):
            cluster.add_machine("127.0.0.77")
        with pytest.raises(CannotAdd, match="is a part of this cluster already"):
            cluster.add_machine(machines.addresses[1])

        with LibrdkafkaLoad(cluster, replicas=3) as load:
            new = address_of(machines.add_machine())
            added = machines.run(NAME, "node", "add", new, "--wait", "60")
            assert f"machine {new} has joined, with node 300" in added.stderr
            nodes = until_running(cluster)
            assert [(node["node_id"], node["machine"]) for node in nodes] == [
                *((100 * place, address) for place, address in enumerate(machines.addresses))
            ]

            drained = machines.addresses[1]
            assert cluster.admin.drain_node(drained) > 0
            until(lambda: not cluster.admin.kept_by(drained), f"nothing is left on {drained}")
            assert cluster.admin.kept_by(new) > set()
            machines.kill_machine(1)
            load_with_handles(cluster)
            load.goes_on()
        load.check(cluster)

    # What was added is still there when the cluster is started again, as is what was drained.
    machines.start_machine(1)
    with machines.start_cluster(NAME, tmp_path) as again:
        assert [node["machine"] for node in until_running(again)] == machines.addresses
        load.check(again)
