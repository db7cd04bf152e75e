"""A disk that hangs beneath one of three nodes: the others take over, and the node comes back, by itself or anew."""

from contextlib import ExitStack, contextmanager

import confluent_kafka

from eagleray.actors.process.loop_watch import EXIT_STATUS
from eagleray.testing import THREE_MACHINES
from tests.nodes.conftest import QUICK
from tests.support.clusters import until
from tests.support.hanging_disk import hanging_disk
from tests.support.librdkafka_load import PARTITIONS, LibrdkafkaLoad
from tests.support.node_process import CONTROLLER, NodeProcess

VICTIM = 200
MACHINE = "machine-2"
PROMPT = QUICK | {"storage.flush.timeout.ms": "8000"}
PATIENT = QUICK | {"storage.flush.timeout.ms": "300000"}


class ThreeProcesses:
    """Three nodes, each in a process and on a machine of its own; the load sees them as one cluster."""

    def __init__(self, directory, settings, stack):
        self._directory = directory
        self._settings = settings
        self._stack = stack
        self.processes = {}
        for node_id in THREE_MACHINES:
            self.start(node_id)
        self.admin = self.processes[CONTROLLER].admin

    def start(self, node_id):
        controller = self.processes.get(CONTROLLER)
        process = NodeProcess(
            self._directory / "data",
            self._settings,
            log=self._directory / f"log-{node_id}",
            layout=THREE_MACHINES,
            node_id=node_id,
            controller=controller,
        )
        self._stack.callback(process.stop)
        self.processes[node_id] = process

    def nodes(self):
        return [node for process in self.processes.values() for node in process.nodes()]

    def leaders_of(self, topic):
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.processes[CONTROLLER].bootstrap_servers})
        partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
        return [partition.leader for partition in partitions.values()]

    def in_sync(self, topic):
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.processes[CONTROLLER].bootstrap_servers})
        partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
        return [set(partition.isrs) for partition in partitions.values()]

    def committed(self, topic, count):
        """The values of so many committed records, and of those that come after them, if there are."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.processes[CONTROLLER].bootstrap_servers,
                "group.id": "check",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found, ended = [], set()
        try:
            while len(found) < count or len(ended) < PARTITIONS:
                message = consumer.poll(60)
                assert message is not None, f"{len(found)} of {count} records were read"
                if message.error() is None:
                    found.append(message.value())
                else:
                    ended.add(message.partition())
        finally:
            consumer.close()
        return sorted(found)


@contextmanager
def three_processes(directory, settings):
    with ExitStack() as stack:
        disk = stack.enter_context(hanging_disk(directory / "data" / MACHINE))
        cluster = ThreeProcesses(directory, settings, stack)
        # What hangs has to be let go before its process can be stopped.
        stack.callback(disk.thaw)
        with LibrdkafkaLoad(cluster, replicas=3) as load:
            load.goes_on(1)
            yield cluster, disk, load
        assert cluster.committed(load.topic, load.committed.total()) == sorted(load.committed.elements())


def others_lead(cluster, load):
    until(lambda: VICTIM not in cluster.leaders_of(load.topic), "others lead what the node has led")


def is_back(cluster, load):
    until(lambda: all(VICTIM in each for each in cluster.in_sync(load.topic)), "the node is in sync again")


def test_node_whose_disk_hangs_for_a_while_goes_on_by_itself(tmp_path):
    with three_processes(tmp_path, PATIENT) as (cluster, disk, load):
        victim = cluster.processes[VICTIM]
        assert VICTIM in cluster.leaders_of(load.topic)
        disk.freeze()
        others_lead(cluster, load)
        load.goes_on()
        until(lambda: "waits for its disk" in victim.log, "the node says that its disk hangs")
        disk.thaw()
        is_back(cluster, load)
        load.goes_on()
        assert "its loop runs again" in victim.log
        assert victim.is_running


def test_node_whose_disk_hangs_for_long_ends_itself_and_comes_back_anew(tmp_path):
    with three_processes(tmp_path, PROMPT) as (cluster, disk, load):
        victim = cluster.processes[VICTIM]
        disk.freeze()
        others_lead(cluster, load)
        until(lambda: "it ends itself" in victim.log, "the node ends itself")
        load.goes_on()
        disk.thaw()
        assert victim.wait() == EXIT_STATUS
        assert "filesystem.py" in victim.log, "it says in which call it was"
        cluster.start(VICTIM)
        is_back(cluster, load)
        load.goes_on()
